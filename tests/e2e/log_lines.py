"""Reads the log of a scheduler: klog's text and component-base's JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_HEAD = re.compile(rf"([IWEF])\d{{4}} [\d:.]+ +\d+ [^ ]+:\d+\] ({_QUOTED})(.*)")
_FIELD = re.compile(rf"((?:unschedulable )?[A-Za-z.]+)=({_QUOTED}|[^ ]+)")
# Where kube-scheduler prints an entity with everything in it, Moorage prints the reference.
_WHOLE = re.compile(
    r'entity=\{"Pod":\{"metadata":\{"name":"([^"]+)","namespace":"([^"]+)".*\}(?= event=)'
)
_NOT_FIELDS = ("ts", "caller", "msg", "v", "stacktrace")


class LogLine(NamedTuple):
    """One structured line: how severe, what, and its fields as texts, sorted."""

    severity: str
    message: str
    fields: tuple[tuple[str, str], ...]


def read_lines(text: str) -> Iterator[LogLine]:
    """The structured lines of a log in either format; others are skipped."""
    for line in text.splitlines():
        found = _of_json(line) if line.startswith("{") else _of_text(line)
        if found is not None:
            yield found


def _of_text(line: str) -> LogLine | None:
    head = _HEAD.fullmatch(line)
    if head is None:
        return None
    severity, message, rest = head.groups()
    rest = _WHOLE.sub(r'entity="\2/\1"', rest)
    values = {key: _plain(value) for key, value in _FIELD.findall(rest)}
    return LogLine(severity, _plain(message), tuple(sorted(values.items())))


def _plain(value: str) -> str:
    return value[1:-1].encode().decode("unicode_escape") if value.startswith('"') else value


def _of_json(line: str) -> LogLine:
    found: dict[str, Any] = json.loads(line)
    severity = "I" if "v" in found else "E"
    values = {key: _value(item) for key, item in found.items() if key not in _NOT_FIELDS}
    return LogLine(severity, found["msg"], tuple(sorted(values.items())))


def _value(item: Any) -> str:
    if isinstance(item, dict) and "Pod" in item:
        item = {key: item["Pod"]["metadata"][key] for key in ("namespace", "name")}
    if isinstance(item, dict) and "name" in item and item.keys() <= {"name", "namespace"}:
        return "/".join(part for part in (item.get("namespace"), item["name"]) if part)
    if isinstance(item, str):
        return item
    return json.dumps(item, separators=(",", ":"))
