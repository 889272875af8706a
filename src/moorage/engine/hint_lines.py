"""What is logged when a queueing hint has answered, in kube-scheduler's words.

The words follow from the plugin, the change and the answer, so that hints need not log themselves.
Must not be asked before the lines of hints are to be written: the table is read then.
"""

from collections.abc import Callable
from functools import cache

import msgspec

from moorage.log_fields import Line, V
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.tables import read_table

HINTS = Line(V(4), "")
"""Whether any of these lines would be written."""


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    field: str = ""
    yes: str = ""
    no: str = ""
    useless: str = ""
    v: int = 5
    twice: bool = False


def log_hint(
    plugin: str,
    pod: Pod,
    old: ApiObject | None,
    new: ApiObject | None,
    answer: bool,
    if_new: Callable[[], bool],
) -> None:
    """Log an answer; `if_new` tells what it were if the object had just come."""
    other = new or old
    change = f"{type(other).__name__} {_change(old, new)}"
    own = isinstance(other, Pod) and other.uid == pod.uid
    table = _table().get(plugin, {})
    words = (own and table.get(f"own {change}")) or table.get(change)
    if not words:
        return
    text = words.yes if answer else words.no
    if not answer and words.useless:
        useless = not _has_node(other) if isinstance(other, Pod) else not if_new()
        text = words.useless if useless else words.no
    if text:
        names = ("pod", words.field) if words.field else ("pod",)
        Line(V(words.v), text, *names)(other if words.twice else pod, other)


def texts_of_hints() -> frozenset[str]:
    """All that hints say."""
    words = (words for table in _table().values() for words in table.values())
    return frozenset(text for one in words for text in (one.yes, one.no, one.useless) if text)


@cache
def _table() -> dict[str, dict[str, _Words]]:
    return read_table("moorage.engine", "hint_lines.yaml", dict[str, dict[str, _Words]])


def _change(old: ApiObject | None, new: ApiObject | None) -> str:
    if old is None:
        return "add"
    return "delete" if new is None else "update"


def _has_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
