"""Flags, command lines and the help text: what a flag is, and how arguments become values.

Owns the grammar of kube-scheduler's command line (`--flag=value`, `--flag value`, `-v2`, `--`,
underscores for dashes, repeated flags), the sentences about arguments that do not fit it, and the
layout of the help, which is kube-scheduler's to the last space. Must not know any particular flag
(`flag_table`) nor what values mean (`options`).
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage.app.flag_values import STRING, FlagKind
from moorage.config.field_errors import quoted
from moorage.errors import FlagError

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


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag's name, kind and text in the help."""

    name: str
    kind: FlagKind
    usage: str
    default: str | None = None
    """As it would be given; None is the kind's own zero."""
    shorthand: str = ""
    choices: Sequence[str] = ()
    """Values that a shell should offer."""
    extensions: Sequence[str] = ()
    """The endings of files that a shell should offer."""

    @property
    def default_value(self) -> Any:
        """What the flag is when nobody gives it."""
        return self.kind.zero if self.default is None else self.kind.read(self.default)


@dataclass(frozen=True, slots=True)
class Section:
    """Flags that stand together in the help."""

    title: str
    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line that was read."""

    values: Mapping[str, Any]
    """The value of every flag, given or not."""
    given: frozenset[str]
    arguments: tuple[str, ...]
    """Arguments that belong to no flag."""
    shown: Mapping[str, str]
    """Every flag as it would be printed, by name in order."""


def parse(sections: Iterable[Section], arguments: Sequence[str]) -> CommandLine:
    """Read a command line; a `FlagError` says what is wrong with it."""
    return _Reader([flag for section in sections for flag in section.flags]).read(list(arguments))


class _Reader:
    """Goes through the arguments once, from the left."""

    def __init__(self, flags: Sequence[Flag]) -> None:
        self._flags = {flag.name: flag for flag in flags}
        self._shorthands = {flag.shorthand: flag for flag in flags if flag.shorthand}
        self._values = {flag.name: flag.default_value for flag in flags}
        self._given: set[str] = set()
        self._rest: list[str] = []

    def read(self, given: list[str]) -> CommandLine:
        arguments: list[str] = []
        self._rest = given
        while self._rest:
            word = self._rest.pop(0)
            if word == "--":
                arguments += self._rest
                break
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and len(word) > 1:
                self._short(word[1:])
            else:
                arguments.append(word)
        shown = {
            name: self._flags[name].kind.show(self._values[name]) for name in sorted(self._flags)
        }
        return CommandLine(self._values, frozenset(self._given), tuple(arguments), shown)

    def _long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        flag = self._flags.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}")
        if equals:
            self._set(flag, value)
        elif flag.kind.bare is not None:
            self._set(flag, flag.kind.bare)
        elif self._rest:
            self._set(flag, self._rest.pop(0))
        else:
            raise FlagError(f"flag needs an argument: --{name}")

    def _short(self, letters: str) -> None:
        """A letter with its value, or several letters of flags that need none."""
        while letters:
            letter, rest = letters[0], letters[1:]
            flag = self._shorthands.get(letter)
            if flag is None:
                raise FlagError(f"unknown shorthand flag: '{letter}' in -{letters}")
            following, letters = letters, ""
            if rest.startswith("=") and len(rest) > 1:
                self._set(flag, rest[1:])
            elif flag.kind.bare is not None:
                self._set(flag, flag.kind.bare)
                letters = rest
            elif rest:
                self._set(flag, rest)
            elif self._rest:
                self._set(flag, self._rest.pop(0))
            else:
                raise FlagError(f"flag needs an argument: '{letter}' in -{following}")

    def _set(self, flag: Flag, text: str) -> None:
        try:
            value = flag.kind.read(text)
        except ValueError as error:
            name = f"-{flag.shorthand}, " if flag.shorthand else ""
            raise FlagError(
                f"invalid argument {quoted(text)} for "
                f"{quoted(name + '--' + flag.name)} flag: {error}"
            ) from None
        if flag.kind.join is not None and flag.name in self._given:
            value = flag.kind.join(self._values[flag.name], value)
        self._values[flag.name] = value
        self._given.add(flag.name)


def help_text(sections: Iterable[Section], columns: int = 0) -> str:
    """What `--help` prints; 0 columns do not wrap."""
    return f"{_LONG}\n{usage_text(sections, columns)}"


def usage_text(sections: Iterable[Section], columns: int = 0) -> str:
    """What is printed before the sentence about a wrong flag."""
    return _USAGE + "".join(_section(section, columns) for section in sections)


def terminal_columns() -> int:
    """How wide the terminal is, or 0 where the output goes elsewhere."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
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
