"""CEL source text cut into tokens.

Owns numbers, strings and their escapes. Knows nothing of grammar.
"""

import re
import sys
from enum import Enum
from typing import NamedTuple

from moorage.cel.errors import Issue
from moorage.cel.values import MAX_INT, MAX_UINT, Uint

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<int>0x[0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
  | (?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"|'''|"|'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<field>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<operator>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_SURROGATES = range(0xD800, 0xE000)
_CODE = re.compile(r"[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})")


class TokenKind(Enum):
    """What a token is."""

    NAME = "name"
    FIELD = "field"
    """A field's name that is no name otherwise, in backquotes."""
    LITERAL = "literal"
    OPERATOR = "operator"
    END = "<EOF>"


class Token(NamedTuple):
    """A token; `value` is the decoded constant of a literal."""

    kind: TokenKind
    text: str
    position: int
    value: object = None


def tokens(source: str) -> list[Token]:
    """All tokens of an expression, closed by an end token; raises `Issue`."""
    found = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise Issue(
                position, f"Syntax error: token recognition error at: '{source[position:]}'"
            )
        start, position = position, match.end()
        text = match.group()
        match match.lastgroup:
            case "space":
                continue
            case "string":
                value, position = _string(source, start, text)
                found.append(Token(TokenKind.LITERAL, source[start:position], start, value))
            case "float":
                found.append(Token(TokenKind.LITERAL, text, start, float(text)))
            case "int":
                found.append(Token(TokenKind.LITERAL, text, start, _integer(text, start)))
            case "field":
                found.append(Token(TokenKind.FIELD, text, start, text[1:-1]))
            case "name":
                found.append(Token(TokenKind.NAME, text, start))
            case _:
                found.append(Token(TokenKind.OPERATOR, text, start))
    found.append(Token(TokenKind.END, "<EOF>", len(source)))
    return found


def _integer(text: str, position: int) -> int | Uint:
    unsigned = text[-1] in "uU"
    digits, base = text.rstrip("uU").removeprefix("0x"), 16 if text.startswith("0x") else 10
    # Leading zeros do not count; more digits than these are more than any limit.
    value = int(digits.lstrip("0")[:30] or "0", base)
    # One more than the largest int is let through: it may follow a minus sign.
    if value > (MAX_UINT if unsigned else MAX_INT + 1):
        raise Issue(position, f"invalid {'uint' if unsigned else 'int'} literal")
    return Uint(value) if unsigned else value


def _string(source: str, start: int, opening: str) -> tuple[str | bytes, int]:
    prefix = opening.rstrip("\"'").lower()
    quote = opening[len(prefix) :]
    raw, is_bytes = "r" in prefix, "b" in prefix
    position = start + len(opening)
    parts: list[str | bytes] = []
    while not source.startswith(quote, position):
        if position >= len(source) or (len(quote) == 1 and source[position] in "\r\n"):
            raise Issue(start, f"Syntax error: token recognition error at: '{source[start:]}'")
        if source[position] == "\\" and not raw:
            character, position = _escape(source, position + 1, start, is_bytes=is_bytes)
            parts.append(character)
        else:
            if raw and source[position] == "\\":  # the next character cannot close the string
                parts.append("\\")
                position += 1
            parts.append(source[position : position + 1])
            position += 1
    position += len(quote)
    if is_bytes:
        return b"".join(p if isinstance(p, bytes) else p.encode() for p in parts), position
    return "".join(map(str, parts)), position


def _escape(source: str, position: int, start: int, *, is_bytes: bool) -> tuple[str | bytes, int]:
    simple = _ESCAPES.get(source[position : position + 1])
    if simple is not None:
        return simple, position + 1
    match = _CODE.match(source, position)
    if match is None:
        raise Issue(start, f"Syntax error: token recognition error at: '{source[start:]}'")
    octal = match.group(4)
    digits = match.group(1) or match.group(2) or match.group(3)
    code = int(octal, 8) if octal else int(digits, 16)
    if is_bytes:
        if not octal and not match.group(1):
            raise Issue(start, "unable to unescape string")
        return bytes((code,)), match.end()
    if code in _SURROGATES or code > sys.maxunicode:
        raise Issue(start, "invalid unicode code point")
    return chr(code), match.end()
