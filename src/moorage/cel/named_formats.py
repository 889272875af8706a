"""The named formats of Kubernetes' `format` library: which texts are a label, a UUID, a date."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from moorage.cel.network import url_complaint
from moorage.model.label_spelling import label_key_errors, label_value_errors

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_CLOCK = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format; `validate` lists what is wrong with a text."""

    name: str
    validate: Callable[[str], list[str]] = field(compare=False)
    pattern_size: int = field(default=30, compare=False)
    """How long upstream takes its regular expression to be, for the cost."""


def _too_long(text: str, longest: int) -> list[str]:
    return [f"must be no more than {longest} bytes"] if len(text.encode()) > longest else []


def _pattern(text: str, rule: str, pattern: str, *examples: str) -> list[str]:
    if re.fullmatch(pattern, text):
        return []
    listed = " or ".join(f"'{example}', " for example in examples)
    return [f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"]


def _label(text: str) -> list[str]:
    if not re.fullmatch(_LABEL, text) and re.fullmatch(_SUBDOMAIN, text):
        return [*_too_long(text, 63), "must not contain dots"]
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*_too_long(text, 63), *_pattern(text, rule, _LABEL, "my-name", "123-abc")]


def _subdomain(text: str) -> list[str]:
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character"
    )
    return [*_too_long(text, 253), *_pattern(text, rule, _SUBDOMAIN, "example.com")]


def _label_1035(text: str) -> list[str]:
    rule = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character"
    )
    return [*_too_long(text, 63), *_pattern(text, rule, _LABEL_1035, "my-name", "abc-123")]


def _prefix(validate: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """More will be appended, so a dash may come last; upstream drops two characters to ask."""

    def masked(text: str) -> list[str]:
        return validate(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return masked


def _uri(text: str) -> list[str]:
    complaint = url_complaint(text)
    return [] if complaint is None else [complaint]


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text if text[:4] != "0000" else f"0004{text[4:]}")
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = _CLOCK.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _simple(test: Callable[[str], object], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [complaint]


FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", _label),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035),
    "qualifiedName": NamedFormat("QualifiedName", label_key_errors, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_label_1035)),
    "labelValue": NamedFormat("LabelValue", label_value_errors, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _simple(_UUID.fullmatch, "does not match the UUID format"), 81),
    "byte": NamedFormat("byte", _simple(_BASE64.fullmatch, "invalid base64"), 84),
    "date": NamedFormat("date", _simple(_is_date, "invalid date"), 81),
    "datetime": NamedFormat("datetime", _simple(_is_time, "invalid datetime"), 81),
}
"""By the name that expressions use."""
