"""From the text of a file, YAML or JSON, to plain values.

Owns YAML as Kubernetes reads it (YAML 1.1 without sexagesimals and dates), JSON syntax, that a key
is given once, that an anchor may not contain itself, and the limits that keep a hostile document
from exhausting the stack or the memory. Must not know any field.

Upstream turns YAML into JSON first, which sorts the keys of a map and makes `2.0` an integer; both
show in later messages, so they happen here as well. The parser's events are read, not its nodes:
its C code builds those recursively and crashes on deep nesting.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn, cast

import yaml

from moorage.config.field_errors import child, one_line, quoted
from moorage.errors import ConfigError
from moorage.model.meta import DEEPEST

try:  # libyaml is faster, and an optional part of PyYAML
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

LARGEST = 1_000_000
"""Values in a document with all aliases written out; real files have some hundreds."""

_CHARACTERS_PER_VALUE = 16
"""So much text counts as one more value: an alias may repeat one long text as well."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + name for name in ("bool", "float", "int", "null"))
"""Explicit tags of what is read as if it were not quoted; any other makes a string."""
_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?(0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OPEN: Any = object()
"""Stands for the value of an anchor until all of it has been read."""


def parse_yaml(text: str) -> tuple[object, list[str]]:
    """The values of the first document, and complaints about repeated keys."""
    reader = YamlReader(text, LARGEST)
    try:
        # Like upstream, what follows the first document is ignored.
        value = next(reader.documents(), None)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"yaml: {line}{one_line(error.problem or error.context)}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"yaml: {one_line(getattr(error, 'reason', error))}") from None
    except RecursionError:
        raise ConfigError(f"yaml: exceeded max depth of {DEEPEST}") from None
    if not reader.repeated:
        return value, []
    return value, ["yaml: unmarshal errors: " + "; ".join(reader.repeated)]


class _Anchor(NamedTuple):
    """What an alias stands for: the value, how many values that is, and how deeply nested."""

    value: object
    size: int
    depth: int


class YamlReader:
    """Builds plain values from the events of a parser; nesting without end is a `RecursionError`.

    For configuration files; who reads others overrides what is said, and what of YAML is allowed.
    """

    as_json = True
    """Are keys sorted and is `2.0` an integer, and does a merge replace the keys before it?"""

    def __init__(self, text: str, largest: int) -> None:
        self.repeated: list[str] = []
        self._next: Callable[[], Any] = SafeLoader(text).get_event
        self._largest = largest
        self._anchors: dict[str, _Anchor] = {}
        self._size = 0
        self._deepest = 0

    def documents(self) -> Iterator[object]:
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.NodeEvent):
                yield self._value(event, 0)
                self._anchors.clear()

    def fail(self, problem: str, event: Any, *, has_line: bool = False) -> NoReturn:
        """Refuse what begins with an event; upstream names the line of some problems."""
        line = f"line {event.start_mark.line + 1}: " if has_line else ""
        raise ConfigError(f"yaml: {line}{problem}")

    def repeat(self, key: str, event: Any) -> None:
        """A key is given once more."""
        line = event.start_mark.line + 1
        self.repeated.append(f"line {line}: key {quoted(key)} already set in map")

    def scalar(self, event: Any) -> object:
        """A text, number, boolean or null."""
        self._grow(len(event.value) // _CHARACTERS_PER_VALUE, event)
        if event.tag == _TAG + "binary":
            return self._binary(event)
        if not event.implicit[0] and event.tag not in _PLAIN_TAGS:
            return event.value
        value = plain_value(event.value)
        whole = self.as_json and isinstance(value, float) and value.is_integer()
        return int(cast("float", value)) if whole else value

    def _value(self, event: Any, depth: int) -> object:
        self._descend(depth)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event, depth)
        if event.anchor is None:
            return self._written(event, depth)
        self._anchors[event.anchor] = _Anchor(_OPEN, 0, 0)
        size, deepest = self._size, self._deepest
        self._deepest = depth
        value = self._written(event, depth)
        anchor = _Anchor(value, self._size - size, self._deepest - depth)
        self._anchors[event.anchor] = anchor
        self._deepest = max(self._deepest, deepest)
        return value

    def _written(self, event: Any, depth: int) -> object:
        self._grow(1, event)
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(depth)
        return self._mapping(depth)

    def _aliased(self, event: Any, depth: int) -> object:
        if event.anchor not in self._anchors:
            self.fail(f"unknown anchor '{event.anchor}' referenced", event)
        anchor = self._anchors[event.anchor]
        if anchor.value is _OPEN:
            self.fail(f"anchor '{event.anchor}' value contains itself", event)
        self._grow(anchor.size, event)
        self._descend(depth + anchor.depth)
        return anchor.value

    def _descend(self, depth: int) -> None:
        if depth > DEEPEST:
            raise RecursionError
        self._deepest = max(self._deepest, depth)

    def _grow(self, size: int, event: Any) -> None:
        self._size += size
        if self._size > self._largest:
            self.fail("document contains excessive aliasing", event)

    def _sequence(self, depth: int) -> list[object]:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, object]:
        result: dict[str, object] = {}
        merged: list[tuple[str, object]] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if _is_merge(event):
                pairs = self._merged_pairs(self._value(self._next(), depth + 1), event)
                if self.as_json:
                    for key, value in pairs:
                        self._put(result, key, value, event)
                else:
                    merged += pairs
            else:
                key = self._key(self._value(event, depth + 1), event)
                self._put(result, key, self._value(self._next(), depth + 1), event)
        for key, value in merged:
            result.setdefault(key, value)
        return dict(sorted(result.items())) if self.as_json else result

    def _put(self, result: dict[str, object], key: str, value: object, event: Any) -> None:
        if key in result:
            self.repeat(key, event)
        result[key] = value

    def _merged_pairs(self, merged: object, event: Any) -> list[tuple[str, object]]:
        sources: list[Any] = merged if isinstance(merged, list) else [merged]
        if not all(isinstance(source, dict) for source in sources):
            text = "map merge requires map or sequence of maps as the value"
            self.fail(text, event, has_line=True)
        return [pair for source in sources for pair in source.items()]

    def _key(self, value: object, event: Any) -> str:
        if value is None or isinstance(value, (list, dict)):
            self.fail("invalid map key", event, has_line=True)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def _binary(self, event: Any) -> str:
        try:
            return base64.b64decode(event.value, validate=True).decode("utf-8")
        except (binascii.Error, ValueError):
            self.fail("!!binary value contains invalid base64 data", event)


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]


