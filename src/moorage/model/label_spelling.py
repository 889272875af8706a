"""How label keys, label values and names of resources are spelt, in Kubernetes' own sentences.

Owns the rules and what is said when one is broken. Must not know any field.
"""

import re

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
