"""The wording of errors about fields, and the spelling of names, as Kubernetes has them.

Owns how a path, a value and a list of errors look, and the rules of label keys, label values and
extended resource names. Must not know any field.
"""

import json
import re
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
    return '"' + "".join(_escaped(character) for character in text) + '"'


def go_json(value: object) -> str:
    """A value as Go's JSON encoder writes it, which also escapes what HTML would mind."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else go_json(value)


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else escaped(character)


_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_LONGEST_NAME = 63
_LONGEST_SUBDOMAIN = 253
_QUOTA_PREFIX = "requests."


def label_key_errors(key: str) -> list[str]:
    """What is wrong with a label key, which is also what is called a qualified name."""
    name_rule = _pattern_text(_NAME_TEXT, _NAME, "MyName", "my.name", "123-abc")
    parts = key.split("/")
    if len(parts) > 2:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {name_rule} {example}"]
    errors = []
    if len(parts) == 2:
        errors += [f"prefix part {text}" for text in _prefix_errors(parts[0])]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > _LONGEST_NAME:
        errors.append(f"name part {_length_text(_LONGEST_NAME)}")
    if not re.fullmatch(_NAME, name):
        errors.append(f"name part {name_rule}")
    return errors


def label_value_errors(value: str) -> list[str]:
    """What is wrong with a label value."""
    errors = []
    if _size(value) > _LONGEST_NAME:
        errors.append(_length_text(_LONGEST_NAME))
    pattern = f"({_NAME})?"
    if not re.fullmatch(pattern, value):
        errors.append(_pattern_text(_VALUE_TEXT, pattern, "MyValue", "my_value", "12345"))
    return errors


def is_extended_resource(name: str) -> bool:
    """Whether a well spelled resource name is one of a vendor's, not of Kubernetes."""
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_errors(_QUOTA_PREFIX + name)


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    errors = []
    if _size(prefix) > _LONGEST_SUBDOMAIN:
        errors.append(_length_text(_LONGEST_SUBDOMAIN))
    if not re.fullmatch(_SUBDOMAIN, prefix):
        errors.append(_pattern_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return errors


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _length_text(longest: int) -> str:
    return f"must be no more than {longest} bytes"


def _pattern_text(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"
