"""Object templates: YAML in which `go_template` has put numbers and parameters.

The result is plain JSON, with fields written the way the API does even where a template is careless
about case, as Go is.
"""

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from moorage.benchmarks.perf.go_template import GoTemplate
from moorage.errors import InputError
from moorage.model.meta import Json
from moorage.simulator.documents import parse_documents
from moorage.tables import read_table

# Below these, names are the user's own and their case matters.
_FREE_FORM = frozenset(
    (
        *("labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits"),
        *("capacity", "allocatable", "attributes", "counters", "parameters", "value"),
    )
)
_NOTHING: Mapping[str, Any] = {}


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
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            asks = f", which {asked_by} names" if asked_by else ""
            raise InputError(f"{path}{asks}, cannot be read: {error.strerror}") from error
        self._fixed = None if "{{" in text else self._parsed(text)
        self._template = GoTemplate(text, str(path))

    def make(self, index: int = 0, count: int = 1, params: Mapping[str, Any] = _NOTHING) -> Json:
        """The object of a number; free to be changed."""
        if self._fixed is not None:
            return copy.deepcopy(self._fixed)
        return self._parsed(self._template.render({**params, "Index": index, "Count": count}))

    def _parsed(self, text: str) -> Json:
        documents = [
            found for found in parse_documents(text, str(self.path), is_json=False) if found
        ]
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError(f"{self.path}: expected one object")
        made: Json = _as_written(documents[0])
        return made


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
