"""What a YAML document must not have, whatever it is about, and where it stands."""

import math
import re
from typing import NamedTuple

import yaml

_MOST_VALUES = 1_000_000
_MOST_DIGITS = 100
_INT = "tag:yaml.org,2002:int"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_FLOAT = "tag:yaml.org,2002:float"


class Flaw(NamedTuple):
    """What is wrong with a document."""

    line: int
    what: str


class _FlawError(Exception):
    """Ends the search."""


def find_flaw(root: yaml.Node) -> Flaw | None:
    """The first thing that no reader could make sense of; None if there is none."""
    search = _Search()
    try:
        search.look_at(root)
    except _FlawError as error:
        return Flaw(search.line, str(error))
    return None


class _Search:
    """Values behind aliases count each time, as they do for whoever reads the document."""

    def __init__(self) -> None:
        self.line = 1
        self._around = set[int]()
        self._values = 0

    def look_at(self, node: yaml.Node) -> None:
        self.line = node.start_mark.line + 1
        self._values += 1
        if self._values > _MOST_VALUES:
            raise _FlawError(f"expected at most {_MOST_VALUES:,} values, those of aliases included")
        if isinstance(node, yaml.ScalarNode):
            _check_scalar(node)
            return
        if id(node) in self._around:
            raise _FlawError("expected no alias within what it stands for")
        self._around.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._look_at_keys(node)
        for child in node.value:
            for one in child if isinstance(child, tuple) else (child,):
                self.look_at(one)
        self._around.remove(id(node))

    def _look_at_keys(self, node: yaml.MappingNode) -> None:
        names = set[str]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                self.line = key.start_mark.line + 1
                raise _FlawError(f"expected each key once, got {key.value!r} again")
            names.add(key.value)


def _check_scalar(node: yaml.ScalarNode) -> None:
    if _CONTROL.search(node.value):
        raise _FlawError(
            f"expected text without control characters or lone surrogates, got {node.value[:40]!r}"
        )
    if node.tag == _INT and len(node.value) > _MOST_DIGITS:
        raise _FlawError(f"expected at most {_MOST_DIGITS} digits, got {len(node.value)}")
    if node.tag != _FLOAT:
        return
    try:
        is_finite = math.isfinite(float(node.value.replace("_", "")))
    except ValueError:
        # YAML's own forms: .inf, .nan, and numbers to the base of 60.
        is_finite = not node.value.lower().endswith((".inf", ".nan"))
    if not is_finite:
        raise _FlawError(f"expected a number that is finite, got {node.value[:40]}")
