"""Object templates: YAML with the little of Go's text/template that scheduler_perf uses.

`{{.Index}}`, `{{.Count}}` and calls such as `{{DivideInt .Index 5}}`. The result is plain JSON,
with fields written the way the API does even where a template is careless about case, as Go is.
"""

import copy
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from moorage.errors import InputError
from moorage.model.meta import Json
from moorage.simulator.documents import parse_documents
from moorage.tables import read_table

Number = int | float

_ACTION = re.compile(r"\{\{-?\s*(?P<inside>.*?)\s*-?\}\}")
# Below these, names are the user's own and their case matters.
_FREE_FORM = frozenset(
    (
        *("labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits"),
        *("capacity", "allocatable", "attributes", "counters", "parameters", "value"),
    )
)


def _product(*numbers: Number) -> Number:
    result: Number = 1
    for number in numbers:
        result *= number
    return result


_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "AddFloat": lambda *numbers: float(sum(numbers)),
    "AddInt": lambda *numbers: int(sum(numbers)),
    "DivideFloat": lambda one, other: one / other,
    "DivideInt": lambda one, other: int(one / other),
    "Mod": lambda one, other: int(one) % int(other),
    "MultiplyFloat": lambda *numbers: float(_product(*numbers)),
    "MultiplyInt": lambda *numbers: int(_product(*numbers)),
    "SubtractFloat": lambda one, other: float(one - other),
    "SubtractInt": lambda one, other: int(one - other),
}


def plain(name: str) -> Json:
    """What is made where no template is named (`manifests.yaml`); free to be changed."""
    return copy.deepcopy(_manifests()[name])


@cache
def _manifests() -> dict[str, Json]:
    return read_table("moorage.benchmarks.perf", "manifests.yaml", dict[str, Json])


class Template:
    """One template file."""

    def __init__(self, path: Path, asked_by: str = "") -> None:
        """Read it; `asked_by` is the field that names it."""
        self.path = path
        try:
            self._text = path.read_text(encoding="utf-8")
        except OSError as error:
            asks = f", which {asked_by} names" if asked_by else ""
            raise InputError(f"{path}{asks}, cannot be read: {error.strerror}") from error
        self._fixed = None if "{{" in self._text else self._parsed(self._text)

    def make(self, index: int = 0, count: int = 1) -> Json:
        """The object of a number; free to be changed."""
        if self._fixed is not None:
            return copy.deepcopy(self._fixed)
        values = {".Index": index, ".Count": count}
        text = _ACTION.sub(lambda match: self._value(match["inside"], values), self._text)
        return self._parsed(text)

    def _parsed(self, text: str) -> Json:
        documents = [
            found for found in parse_documents(text, str(self.path), is_json=False) if found
        ]
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError(f"{self.path}: expected one object")
        made: Json = _as_written(documents[0])
        return made

    def _value(self, inside: str, values: Mapping[str, int]) -> str:
        words = inside.split()
        try:
            if len(words) == 1:
                return str(self._operand(words[0], values))
            operands = [self._operand(word, values) for word in words[1:]]
            return str(_FUNCTIONS[words[0]](*operands))
        except (KeyError, IndexError, ValueError, TypeError, ZeroDivisionError) as error:
            what = "division by zero" if isinstance(error, ZeroDivisionError) else "not understood"
            raise InputError(
                f"{self.path}: {{{{{inside}}}}}: {what} (expected .Index, .Count, or one of "
                f"{', '.join(_FUNCTIONS)} with numbers)"
            ) from None

    @staticmethod
    def _operand(word: str, values: Mapping[str, int]) -> Number:
        if word.startswith("."):
            return values[word]
        return float(word) if "." in word else int(word)


def _as_written(value: Any) -> Any:
    """With fields as the API spells them: Go's decoder takes `NodeTaintsPolicy` too."""
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    if not isinstance(value, dict):
        return value
    made: Json = {}
    for key, item in value.items():
        field = key[:1].lower() + key[1:] if isinstance(key, str) else key
        made[field] = item if field in _FREE_FORM else _as_written(item)
    return made
