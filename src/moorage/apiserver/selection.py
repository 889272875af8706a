"""Label and field selectors as query strings write them, and the test they make.

Used by lists, watches and collection deletes. The values of fields are taken once, when an object
is stored, so that selecting needs no decoding. Upstream: apimachinery pkg/labels/selector.go and
pkg/fields/selector.go; kubernetes@v1.37.1 `ToSelectableFields` in registries.
"""

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from moorage.apiserver.errors import bad_request
from moorage.apiserver.history import Stored
from moorage.apiserver.resources import STORED_AS, ApiResource
from moorage.errors import SelectorError
from moorage.model.labels import Requirement, Selector, make_requirement

# What a field is when the object does not have it; all others are then empty strings.
_ABSENT = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}

# The newer events API calls the same fields by other names; `regarding` is another.
_ALIASES = {"reportingController": "reportingComponent", "source": "reportingComponent"}

_PATHS = {
    row.storage: tuple((tuple(name.split(".")), _ABSENT.get(name, "")) for name in row.fields)
    for row in STORED_AS.values()
}


def field_values(storage: str, obj: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of the selectable fields, in the table's order."""
    return tuple([_value(obj, path, absent) for path, absent in _PATHS.get(storage, ())])


def _value(obj: Any, path: tuple[str, ...], absent: str) -> str:
    for step in path:
        if not isinstance(obj, dict):
            return absent
        obj = obj.get(step)
    if obj is None:
        return absent
    if obj is True or obj is False:
        return "true" if obj else "false"
    # Thousands of pods share a phase or a node's name: interning keeps one copy of each.
    return sys.intern(obj) if type(obj) is str else str(obj)


_LABEL = re.compile(
    r"""\s*+(?:
        (?P<absent>!\s*+)(?P<absent_key>[^\s,=!()<>]++)
      | (?P<key>[^\s,=!()<>]++)\s*+
        (?: (?P<set>\b(?:not)?in)\s*+\((?P<values>[^()]*+)\)
          | (?P<operator>==|=|!=|>|<)\s*+(?P<value>[^\s,=!()<>]*+)
        )?
    )\s*+(?:,|$)""",
    re.VERBOSE,
)
_FIELD = re.compile(r"(?P<key>[^=!,\\]+)(?P<operator>==|=|!=)(?P<value>(?:\\.|[^,\\=])*)(?:,|$)")
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In"}

_NAME, _NAMESPACE = -1, -2


class FieldTest(msgspec.Struct, frozen=True):
    """One field compared with one value; `index` points into `Stored.fields`."""

    index: int
    equal: bool
    value: str

    def passes(self, stored: Stored) -> bool:
        """Does the object pass?"""
        if self.index >= 0:
            actual = stored.fields[self.index]
        else:
            actual = stored.name if self.index == _NAME else stored.namespace
        return (actual == self.value) is self.equal


class Selection(msgspec.Struct, frozen=True):
    """Which objects a client wants to see."""

    labels: Selector | None = None
    fields: tuple[FieldTest, ...] = ()

    @property
    def everything(self) -> bool:
        """No restriction at all."""
        return self.labels is None and not self.fields

    def matches(self, stored: Stored) -> bool:
        """Is this object wanted?"""
        if self.labels is not None and not self.labels.matches(stored.labels):
            return False
        return all(test.passes(stored) for test in self.fields)


EVERYTHING = Selection()


def parse_selection(resource: ApiResource, labels: str, fields: str) -> Selection:
    """The selection of a request; raises a 400 on what cannot be parsed."""
    if not labels and not fields:
        return EVERYTHING
    return Selection(
        labels=parse_labels(labels) if labels.strip() else None,
        fields=_parse_fields(resource, labels, fields) if fields else (),
    )


def with_name(selection: Selection, name: str) -> Selection:
    """The same selection for one object only."""
    return Selection(selection.labels, (*selection.fields, FieldTest(_NAME, True, name)))


@lru_cache(maxsize=256)
def parse_labels(text: str) -> Selector:
    """A label selector such as `app in (a, b),!legacy,tier!=web`."""
    requirements: list[Requirement] = []
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            raise bad_request(f"unable to parse requirement: {text[position:]!r} is not understood")
        requirements.append(_requirement(match))
        position = match.end()
    return Selector(tuple(requirements))


def _requirement(match: re.Match[str]) -> Requirement:
    try:
        if match["absent"]:
            return make_requirement(match["absent_key"], "DoesNotExist")
        if match["set"]:
            values = [value.strip() for value in match["values"].split(",")]
            operator = "In" if match["set"] == "in" else "NotIn"
            return make_requirement(match["key"], operator, values)
        if match["operator"]:
            operator = _OPERATORS[match["operator"]]
            numeric = operator in ("Gt", "Lt")
            return make_requirement(match["key"], operator, [match["value"]], numeric=numeric)
        return make_requirement(match["key"], "Exists")
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None


def _parse_fields(resource: ApiResource, labels: str, text: str) -> tuple[FieldTest, ...]:
    tests: list[FieldTest] = []
    known = STORED_AS.get(resource.storage, resource).fields
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position)
        if match is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {text[position:]!r}")
        position = match.end()
        name = match["key"].strip().replace("regarding.", "involvedObject.")
        name = _ALIASES.get(name, name)
        value = re.sub(r"\\(.)", r"\1", match["value"])
        if name == "metadata.name":
            index = _NAME
        elif name == "metadata.namespace":
            index = _NAMESPACE
        elif name in known:
            index = known.index(name)
        else:
            where = f"{resource.api_version}, Resource={resource.plural}"
            where = where if resource.group else f"/{where}"
            raise bad_request(
                f'Unable to find "{where}" that match label selector "{labels}", '
                f'field selector "{text}": field label not supported: {name}'
            )
        tests.append(FieldTest(index, match["operator"] != "!=", value))
    return tuple(tests)
