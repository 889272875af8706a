"""Text of YAML or JSON files as plain values, one per document.

Owns the quirks of the two formats: what YAML makes of unquoted words (here: what Go's parser
makes of them, so that a file means the same to kubectl), keys given twice, references that
explode, nesting without end. Knows nothing of Kubernetes objects, and does not open files.
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from moorage.errors import InputError
from moorage.model.meta import DEEPEST, is_too_deep

if TYPE_CHECKING:
    from yaml import SafeLoader as _FastestLoader
else:
    _FastestLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# References may repeat parts of a document, but not blow it up beyond so many times its size.
MAX_EXPANSION = 100

_TAG = "tag:yaml.org,2002:"
_TRUE = ("y", "yes", "true", "on")
_FALSE = ("n", "no", "false", "off")
# Without brackets only such lines could be nested too deeply.
_LONG_PREFIX = re.compile(rf"(?:[-?][ \t]+){{{DEEPEST}}}|^[ ]{{{DEEPEST}}}", re.MULTILINE)
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
        return list(_yaml_documents(text))
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


class _Loader(_FastestLoader):
    """A safe loader that reads plain words as Go does: no dates, no sexagesimal numbers."""

    yaml_implicit_resolvers: dict[Any, Any] = {}


def plain_words() -> Iterator[tuple[str, re.Pattern[str], list[str]]]:
    """What unquoted words are taken for if they are no text: a tag, a pattern, how they begin."""
    words = "|".join(f"{word}|{word.title()}|{word.upper()}" for word in (*_TRUE, *_FALSE))
    whole = r"[-+]?(?:0b[01][01_]*|0o[0-7]+|0x[0-9a-fA-F][0-9a-fA-F_]*|0[0-7_]*|[1-9][0-9_]*)"
    decimal = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    special = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    for name, pattern, first in (
        ("bool", words, "yYnNtTfFoO"),
        ("int", whole, "-+0123456789"),
        ("float", f"{decimal}|{special}", "-+.0123456789"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("merge", "<<", "<"),
    ):
        yield _TAG + name, re.compile(rf"(?:{pattern})\Z"), list(first)


def _construct_bool(_: _Loader, node: ScalarNode) -> bool:
    return str(node.value).lower() in _TRUE


for _words in plain_words():
    _Loader.add_implicit_resolver(*_words)
_Loader.add_constructor(_TAG + "bool", _construct_bool)


def _yaml_documents(text: str) -> Iterator[Any]:
    _refuse_depth(text)
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                continue
            extents: dict[int, _Extent] = {}
            whole = _inspect(node, extents)
            if whole.depth > DEEPEST:
                raise RecursionError
            if whole.size > MAX_EXPANSION * len(extents) + MAX_EXPANSION**2:
                raise ConstructorError(
                    None, None, "its references blow the document up", node.start_mark
                )
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_depth(text: str) -> None:
    if text.count("[") + text.count("{") < DEEPEST and _LONG_PREFIX.search(text) is None:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise RecursionError


class _Extent(NamedTuple):
    """How many nodes a node is when its references are written out, and how many levels."""

    size: int
    depth: int


_OPEN = _Extent(0, 0)


def _inspect(node: Node, extents: dict[int, _Extent]) -> _Extent:
    """The extent of `node`; refuses cycles and doubles."""
    known = extents.get(id(node))
    if known is _OPEN:
        raise ConstructorError(None, None, "a part of it contains itself", node.start_mark)
    if known is not None:
        return known
    extents[id(node)] = _OPEN
    parts: list[_Extent] = []
    if isinstance(node, MappingNode):
        _refuse_doubles(node)
        parts = [_inspect(part, extents) for pair in node.value for part in pair]
    elif isinstance(node, SequenceNode):
        parts = [_inspect(item, extents) for item in node.value]
    depth = max((part.depth for part in parts), default=0)
    extent = _Extent(1 + sum(part.size for part in parts), 1 + depth)
    extents[id(node)] = extent
    return extent


def _refuse_doubles(node: MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, ScalarNode) or key.tag == _TAG + "merge":
            continue
        if key.value in seen:
            problem = f'the key "{key.value}" is given twice'
            raise ConstructorError(None, None, problem, key.start_mark)
        seen.add(key.value)


def _position(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"


def _problem(error: yaml.MarkedYAMLError) -> str:
    return " ".join(part for part in (error.problem, error.context) if part)
