"""The tables of an explanation: rejections, scores, one node against the best, the matrix.

Owns which columns there are and what is left out where there is no room. Prints values that others
made; computes nothing but differences between scores.
"""

import re
from collections.abc import Iterable, Sequence

from moorage.cli.output import Printer, counted, paragraph, shortened, table, widest
from moorage.explain.report import Matrix, NodeScores, NodeVerdicts, Rejection, ScorePart

_EXAMPLES = 3
_WIDE_EXAMPLES = 10
MARKS = {"ok": ".", "rejected": "x", "skipped": "-", "not considered": " "}
"""Verdicts in a matrix."""
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]+|[A-Z]+|[^A-Z]+")


def print_rejections(out: Printer, rejections: Sequence[Rejection]) -> None:
    """Who rejects how many nodes, and why."""
    if not rejections:
        return
    most = _WIDE_EXAMPLES if out.wide else _EXAMPLES
    points = out.wide or any(one.point != "Filter" for one in rejections)
    header = ["NODES", "ALONE", "PLUGIN", "POINT", "CODE", "REASON", "EXAMPLES"]
    rows = [
        [
            str(one.nodes),
            str(one.only),
            one.plugin,
            one.point,
            one.code,
            f"{one.reason} (with nominated pods)" if one.with_nominated_pods else one.reason,
            shortened(one.examples, one.nodes, most),
        ]
        for one in rejections
    ]
    shown = [place for place in range(len(header)) if place not in (3, 4)]
    if points:
        shown.insert(3, 3)
    if out.wide:
        shown.insert(4, 4)
    out.table(
        "Rejections (ALONE: nodes that nothing else rejects)",
        [header[place] for place in shown],
        [[row[place] for place in shown] for row in rows],
        right="rr",
    )


# Scores.


def print_scores(out: Printer, scores: Sequence[NodeScores], feasible: int, note: str = "") -> None:
    """The best nodes and where their totals come from."""
    if not scores:
        return
    title = f"Scores of {_share(len(scores), feasible)}, weighted{note}"
    if out.wide:
        out.section(f"{title} (raw > weighted)", _score_lines(scores, None, raw=True))
        return
    same, different = _split(scores)
    lines = _score_lines(scores, different)
    if out.width is not None and widest(lines) > out.width:
        lines = _score_list(scores, different, out.width)
    if same and len(scores) > 1:
        equal = ", ".join(f"{part.plugin} {part.weighted}" for part in same)
        lines += paragraph(f"  the same for all: {equal}", out.width, hang="  ")
    out.section(title, lines)


def _share(shown: int, total: int) -> str:
    if shown >= total:
        return counted(total, "feasible node")
    return f"{shown} of {total} feasible nodes"


def _split(scores: Sequence[NodeScores]) -> tuple[list[ScorePart], set[str]]:
    """The parts that are equal for all nodes, and the names of the others."""
    if len(scores) < 2:
        return [], {part.plugin for part in scores[0].parts}
    values: dict[str, set[int]] = {}
    for score in scores:
        for part in score.parts:
            values.setdefault(part.plugin, set()).add(part.weighted)
    different = {plugin for plugin, found in values.items() if len(found) > 1}
    return [part for part in scores[0].parts if part.plugin not in different], different


def _score_lines(
    scores: Sequence[NodeScores], shown: set[str] | None, *, raw: bool = False
) -> list[str]:
    """A column per plugin under its name."""
    parts = [part for part in scores[0].parts if shown is None or part.plugin in shown]
    header, *below = stacked_header([(part.plugin, part.weight) for part in parts])
    wanted = {part.plugin for part in parts}
    rows = [
        [
            f"{'*' if score.chosen else ' '} {score.node}",
            str(score.total),
            *(_cell(part, raw=raw) for part in score.parts if part.plugin in wanted),
        ]
        for score in scores
    ]
    return table(header, [*below, *rows], right=" " + "r" * (len(parts) + 1))


def stacked_header(weights: Iterable[tuple[str, int]]) -> list[list[str]]:
    """The lines above scores: plugin names broken at capitals, so that columns stay narrow."""
    stacks = [[*_CAMEL.findall(plugin), f"x{weight}"] for plugin, weight in weights]
    height = max((len(stack) for stack in stacks), default=1)
    columns = [[""] * (height - len(stack)) + stack for stack in (["  NODE"], ["TOTAL"], *stacks)]
    return [list(line) for line in zip(*columns, strict=True)]


