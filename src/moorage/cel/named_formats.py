"""The named formats of Kubernetes' `format` library: which texts are a label, a UUID, a date."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from moorage.cel.network import url_complaint
from moorage.model.spelling import (
    DNS_1035_LABEL,
    DNS_LABEL,
    LABEL_VALUE,
    SUBDOMAIN,
    label_key_errors,
)

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


def _label(text: str) -> list[str]:
    if not DNS_LABEL.matches(text) and SUBDOMAIN.matches(text):
        return [*DNS_LABEL.too_long(text), "must not contain dots"]
    return DNS_LABEL.errors(text)


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
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", SUBDOMAIN.errors, 60),
    "dns1035Label": NamedFormat("DNS1035Label", DNS_1035_LABEL.errors),
    "qualifiedName": NamedFormat("QualifiedName", label_key_errors, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(SUBDOMAIN.errors), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(DNS_1035_LABEL.errors)),
    "labelValue": NamedFormat("LabelValue", LABEL_VALUE.errors, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _simple(_UUID.fullmatch, "does not match the UUID format"), 81),
    "byte": NamedFormat("byte", _simple(_BASE64.fullmatch, "invalid base64"), 84),
    "date": NamedFormat("date", _simple(_is_date, "invalid date"), 81),
    "datetime": NamedFormat("datetime", _simple(_is_time, "invalid datetime"), 81),
}
"""By the name that expressions use."""
