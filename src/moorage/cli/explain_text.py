"""Text for a terminal: tables and paragraphs that know its width.

Owns how cells are laid out; values of objects cannot command the terminal (`printable`).
Knows nothing of what is explained: `explain_tables` says what goes where.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

from moorage.printable import printable

_GAP = "  "
_NARROWEST = 24
"""A last column with less room than this goes below its row: it would be a ribbon of words."""
_BELOW = " " * 8


def terminal_width() -> int | None:
    """How many characters fit in a line; None where nobody reads at a terminal."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, 40)
    return None


def paragraph(text: str, width: int | None, *, hang: str = "") -> list[str]:
    """Text in lines of the width given; `hang` begins all but the first."""
    text = printable(text)
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=hang, break_on_hyphens=False)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: str = "",
    width: int | None = None,
) -> list[str]:
    """Columns as wide as their widest cell; the last is wrapped where the line ends, or below.

    `right` names the columns to align right, by place: "r" or anything else for left.
    """
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    last = len(header) - 1
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]
    before = sum(widths[:last]) + len(_GAP) * last
    room = None if width is None else width - before
    crowded = room is not None and room < min(_NARROWEST, widths[last])
    if crowded:
        cells[0] = [*cells[0][: last - 1], " / ".join(cells[0][last - 1 :]), ""]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(space) if right[place : place + 1] == "r" else cell.ljust(space)
            for place, (cell, space) in enumerate(zip(row[:last], widths, strict=False))
        ]
        begun = _GAP.join([*padded, ""])
        text = row[last].rjust(widths[last]) if right[last : last + 1] == "r" else row[last]
        if crowded and width is not None:
            lines += [begun.rstrip(), *_below(text, width)]
        elif room is not None and len(text) > room:
            first, *more = textwrap.wrap(text, room, break_on_hyphens=False)
            lines += [begun + first, *(" " * before + line for line in more)]
        else:
            lines.append((begun + text).rstrip())
    return lines


def _below(text: str, width: int) -> list[str]:
    """The last cell of a row that has no room for it, in lines of its own."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=_BELOW,
        subsequent_indent=_BELOW,
        break_on_hyphens=False,
    )


def widest(lines: Sequence[str]) -> int:
    """The length of the longest line."""
    return max(map(len, lines), default=0)


def shortened(names: Sequence[str], total: int, most: int = 3) -> str:
    """A few names, and how many more there are of `total`."""
    shown = ", ".join(names[:most])
    left = total - min(len(names), most)
    if left <= 0:
        return shown
    return f"{shown} and {left} more" if shown else ""


def duration(seconds: float) -> str:
    """`45s`, `12m`, `3h40m`, `5d2h`: two units at most, as kubectl does it."""
    whole = max(0, round(seconds))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for place, (unit, size) in enumerate(units):
        if whole >= size:
            many, rest = divmod(whole, size)
            smaller, inside = units[place + 1] if place + 1 < len(units) else ("", 1)
            below = rest // inside if smaller else 0
            return f"{many}{unit}{below}{smaller}" if below else f"{many}{unit}"
    return "0s"


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
