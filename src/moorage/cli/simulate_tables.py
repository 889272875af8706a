"""What `moorage simulate` prints of a result: means side by side, and what differs."""

from collections.abc import Sequence

from moorage.cli.output import counted, paragraph, print_line, print_table, terminal_width
from moorage.model.meta import Json
from moorage.scenarios.quality.titles import (
    MeasureRow,
    figure,
    parting_scores,
    parting_sentences,
    rows_of,
)


def print_result(result: Json) -> None:
    """All of it as tables."""
    schedulers, rows = result["schedulers"], rows_of(result)
    header = ["", *(scheduler["name"] for scheduler in schedulers)]
    cells = [
        [row.title, *(figure(one["summary"].get(row.name), row) for one in schedulers)]
        for row in rows
    ]
    print_table(header, cells, right=" " + "r" * len(schedulers))
    for comparison in result["comparisons"]:
        print()
        _print_comparison(comparison, rows)
        for sentence in parting_sentences(comparison):
            _print_wrapped(sentence)
        titles, scores = parting_scores(comparison)
        if scores:
            print_table(titles, scores, right=" " + "r" * len(titles))
    print()
    for scheduler in schedulers:
        for run in scheduler["runs"]:
            took = f"{run['seconds']:,.0f} s of virtual time"
            print_line(f"{scheduler['name']}, seed {run['seed']}: {took}; {run['ended']}")


def _print_comparison(comparison: Json, rows: Sequence[MeasureRow]) -> None:
    names = f"{comparison['name']} less {comparison['with']}"
    found = [(row, comparison["differences"].get(row.name)) for row in rows]
    differences = [(row, value) for row, value in found if value is not None]
    if all(value["seen"] is None for _, value in differences):
        print_line(f"{names}: one seed does not tell what is chance; repetitions.count has more")
        shown = [(row, value) for row, value in differences if value["mean"]]
    else:
        print_line(f"{names}, seed by seed: the differences that chance does not explain")
        shown = [(row, value) for row, value in differences if value["seen"]]
    if shown:
        cells = [[row.title, figure(value, row)] for row, value in shown]
        print_table(["", "DIFFERENCE"], cells, right=" r")
    same = [
        row.title.rpartition(", ")[0] or row.title for row, v in differences if v["seen"] is False
    ]
    if same:
        text = f"no difference seen in {counted(len(same), 'measure')}: {'; '.join(same)}"
        _print_wrapped(text)


def _print_wrapped(text: str) -> None:
    for line in paragraph(text, terminal_width() or 120, hang="  "):
        print_line(line)
