"""The wording of errors about fields, as Kubernetes has it.

Owns how a path, a value and a list of errors look. Must not know any field.
"""

import json
from collections.abc import Iterable, Sequence

from moorage.printable import escaped


def invalid(path: str, value: object, detail: str) -> str:
    """A value that breaks a rule."""
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    """A value that is missing."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def duplicate(path: str, value: object) -> str:
    """A value that must be unique and is not."""
    return f"{path}: Duplicate value: {_shown(value)}"


def not_supported(path: str, value: str, supported: Sequence[str]) -> str:
    """A value outside a closed list."""
    names = ", ".join(quoted(name) for name in supported)
    return f"{path}: Unsupported value: {go_json(value)}: supported values: {names}"


def forbidden(path: str, detail: str) -> str:
    """A value that may not be given here."""
    return f"{path}: Forbidden: {detail}"


def child(path: str, name: str) -> str:
    """The path of a field; the empty path is the root."""
    return f"{path}.{name}" if path else name


def aggregate(errors: Iterable[str]) -> str:
    """One text for several errors: alone as it is, together in brackets, repetitions once."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def one_line(text: object) -> str:
    """A text without line breaks, whatever names a user has put into it."""
    return " ".join(str(text).split("\n"))


def quoted(text: str) -> str:
    """A string in Go's double quotes."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'  # nearly every one, and the log is full of them
    return '"' + "".join(_escaped(character) for character in text) + '"'


def go_json(value: object, indent: int | None = None) -> str:
    """A value as Go's JSON encoder writes it, which also escapes what HTML would mind."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else go_json(value)


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else escaped(character)
