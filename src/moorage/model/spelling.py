"""How names, label keys and label values are spelt, in Kubernetes' own sentences.

Owns the rules and what is said when one is broken. Must not know any field.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_ENDS = "and must start and end with an alphanumeric character"
_ANY_CASE = f"alphanumeric characters, '-', '_' or '.', {_ENDS}"
_QUOTA_PREFIX = "requests."
_compiled = lru_cache(re.compile)


class Spelling(NamedTuple):
    """A rule for texts."""

    pattern: str
    longest: int
    sentence: str
    examples: tuple[str, ...]

    def matches(self, text: str) -> bool:
        """Is a text made of the right characters, be it too long or not?"""
        return _compiled(self.pattern).fullmatch(text) is not None

    @property
    def complaint(self) -> str:
        """What is said of a text that does not match."""
        listed = " or ".join(f"'{example}', " for example in self.examples)
        return f"{self.sentence} (e.g. {listed}regex used for validation is '{self.pattern}')"

    def too_long(self, text: str) -> list[str]:
        """The complaint about a text's length, if it is too long."""
        size = len(text.encode("utf-8", "replace"))
        return [f"must be no more than {self.longest} bytes"] if size > self.longest else []

    def errors(self, text: str) -> list[str]:
        """What is wrong with a text."""
        errors = self.too_long(text)
        return errors if self.matches(text) else [*errors, self.complaint]


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

DNS_LABEL = Spelling(
    _LABEL,
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    + _ENDS,
    ("my-name", "123-abc"),
)
DNS_1035_LABEL = Spelling(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    ("my-name", "abc-123"),
)
SUBDOMAIN = Spelling(
    rf"{_LABEL}(\.{_LABEL})*",
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', {_ENDS}",
    ("example.com",),
)
LABEL_VALUE = Spelling(
    f"({_NAME})?",
    63,
    f"a valid label must be an empty string or consist of {_ANY_CASE}",
    ("MyValue", "my_value", "12345"),
)
CONFIG_KEY = Spelling(
    "[-._a-zA-Z0-9]+",
    253,
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    ("key.name", "KEY_NAME", "key-name"),
)
_LABEL_NAME = Spelling(_NAME, 63, f"must consist of {_ANY_CASE}", ("MyName", "my.name", "123-abc"))


def label_key_errors(key: str) -> list[str]:
    """What is wrong with a label key, which is also what is called a qualified name."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_LABEL_NAME.complaint} {example}"]
    errors = []
    if slash:
        wrong = SUBDOMAIN.errors(prefix) if prefix else ["must be non-empty"]
        errors += [f"prefix part {text}" for text in wrong]
    if not name:
        errors.append("name part must be non-empty")
    return errors + [f"name part {text}" for text in _LABEL_NAME.errors(name)]


def is_extended_resource(name: str) -> bool:
    """Whether a well spelled resource name is one of a vendor's, not of Kubernetes."""
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_errors(_QUOTA_PREFIX + name)