def plain_value(text: str) -> object:
    """What a word means that is not quoted."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return _number(text) if text[0] in "+-.0123456789" else text


def _number(text: str) -> object:
    """A number, or the text itself where it is none."""
    plain = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        is_octal = re.match(r"[-+]?0[0-7]", plain)
        try:
            return int(plain, 8 if is_octal else 0)
        except ValueError:  # more digits than Python reads, so larger than any field
            return math.inf
    if _INFINITE.fullmatch(plain):
        return float(plain.lower().replace(".", ""))
    if not _FLOAT.fullmatch(plain):
        return text
    return float(plain)


_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_document(data: str | bytes) -> tuple[object, list[str]]:
    """The values of the first document, and complaints about repeated keys.

    A `ConfigError` means that the text is neither YAML nor JSON.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        text.encode("utf-8")
    except UnicodeError:
        raise ConfigError("yaml: invalid UTF-8") from None
    text = text.removeprefix("\ufeff")
    if text.lstrip(" \t\r\n").startswith("{"):
        return _parse_json(text)
    return parse_yaml(text)


def _parse_json(text: str) -> tuple[object, list[str]]:
    try:
        pairs = json.loads(
            text, object_pairs_hook=_Pairs, parse_int=_integer, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"json parse error: line {error.lineno} column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise ConfigError(f"json parse error: exceeded max depth of {DEEPEST}") from None
    except ValueError as error:
        raise ConfigError(f"json parse error: {error}") from None
    repeated: list[str] = []
    value = _from_pairs(pairs, "", 0, repeated)
    return value, list(dict.fromkeys(repeated))


class _Pairs(list[tuple[str, object]]):
    """A JSON object whose keys may repeat."""


def _integer(text: str) -> float:
    try:
        return int(text)
    except ValueError:  # more digits than Python reads, so larger than any field
        return math.inf


def _refuse_constant(name: str) -> object:
    raise ValueError(f"invalid number {name}")


def _from_pairs(value: object, path: str, depth: int, repeated: list[str]) -> object:
    if depth > DEEPEST:
        raise ConfigError(f"json parse error: exceeded max depth of {DEEPEST}")
    if isinstance(value, str):
        return _well_formed(value)
    if isinstance(value, _Pairs):
        result: dict[str, object] = {}
        for raw_key, item in value:
            key = _well_formed(raw_key)
            here = child(path, key)
            if key in result:
                repeated.append(f"duplicate field {quoted(here)}")
            result[key] = _from_pairs(item, here, depth + 1, repeated)
        return result
    if isinstance(value, list):
        return [
            _from_pairs(item, f"{path}[{index}]", depth + 1, repeated)
            for index, item in enumerate(value)
        ]
    return value


def _well_formed(text: str) -> str:
    """A string that can be printed: JSON may escape half a character, as Go does not keep it."""
    return _SURROGATE.sub("\ufffd", text)
