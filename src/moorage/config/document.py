"""From the text of a configuration file, YAML or JSON, to plain values.

Owns telling the two apart, and JSON's syntax with its rule that a key is given once; YAML's is in
`yaml_values`. Must not know any field.
"""

import json
import math
import re

from moorage.config.field_errors import child, quoted
from moorage.config.yaml_values import parse_yaml
from moorage.errors import ConfigError
from moorage.model.nesting import DEEPEST

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
