"""Text of YAML or JSON files as plain values, one per document.

Owns several documents in a file, and the sentences about what is wrong in one. YAML means what it
means in a configuration (`config.documents`), and so the same as to kubectl. Knows nothing of
Kubernetes objects, and does not open files.
"""

import json
import math
import re
from typing import Any, NoReturn

import msgspec
import yaml
from yaml.constructor import ConstructorError

from moorage.config.documents import YamlReader
from moorage.errors import InputError
from moorage.model.meta import DEEPEST, is_too_deep

# References may repeat parts of a document, but not blow it up beyond so many times its size.
MAX_EXPANSION = 100

_SPACE = re.compile(r"\s*")


def parse_documents(text: str, where: str, *, is_json: bool) -> list[Any]:
    """All documents of a file; raises `InputError` with line and column where it cannot be read.

    Text that looks like JSON is tried as JSON first, which is far faster.
    """
    text = text.removeprefix("\ufeff")
    try:
        if is_json or text.lstrip().startswith("{"):
            try:
                documents = _json_documents(text)
                if is_too_deep(documents):
                    raise RecursionError
                return documents
            except json.JSONDecodeError as error:
                if is_json:
                    at = f"line {error.lineno}, column {error.colno}"
                    raise InputError(f"{where}, {at}: not valid JSON: {error.msg}") from None
        return _yaml_documents(text)
    except yaml.MarkedYAMLError as error:
        raise InputError(f"{where}{_position(error)}: not valid YAML: {_problem(error)}") from None
    except (yaml.YAMLError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(f"{where}: not valid YAML: {first_line}") from None
    except RecursionError:
        raise InputError(f"{where}: nested more than {DEEPEST} levels deep") from None


# ---- JSON ----


def _json_documents(text: str) -> list[Any]:
    """One value, or several one after the other (as in JSON lines)."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    decoder = json.JSONDecoder()
    documents = []
    start = _SPACE.search(text)
    while start is not None and start.end() < len(text):
        value, end = decoder.raw_decode(text, start.end())
        documents.append(value)
        start = _SPACE.match(text, end)
    return documents


# ---- YAML ----

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("binary", "bool", "float", "int", "null", "str", "seq", "map")
)


class _ManifestReader(YamlReader):
    """Says where something is wrong, and keeps the order of the file."""

    as_json = False

    def fail(self, problem: str, event: Any, *, has_line: bool = False) -> NoReturn:
        raise ConstructorError(None, None, problem, event.start_mark)

    def repeat(self, key: str, event: Any) -> None:
        self.fail(f'the key "{key}" is given twice', event)

    def scalar(self, event: Any) -> object:
        if event.tag is not None and event.tag not in _TAGS and event.tag != "!":
            self.fail(f"the tag {event.tag} has no meaning here", event)
        value = super().scalar(event)
        if value == math.inf and event.value[-1].isdigit():
            self.fail("a number has too many digits", event)
        return value


def _yaml_documents(text: str) -> list[Any]:
    # A value takes more than one character, so that only references can make a file so large.
    return list(
        _ManifestReader(text, MAX_EXPANSION**2 + MAX_EXPANSION // 10 * len(text)).documents()
    )


def _position(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"


def _problem(error: yaml.MarkedYAMLError) -> str:
    return " ".join(part for part in (error.problem, error.context) if part)
