"""Flags and command lines: what a flag is, and how words become values.

Owns the grammar of kube-scheduler's command line (`--flag=value`, `--flag value`, `-v2`, `--`,
underscores for dashes, repeated flags) and the sentences about words that do not fit it. Must not
know any particular flag (`flags_scheduler`, `flags_serving`) nor what values mean (`options`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage.app.flag_values import FlagKind
from moorage.config.field_errors import quoted


class FlagError(Exception):
    """The command line cannot be read; the message is what is printed after `Error:`."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag's name, kind and text in the help."""

    name: str
    kind: FlagKind
    usage: str
    default: str | None = None
    """As it would be given; None is the kind's own zero."""
    shorthand: str = ""

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
    """Words that belong to no flag."""
    shown: Mapping[str, str]
    """Every flag as it would be printed, by name in order."""


def parse(sections: Iterable[Section], words: Sequence[str]) -> CommandLine:
    """Read a command line; a `FlagError` says what is wrong with it."""
    return _Reader([flag for section in sections for flag in section.flags]).read(list(words))


class _Reader:
    """Goes through the words once, from the left."""

    def __init__(self, flags: Sequence[Flag]) -> None:
        self._flags = {flag.name: flag for flag in flags}
        self._shorthands = {flag.shorthand: flag for flag in flags if flag.shorthand}
        self._values = {flag.name: flag.default_value for flag in flags}
        self._given: set[str] = set()
        self._rest: list[str] = []

    def read(self, words: list[str]) -> CommandLine:
        arguments: list[str] = []
        self._rest = words
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
