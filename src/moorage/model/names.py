"""The spelling of names and times, as the API server wants it.

Upstream: apimachinery pkg/api/validation and kubernetes@v1.37.1 pkg/apis/core/validation. Answers
with a complaint, or with an empty string if there is none.
"""

from datetime import datetime

from moorage.model.spelling import DNS_1035_LABEL, DNS_LABEL, SUBDOMAIN

_RULES = {
    "Namespace": (DNS_LABEL, "a lower case DNS label"),
    "Service": (DNS_1035_LABEL, "a lower case DNS label that begins with a letter"),
}
_OTHERS = (SUBDOMAIN, "a lower case DNS name")


def name_complaint(kind: str, name: str) -> str:
    """What is wrong with the name of an object of a kind that a scheduler knows."""
    rule, what = _RULES.get(kind, _OTHERS)
    if len(name) > rule.longest:
        return f"a name of {len(name)} characters is longer than {rule.longest}"
    return "" if rule.matches(name) else f"{_quoted(name)} is not {what}"


def namespace_complaint(namespace: str) -> str:
    """What is wrong with the namespace that an object is in."""
    return name_complaint("Namespace", namespace)


def segment_complaint(name: str) -> str:
    """What is wrong with a name that need only be a part of a path."""
    if name in (".", "..") or "/" in name or "%" in name:
        return f"{_quoted(name)} cannot be a part of a path"
    return "" if name.isprintable() else f"{_quoted(name)} holds a character that cannot be printed"


def time_complaint(text: str) -> str:
    """What is wrong with a time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return f"{_quoted(text)} is not a time such as 2026-01-31T12:00:00Z"
    return ""


def _quoted(text: str) -> str:
    if text.isprintable():
        return f'"{text}"'
    return '"' + text.encode("unicode_escape", "backslashreplace").decode("ascii") + '"'
