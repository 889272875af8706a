"""Which fields of an object the API knows: others are dropped and named, wrong types refused.

Goes by the table in `messages`; custom resources have schemas of their own (`schemas`). Decides
nothing about values that have the right type. The words are those of Go's JSON decoder.
Upstream: sigs.k8s.io/json, apiserver pkg/endpoints/handlers/{create,update,patch}.go.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from moorage.apiserver.errors import Json, UnreadableError
from moorage.apiserver.messages import (
    ANY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT32,
    INT64,
    MAP,
    QUANTITY,
    REPEATED,
    STRING,
    TIMES,
    Field,
    Message,
    messages,
)
from moorage.model.quantity import parse_milli

_MOST_COMPLAINTS = 100
_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_BOUNDS = {"int32": 2**31, "int64": 2**63, "uint32": 2**32}
_WORDS = {str: "string", bool: "bool", list: "array", dict: "object"}


class _WrongTypeError(Exception):
    """A value of a wrong type; the fields on the way to it are added on the way up."""

    def __init__(self, value: Any, go_type: str) -> None:
        word = _WORDS.get(type(value), "number")
        if word == "number" and go_type in _BOUNDS:
            word = f"number {value}"
        self.value, self.go_type = word, go_type
        self.struct = ""
        self.path: list[str] = []

    def within(self, message: Message, member: "_Member") -> None:
        """Note the field that the value stood in."""
        self.struct = self.struct or message.go_name
        self.path = [*member.path, *self.path]

    def __str__(self) -> str:
        place = f" Go struct field {self.struct}.{'.'.join(self.path)}"
        return f"json: cannot unmarshal {self.value} into{place} of type {self.go_type}"


def repeated_fields(body: bytes) -> list[str]:
    """Complaints about keys that JSON, which has been read once already, has more than once."""
    repeated: list[_Repeated] = []

    def made(pairs: list[tuple[str, Any]]) -> Json:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        repeated.append(_Repeated(found, pairs))
        return repeated[-1]

    whole = json.loads(body, object_pairs_hook=made)
    if not repeated:
        return []
    return [f'duplicate field "{path}"' for path in dict.fromkeys(_repeated(whole))]


class _Repeated(dict[str, Any]):
    """An object whose text has a key more than once."""

    def __init__(self, members: Json, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.pairs = pairs


def _repeated(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        seen: set[str] = set()
        for name, item in value.pairs if isinstance(value, _Repeated) else value.items():
            if name in seen:
                yield name
            seen.add(name)
            yield from under(name, _repeated(item))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from under(f"[{place}]", _repeated(item))


def under(step: str, paths: Iterable[str]) -> Iterator[str]:
    """Paths that begin in a field or an element of a list."""
    for path in paths:
        yield f"{step}{path}" if path.startswith("[") else f"{step}.{path}"


Check = Callable[[Any], list[str]]
"""Looks at a value: refuses a wrong type, drops and answers with the unknown fields in it."""


class _Member(NamedTuple):
    """A field as the members of a JSON object have it."""

    path: tuple[str, ...]
    """Its name, after the names of the Go structs that it is inlined through."""
    check: Check


def check_fields(message: Message, obj: Json) -> list[str]:
    """Drop what the message does not have; the complaints about that, at most a hundred."""
    try:
        found = _struct(message, obj)
    except _WrongTypeError as error:
        raise UnreadableError(str(error)) from None
    return [f'unknown field "{path}"' for path in found[:_MOST_COMPLAINTS]]


def _struct(message: Message, obj: Any) -> list[str]:
    members = _members(message.name)
    found: list[str] = []
    unknown: list[str] = []
    for name, value in obj.items():
        member = members.get(name)
        if member is None:
            unknown.append(name)
            found.append(name)
            continue
        try:
            below = _NOTHING if value is None else member.check(value)
        except _WrongTypeError as error:
            error.within(message, member)
            raise
        if below:
            found += under(name, below)
    for name in unknown:
        del obj[name]
    return found


@lru_cache(maxsize=1024)
def _members(name: str) -> dict[str, _Member]:
    """The members of a message's objects, inlined ones among them."""
    found: dict[str, _Member] = {}
    for field in messages()[name].fields:
        if field.name:
            found[field.name] = _Member((field.name,), _check(field))
        else:
            inlined = field.type.rpartition(".")[2]
            for word, member in _members(field.type).items():
                found[word] = member._replace(path=(inlined, *member.path))
    return found


