"""Functions on text: CEL's string extensions and the regular expressions Kubernetes adds."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError
from moorage.plugins.dynamic_resources.cel.limits import require_characters
from moorage.plugins.dynamic_resources.cel.operators import shown
from moorage.plugins.dynamic_resources.cel.regular_expressions import Regex, compiled_regex
from moorage.plugins.dynamic_resources.cel.types import Signatures


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    add = signatures.add
    add("string_char_at_int", "string.charAt(int) -> string", _char_at)
    add("string_index_of_string", "string.indexOf(string) -> int", str.find)
    add("string_index_of_string_int", "string.indexOf(string, int) -> int", _index_of)
    add("string_last_index_of_string", "string.lastIndexOf(string) -> int", str.rfind)
    add("string_last_index_of_string_int", "string.lastIndexOf(string, int) -> int", _last_index_of)
    add("string_lower_ascii", "string.lowerAscii() -> string", _lower)
    add("string_upper_ascii", "string.upperAscii() -> string", _upper)
    add("string_replace_string_string", "string.replace(string, string) -> string", _replace)
    add(
        "string_replace_string_string_int",
        "string.replace(string, string, int) -> string",
        _replace,
    )
    add("string_split_string", "string.split(string) -> list(string)", _split)
    add("string_split_string_int", "string.split(string, int) -> list(string)", _split)
    add("string_substring_int", "string.substring(int) -> string", _substring)
    add("string_substring_int_int", "string.substring(int, int) -> string", _substring)
    add("string_trim", "string.trim() -> string", str.strip)
    add("list_join", "list(string).join() -> string", _join)
    add("list_join_string", "list(string).join(string) -> string", _join)
    add("string_find_string", "string.find(string) -> string", _find)
    add("string_find_all_string", "string.findAll(string) -> list(string)", _find_all)
    add("string_find_all_string_int", "string.findAll(string, int) -> list(string)", _find_all)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(count, text.count(old))
    require_characters(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, found)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int) -> int:
    if not part:
        return end
    if end < 0:
        raise EvaluationError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part)) if end < len(text) else -1


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}


def _lower(text: str) -> str:
    return text.translate(_LOWER)


def _upper(text: str) -> str:
    return text.translate(_UPPER)


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not by:
        characters = list(text)
        if 0 < most < len(characters):
            characters[most - 1 :] = ["".join(characters[most - 1 :])]
        return characters
    return text.split(by, most - 1 if most > 0 else -1)


def _join(items: list[Any], by: str = "") -> str:
    for item in items:
        if type(item) is not str:
            raise EvaluationError(f"join: invalid input: {shown(item)}")
    require_characters(sum(map(len, items)) + len(by) * len(items))
    return by.join(items)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise EvaluationError(f"index out of range: {stop}")
    return text[start:stop]


def _regex(pattern: str) -> Regex:
    try:
        return compiled_regex(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    return _regex(pattern).first(text)


def _find_all(text: str, pattern: str, most: int = -1) -> Iterator[str]:
    """One by one, since each of many matches may take a search through the rest of the text."""
    found = islice(_regex(pattern).all(text), most if most >= 0 else None)
    return (match for match in found)