def _cell(part: ScorePart, *, raw: bool) -> str:
    return f"{part.raw} > {part.weighted}" if raw else str(part.weighted)


def _score_list(scores: Sequence[NodeScores], shown: set[str], width: int) -> list[str]:
    """For terminals that are too narrow for columns: the parts one after the other."""
    rows = [
        [
            f"{'*' if score.chosen else ' '} {score.node}",
            str(score.total),
            ", ".join(f"{p.plugin} {p.weighted}" for p in score.parts if p.plugin in shown),
        ]
        for score in scores
    ]
    return table(["  NODE", "TOTAL", "PARTS"], rows, right=" r", width=width)


# One node.


def print_why_not(
    out: Printer, row: NodeVerdicts, other: NodeScores | None, alone: str = ""
) -> None:
    """What every plugin says of one node; where it is feasible, its points beside another's.

    `alone` says why there is no other to compare with.
    """
    if row.feasible:
        _print_against(out, row, other, alone)
    else:
        said = [verdict for verdict in row.verdicts if verdict.verdict == "rejected"]
        rows = [[verdict.plugin, verdict.code, ", ".join(verdict.reasons)] for verdict in said]
        title = f"Why not {row.node}: rejected by {counted(len(said), 'plugin')}"
        out.table(title, ["PLUGIN", "CODE", "REASONS"], rows)
    if out.wide:
        for word in ("ok", "skipped", "not considered"):
            plugins = [v.plugin for v in row.verdicts if v.verdict == word]
            if plugins:
                out.more([f"  {word}: {', '.join(plugins)}"])


def _print_against(out: Printer, row: NodeVerdicts, other: NodeScores | None, alone: str) -> None:
    if other is None or row.total is None:
        score = "" if row.total is None else f", and it scores {row.total}"
        because = f"; {alone}" if alone and other is None else ""
        out.sentence(f"Why not {row.node}: no plugin rejects it{score}{because}.")
        return
    if other.node == row.node:
        out.sentence(f"Why {row.node}: no plugin rejects it, and it scores {row.total}.")
        return
    theirs = {part.plugin: part for part in other.parts}
    rows = [
        [
            part.plugin,
            str(part.weight),
            f"{part.raw} > {part.weighted}",
            f"{theirs[part.plugin].raw} > {theirs[part.plugin].weighted}",
            _difference(part.weighted - theirs[part.plugin].weighted),
        ]
        for part in row.parts
        if part.plugin in theirs
    ]
    more = row.total - other.total
    rows.append(["total", "", str(row.total), str(other.total), _difference(more)])
    words = f"{abs(more)} less than" if more < 0 else f"{more} more than" if more else "as much as"
    out.table(
        f"Why not {row.node}: it is feasible and scores {words} {other.node} (raw > weighted)",
        ["PLUGIN", "WEIGHT", row.node, other.node, "DIFFERENCE"],
        rows,
        right=" rrrr",
    )


def _difference(points: int) -> str:
    return f"{points:+d}" if points else "0"


# The matrix.


def print_matrix(out: Printer, matrix: Matrix) -> None:
    """Node x plugin, in marks; plugins are columns by number, explained above."""
    names = [f"{number} {name}" for number, name in enumerate(matrix.plugins, 1)]
    header = ["NODE", "FEASIBLE", *map(str, range(1, len(names) + 1)), "TOTAL", "WHY NOT"]
    rows = []
    for row in matrix.rows:
        marks = {verdict.plugin: MARKS.get(verdict.verdict, "?") for verdict in row.verdicts}
        why = "; ".join(
            f"{verdict.plugin}: {', '.join(verdict.reasons)}"
            for verdict in row.verdicts
            if verdict.verdict == "rejected"
        )
        rows.append(
            [
                row.node,
                "yes" if row.feasible else "no",
                *(marks.get(plugin, " ") for plugin in matrix.plugins),
                "" if row.total is None else str(row.total),
                why,
            ]
        )
    right = "  " + " " * len(names) + "r"
    lines = paragraph(f"  {', '.join(names)}", out.width, hang="  ")
    lines += ["", *table(header, rows, right=right, width=out.width)]
    left = matrix.total - matrix.offset - len(matrix.rows)
    if left > 0:
        lines += ["", f"{counted(left, 'more node')}; --matrix shows them all"]
    out.section("Every plugin about every node (. ok, x rejected, - nothing to say)", lines)