def _check(field: Field) -> Check:
    message = messages().get(field.type)
    if field.form == REPEATED:
        element = _element(field, message, field.go_type.removeprefix("[]"))
        return lambda value: _list(element, field.go_type, value)
    if field.form == MAP:
        _, _, go_type = field.go_type.partition("]")
        element = _element(field, message, go_type or _ELEMENTS.get(field.go_type, ""))
        return lambda value: _map(element, field.go_type, value)
    return _element(field, message, field.go_type)


_ELEMENTS = {"v1.ResourceList": "resource.Quantity"}


def _element(field: Field, message: Message | None, go_type: str) -> Check:
    kind = field.type.rpartition(".")[2]
    if kind in TIMES:
        return _time
    if message is not None and kind not in _OPAQUE:
        return lambda value: _nested(message, go_type, value)
    return _scalar(kind, go_type)


_OPAQUE = frozenset({"FieldsV1", "RawExtension", ANY})


def _nested(message: Message, go_type: str, value: Any) -> list[str]:
    if not isinstance(value, dict):
        raise _WrongTypeError(value, go_type)
    return _struct(message, value)


def _list(element: Check, go_type: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise _WrongTypeError(value, go_type)
    found: list[str] = []
    for place, item in enumerate(value):
        below = _NOTHING if item is None else element(item)
        if below:
            found += under(f"[{place}]", below)
    return found


def _map(element: Check, go_type: str, value: Any) -> list[str]:
    if not isinstance(value, dict):
        raise _WrongTypeError(value, go_type)
    found: list[str] = []
    for name, item in value.items():
        below = _NOTHING if item is None else element(item)
        if below:
            found += under(name, below)
    return found


# ---- values without fields ----

_NOTHING: list[str] = []
_PLAIN = {STRING: str, BOOLEAN: bool}


def _scalar(kind: str, go_type: str) -> Check:
    if kind in _PLAIN:
        wanted = _PLAIN[kind]

        def plain(value: Any) -> list[str]:
            if type(value) is not wanted:
                raise _WrongTypeError(value, go_type)
            return _NOTHING

        return plain
    if kind in (INT32, INT64):
        return lambda value: _integer(value, go_type)
    return _SCALARS.get(kind, lambda value: _NOTHING)


def _integer(value: Any, go_type: str) -> list[str]:
    bound = _BOUNDS.get(go_type, 2**63)
    if type(value) is not int or not -bound <= value < bound:
        raise _WrongTypeError(value, go_type)
    return _NOTHING


def _double(value: Any) -> list[str]:
    if type(value) not in (int, float):
        raise _WrongTypeError(value, "float64")
    return _NOTHING


def _integer_or_text(value: Any) -> list[str]:
    if type(value) is not str:
        _integer(value, "int32")
    return _NOTHING


def _quantity(value: Any) -> list[str]:
    try:
        if type(value) not in (str, int, float):
            raise UnreadableError(_QUANTITY)
        parse_milli(value)
    except ValueError:
        raise UnreadableError(_QUANTITY) from None
    return _NOTHING


def _bytes(value: Any) -> list[str]:
    if type(value) is not str:
        raise _WrongTypeError(value, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        place = next((at for at, sign in enumerate(value) if not _is_base64(sign)), len(value) & ~3)
        raise UnreadableError(f"illegal base64 data at input byte {place}") from None
    return _NOTHING


def _is_base64(sign: str) -> bool:
    return sign.isascii() and (sign.isalnum() or sign in "+/")


def _time(value: Any) -> list[str]:
    if type(value) is not str:
        raise _WrongTypeError(value, "string")
    if not _RFC3339.fullmatch(value):
        layout = '"2006-01-02T15:04:05Z07:00"'
        shown = json.dumps(value)
        raise UnreadableError(f'parsing time {shown} as {layout}: cannot parse {shown} as "2006"')
    return _NOTHING


_SCALARS: dict[str, Check] = {
    BYTES: _bytes,
    DOUBLE: _double,
    QUANTITY: _quantity,
    "IntOrString": _integer_or_text,
}
