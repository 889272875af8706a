"""A result as one HTML file: tables, and plots by the library of the page; it needs no network."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.http.explain_page import chart_library
from moorage.scenarios.quality.titles import (
    MeasureRow,
    figure,
    parting_scores,
    parting_sentences,
    rows_of,
)
from moorage.version import __version__

_MOST_GROUPS = 30
"""Of namespaces and classes; all of them are in the data."""


def report_library(path: Path) -> str:
    """The chart library's source; `InputError` if it is not installed, before a run is in vain."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no folder {path.parent}")
    library = chart_library()
    if library is None:
        raise InputError(
            f"{path}: a report needs the Python package plotly, which is not installed: "
            "pip install 'moorage[page]'"
        )
    return library.read_text("utf-8")


def report(result: Json, title: str, library: str) -> str:
    """The whole file."""
    rows = rows_of(result)
    parts = {
        "title": escape(title),
        "version": escape(__version__),
        "style": _asset("http", "page/page.css") + _asset("scenarios", "report_page/report.css"),
        "tables": "\n".join(_tables(result, rows)),
        "data": _embedded({"result": result, "rows": [row._asdict() for row in rows]}),
        "script": _asset("scenarios", "report_page/report.js"),
        "library": library,
    }
    page = _asset("scenarios", "report_page/report.html")
    # The library comes last: nothing is looked for in it.
    for name, text in parts.items():
        page = page.replace(f"<!-- {name} -->", text)
    return page


def write_report(path: Path, text: str) -> None:
    """Write the file."""
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _asset(package: str, name: str) -> str:
    return files(f"moorage.{package}").joinpath(name).read_text("utf-8")


def _embedded(value: Json) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _tables(result: Json, rows: Sequence[MeasureRow]) -> Iterable[str]:
    schedulers = result["schedulers"]
    header = ["", *(one["name"] for one in schedulers)]
    cells = [
        [row.title, *(figure(one["summary"].get(row.name), row) for one in schedulers)]
        for row in rows
    ]
    yield _table("Means over the seeds, with 95 % confidence intervals", header, cells)
    for comparison in result["comparisons"]:
        found = [(row, comparison["differences"].get(row.name)) for row in rows]
        cells = [
            [row.title, figure(value, row), _verdict(value["seen"])]
            for row, value in found
            if value is not None
        ]
        title = f"{comparison['name']} less {comparison['with']}, seed by seed"
        yield _table(title, ["", "difference", ""], cells)
        yield "".join(f"<p>{escape(one)}</p>" for one in parting_sentences(comparison))
        titles, scores = parting_scores(comparison)
        if scores:
            yield _table("Scores of the first decision that differs", titles, scores)
    for kind, title in (
        ("namespaces", "Namespaces"),
        ("priorityClasses", "Priority classes"),
        ("labels", "By label"),
    ):
        yield from _groups(schedulers, kind, title)


def _groups(schedulers: Sequence[Json], kind: str, title: str) -> Iterable[str]:
    """The groups of each scheduler's first run, if there are several."""
    header = [
        "",
        "scheduler",
        "pods",
        "pending",
        "waiting p90, s",
        "preempted",
        "evicted",
        "dominant share, %",
    ]
    cells = [
        [
            name or "(none)",
            one["name"],
            str(group["pods"]["created"]),
            str(group["pods"]["pending"]),
            _number(group["waitingSeconds"]["p90"]),
            str(group["pods"]["preempted"]),
            str(group["pods"]["evicted"]),
            f"{100 * group['dominantShare']:.2f} of {group['dominantResource'] or 'nothing'}",
        ]
        for one in schedulers
        for name, group in list(one["runs"][0].get(kind, {}).items())[:_MOST_GROUPS]
    ]
    if len(cells) > len(schedulers):
        seed = schedulers[0]["runs"][0]["seed"]
        yield _table(f"{title}, seed {seed}", header, sorted(cells))


def _verdict(seen: bool | None) -> str:
    if seen is None:
        return "one seed does not tell"
    return "" if seen else "no difference seen"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<section><h2>{escape(title)}</h2>\n<div class="scroll"><table><thead><tr>{head}</tr>'
        f"</thead>\n<tbody>{body}</tbody></table></div></section>"
    )
