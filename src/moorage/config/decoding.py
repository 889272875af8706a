"""From plain values to configuration values, strictly.

Owns how a value is matched with a field's type: unknown fields are noted with their path, a value
of the wrong type is an error that says what was expected, and a null means what it means to
upstream: the field was not given. Must not know any particular field or rule.
"""

import base64
import binascii
import functools
import math
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from moorage.config.field_errors import child, quoted
from moorage.errors import ConfigError
from moorage.model.duration import Duration, parse_duration

T = TypeVar("T", bound=msgspec.Struct)

_MOST_UNKNOWN = 100
_LARGEST_FLOAT32 = 3.4028235677973366e38


def decode(kind: type[T], value: object, unknown: list[str]) -> T:
    """The value as a `kind`; fields it does not have are added to `unknown`, as sentences.

    A `ConfigError` names the path, from `value` on, of the first value that has the wrong type.
    """
    return cast("T", _Decoder(unknown).decode(_type_info(kind), value, ""))


def as_map(value: object) -> dict[str, object]:
    """The fields of a value that must be a map, for a caller to take some out."""
    if value is not None and not isinstance(value, Mapping):
        raise _mismatch("", "a map", value)
    return dict(value or {})


@functools.cache
def _type_info(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


class _Decoder:
    def __init__(self, unknown: list[str]) -> None:
        self._unknown = unknown

    def decode(self, expected: inspect.Type, value: object, path: str) -> Any:
        """One value; `None` only reaches the types that have a meaning for it."""
        match expected:
            case inspect.Metadata(type=inner, extra=extra):
                return self._shaped(cast("dict[str, Any]", extra), inner, value, path)
            case inspect.UnionType(types=types):
                inner = next(t for t in types if not isinstance(t, inspect.NoneType))
                return None if value is None else self.decode(inner, value, path)
            case inspect.StructType(cls=cls) if cls is Duration:
                return _duration(value, path)
            case inspect.StructType():
                return self._struct(expected, value, path)
            case inspect.VarTupleType(item_type=item_type):
                return tuple(self._list(item_type, value, path))
            case inspect.ListType(item_type=item_type):
                return self._list(item_type, value, path)
            case inspect.DictType(value_type=value_type):
                return self._dict(value_type, value, path)
            case inspect.AnyType():
                return value
        return _scalar(expected, value, path)

    def _shaped(
        self, extra: dict[str, Any], inner: inspect.Type, value: object, path: str
    ) -> object:
        """A mapping that stays one, but must have the fields of the shape."""
        if value is None:
            return self.decode(inner, value, path)
        return msgspec.to_builtins(self.decode(_type_info(extra["shape"]), value, path))

    def _struct(self, expected: inspect.StructType, value: object, path: str) -> msgspec.Struct:
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise _mismatch(path, "a map", value)
        fields = {field.encode_name: field for field in expected.fields}
        given = {}
        for key, item in value.items():
            here = child(path, str(key))
            if key not in fields:
                self._note_unknown(here)
            elif item is not None or _reads_null(fields[key].type):
                given[fields[key].name] = self.decode(fields[key].type, item, here)
        return expected.cls(**given)

    def _list(self, item_type: inspect.Type, value: object, path: str) -> list[object]:
        if not isinstance(value, (list, tuple)):
            raise _mismatch(path, "a list", value)
        return [
            self.decode(item_type, item, f"{path}[{index}]") for index, item in enumerate(value)
        ]

    def _dict(self, value_type: inspect.Type, value: object, path: str) -> dict[str, object]:
        if not isinstance(value, Mapping):
            raise _mismatch(path, "a map", value)
        return {
            str(key): self.decode(value_type, item, child(path, str(key)))
            for key, item in value.items()
        }

    def _note_unknown(self, path: str) -> None:
        if len(self._unknown) < _MOST_UNKNOWN:
            self._unknown.append(f"unknown field {quoted(path)}")


def _reads_null(expected: inspect.Type) -> bool:
    """Whether a null is looked at: upstream refuses one for a duration that is not optional."""
    return isinstance(expected, inspect.StructType) and expected.cls is Duration


def _duration(value: object, path: str) -> Duration:
    if value is not None and not isinstance(value, str):
        raise _mismatch(path, 'a duration such as "15s"', value)
    try:
        return parse_duration(value or "")
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _scalar(expected: inspect.Type, value: object, path: str) -> object:
    match expected:
        case inspect.StrType():
            if value is None or isinstance(value, str):
                return value or ""
            raise _mismatch(path, "a string", value)
        case inspect.BoolType():
            if isinstance(value, bool):
                return value
            raise _mismatch(path, "true or false", value)
        case inspect.IntType(ge=least, le=most):
            return _integer(value, cast("int", least), cast("int", most), path)
        case inspect.FloatType():
            return _float(value, path)
        case inspect.BytesType():
            return _bytes(value, path)
    raise TypeError(f"{path}: no way to decode {expected}")


def _integer(value: object, least: int, most: int, path: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _mismatch(path, f"a {(most - least + 1).bit_length() - 1}-bit integer", value)
    return value


def _float(value: object, path: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(cast("float", value)) < _LARGEST_FLOAT32:
        raise _mismatch(path, "a 32-bit number", value)
    return float(cast("float", value))


def _bytes(value: object, path: str) -> bytes:
    if not isinstance(value, str):
        raise _mismatch(path, "base64 text", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _mismatch(path, "base64 text", value) from None


def _mismatch(path: str, expected: str, value: object) -> ConfigError:
    where = f"{path}: " if path else ""
    return ConfigError(f"{where}expected {expected}, got {_described(value)}")


def _described(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case str():
            return "the string " + quoted(value if len(value) <= 40 else value[:40] + "…")
        case float() if not math.isfinite(value):
            return "a number out of range"
        case int() if abs(value) >= 10**40:
            return "a number out of range"
    return str(value)
