"""The help and usage texts: flags in sections, wrapped to the terminal.

Owns the layout, which is kube-scheduler's to the last space. Must not know any particular flag.
"""

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from moorage.app.flag_values import STRING
from moorage.app.flags import Flag, Section
from moorage.config.field_errors import quoted

PROGRAM = "kube-scheduler"
"""The name in sentences: tools look for them, whatever the executable is called."""

_LONG = """\
The Kubernetes scheduler is a control plane process which assigns
Pods to Nodes. The scheduler determines which Nodes are valid placements for
each Pod in the scheduling queue according to constraints and available
resources. The scheduler then ranks each valid Node and binds the Pod to a
suitable Node. Multiple different schedulers may be used within a cluster;
kube-scheduler is the reference implementation.
See [scheduling](https://kubernetes.io/docs/concepts/scheduling-eviction/)
for more information about scheduling and the kube-scheduler component.
"""
_USAGE = f"Usage:\n  {PROGRAM} [flags]\n"
_NARROWEST = 24
_BLOCK_INDENT = 16
_SLOP = 5
"""How much longer than allowed a last line may be, lest a short word stands alone."""


def help_text(sections: Iterable[Section], columns: int = 0) -> str:
    """What `--help` prints; 0 columns do not wrap."""
    return f"{_LONG}\n{usage_text(sections, columns)}"


def usage_text(sections: Iterable[Section], columns: int = 0) -> str:
    """What is printed before the sentence about a wrong flag."""
    return _USAGE + "".join(_section(section, columns) for section in sections)


def terminal_columns(stream: TextIO | None = None) -> int:
    """How wide the terminal is, or 0 where the output goes elsewhere."""
    stream = sys.stdout if stream is None else stream
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no terminal, or not even a file
        return 0


def _section(section: Section, columns: int) -> str:
    heads = [_head(flag) for flag in section.flags]
    # On a terminal upstream pads every section with an invisible flag as wide as the line, so that
    # the texts of all sections begin in the same column.
    widths = [len(head) for head in heads]
    if columns > _NARROWEST:
        widths.append(len("      --") + columns - _NARROWEST + len(" int"))
    width = max(widths)
    indent = width + 3
    lines = "".join(
        f"{head}{' ' * (width - len(head))}   {_wrapped(_text(flag), indent, columns)}\n"
        for head, flag in zip(heads, section.flags, strict=True)
    )
    return f"\n{section.title} flags:\n\n{lines}"


def _head(flag: Flag) -> str:
    shorthand = f"  -{flag.shorthand}, " if flag.shorthand else "      "
    return f"{shorthand}--{flag.name}" + (f" {flag.kind.word}" if flag.kind.word else "")


def _text(flag: Flag) -> str:
    default = flag.kind.show(flag.default_value)
    if default in flag.kind.unsaid:
        return flag.usage
    return f"{flag.usage} (default {quoted(default) if flag.kind is STRING else default})"


def _wrapped(text: str, indent: int, columns: int) -> str:
    if columns == 0:
        return text.replace("\n", "\n" + " " * indent)
    room, start = columns - indent, ""
    if room < _NARROWEST:  # too narrow beside the flag: a block below it
        indent = _BLOCK_INDENT
        room, start = columns - indent, "\n" + " " * indent
    if room < _NARROWEST:
        return text.replace("\n", start)
    margin = "\n" + " " * indent
    lines: list[str] = []
    while text or not lines:
        line, text = _cut(text, room - _SLOP)
        lines.append(line.replace("\n", margin))
    return start + margin.join(lines)


def _cut(text: str, room: int) -> tuple[str, str]:
    """The first line of a text and what remains."""
    if room + _SLOP > len(text):
        return text, ""
    space = max(text.rfind(mark, 0, room) for mark in " \t\n")
    if space <= 0:
        return text, ""
    newline = text.rfind("\n", 0, room)
    end = newline if 0 < newline < space else space
    return text[:end], text[end + 1 :]
