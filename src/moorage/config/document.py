"""From the text of a configuration file, YAML or JSON, to plain values.

Owns the syntax: what a scalar means (as the YAML library of Kubernetes reads it, which is YAML 1.1
without sexagesimals and dates), that a key may be given once, that an anchor may not contain
itself. Must not know any field.

Upstream turns YAML into JSON first, which sorts the keys of a map and makes `2.0` an integer; both
show in later messages, so they happen here as well.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Hashable
from typing import Any, cast

import yaml

try:  # libyaml is faster, and an optional part of PyYAML
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

from moorage.config.field_errors import child, one_line, quoted
from moorage.errors import ConfigError

DEEPEST = 200
"""Levels of nesting; real files have about ten. Guards the stack against hostile input."""

_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_INTEGER = re.compile(r"[-+]?(0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class _Loader(SafeLoader):
    """Composes nodes; the meaning of plain scalars is that of Kubernetes' YAML library."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_TAG + tag, re.compile(f"(?:{pattern})$"), [*first])


_resolve("bool", "|".join(sorted(_TRUE | _FALSE)), "yYnNtTfFoO")
_resolve("merge", "<<", "<")
_resolve("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+.")
_resolve("int", r"[-+]?[0-9][0-9a-fA-FxXoO_]*", "-+0123456789")
_resolve("float", r"[-+]?[0-9._]+([eE][-+]?[0-9]+)?", "-+.0123456789")
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"(?:~|null|Null|NULL|)$"), [*"~nN", ""])


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
    return _parse_yaml(text)


def _parse_json(text: str) -> tuple[object, list[str]]:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"json parse error: line {error.lineno} column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"json parse error: {error}") from None
    repeated: list[str] = []
    value = _from_pairs(pairs, "", 0, repeated)
    return value, list(dict.fromkeys(repeated))


class _Pairs(list[tuple[str, object]]):
    """A JSON object whose keys may repeat."""


def _refuse_constant(name: str) -> object:
    raise ValueError(f"invalid number {name}")


def _from_pairs(value: object, path: str, depth: int, repeated: list[str]) -> object:
    _check_depth(depth)
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, _Pairs):
        result: dict[str, object] = {}
        for raw_key, item in value:
            key = _SURROGATE.sub("\ufffd", raw_key)
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


def _parse_yaml(text: str) -> tuple[object, list[str]]:
    reader = _YamlReader()
    loader = _Loader(text)
    try:
        # Upstream reads the first document of a stream and ignores what follows.
        node = loader.get_node() if loader.check_node() else None
        value = None if node is None else reader.value(node, 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"yaml: {line}{one_line(error.problem or error.context)}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"yaml: {one_line(getattr(error, 'reason', error))}") from None
    except RecursionError:
        raise ConfigError(f"yaml: exceeded max depth of {DEEPEST}") from None
    finally:
        loader.dispose()
    if not reader.repeated:
        return value, []
    return value, ["yaml: unmarshal errors: " + "; ".join(reader.repeated)]


class _YamlReader:
    """Turns composed nodes into plain values and notes repeated keys."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._open: set[int] = set()
        self._scalars: dict[str, Callable[[str], object]] = {
            _TAG + "null": lambda text: None,
            _TAG + "bool": lambda text: text if text not in _TRUE | _FALSE else text in _TRUE,
            _TAG + "int": _number,
            _TAG + "float": _number,
            _TAG + "binary": _binary,
        }
        self._kept: dict[int, object] = {}

    def value(self, node: yaml.Node, depth: int) -> object:
        """The plain value of a node; an aliased node is read once."""
        _check_depth(depth)
        if isinstance(node, yaml.ScalarNode):
            return self._scalars.get(node.tag, str)(node.value)
        if id(node) in self._open:
            raise ConfigError(f"yaml: line {_line(node)}: anchor value contains itself")
        if id(node) not in self._kept:
            self._open.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                self._kept[id(node)] = [self.value(item, depth + 1) for item in node.value]
            else:
                self._kept[id(node)] = self._mapping(cast("yaml.MappingNode", node), depth)
            self._open.discard(id(node))
        return self._kept[id(node)]

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                for key, value in self._merged(value_node, depth):
                    self._put(result, key, value, _line(value_node))
            else:
                key = _key(self.value(key_node, depth + 1), key_node)
                self._put(result, key, self.value(value_node, depth + 1), _line(key_node))
        return dict(sorted(result.items()))

    def _merged(self, node: yaml.Node, depth: int) -> list[tuple[str, object]]:
        value = self.value(node, depth + 1)
        sources: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise ConfigError(
                f"yaml: line {_line(node)}: map merge requires map or sequence of maps as the value"
            )
        return [pair for source in sources for pair in source.items()]

    def _put(self, result: dict[str, object], key: str, value: object, line: int) -> None:
        if key in result:
            self.repeated.append(f"line {line}: key {quoted(key)} already set in map")
        result[key] = value


def _key(value: object, node: yaml.Node) -> str:
    if value is None or not isinstance(value, Hashable):
        raise ConfigError(f"yaml: line {_line(node)}: invalid map key")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _number(text: str) -> object:
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        is_octal = re.match(r"[-+]?0[0-7]", plain)
        try:
            return int(plain, 8 if is_octal else 0)
        except ValueError:  # more digits than Python reads, so larger than any field
            return math.inf
    if plain.lstrip("+-").lower() in (".inf", ".nan"):
        return float(plain.lower().replace(".", ""))
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    return int(number) if number.is_integer() else number


def _binary(text: str) -> object:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise ConfigError("yaml: !!binary value contains invalid base64 data") from None


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise ConfigError(f"exceeded max depth of {DEEPEST}")


def _line(node: yaml.Node) -> int:
    mark: Any = node.start_mark
    return int(mark.line) + 1
