"""What plugins do wrong: where it happened, how often, and how often in a row.

Owns the counting, and when somebody is to be told that a plugin keeps failing. Nothing here takes a
plugin out of use.
"""

import inspect
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a plugin's handle has the counts
    from moorage.framework.plugin import Plugin

EXCEPTION, ANSWER, SCORE, TIMEOUT = "exception", "answer", "score", "timeout"
"""Kinds of faults: it raised, gave a wrong type or shape, a score out of range, or no answer."""
DEFAULT_ROW = 10
_MOST_EARLY = 100

# An attempt asks some plugins twice: for answers that are kept, and afresh where that fails.
_ONCE_PER_ATTEMPT = frozenset({"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"})
_METHODS = {
    "": ("__init__",),
    "Filter": ("filter_node", "filter", "rejects_row"),
    "NormalizeScore": ("normalize",),
    "PlacementGenerate": ("generate_placements",),
    "PlacementScore": ("normalize_placements", "score_placement"),
    "PreBindPreFlight": ("has_pre_bind_work",),
    "QueueSort": ("sort_key",),
    "QueueingHint": ("events_to_register",),
    "Reserve": ("reserve", "assumed"),
    "Score": ("score_node", "score", "normalize", "score_row"),
}


class PluginFault(NamedTuple):
    """One thing that went wrong in a plugin."""

    profile: str
    plugin: str
    point: str
    kind: str
    message: str


class PluginFaults:
    """Counts, per profile and plugin; an attempt that goes well ends a row of faults."""

    def __init__(self) -> None:
        self.early: deque[PluginFault] = deque(maxlen=_MOST_EARLY)
        """Those that nobody was told of yet, such as of plugins that are being made."""
        self.observe: Callable[[PluginFault], None] = self.early.append
        """Is told of every fault."""
        self.keeps_failing: Callable[[PluginFault, int], None] = _ignore
        """Is told when a row is as long as `row`, and each time it has doubled since."""
        self.row = DEFAULT_ROW
        self._rows: dict[tuple[str, str], int] = {}
        self._fresh: set[tuple[str, str, str]] = set()
        """(profile, plugin, point) of the faults since the profile's latest attempt began."""

    def note(self, fault: PluginFault) -> None:
        place = fault[:3]
        if place in self._fresh and fault.point in _ONCE_PER_ATTEMPT:
            return
        self._fresh.add(place)
        self.observe(fault)
        key = fault[:2]
        row = self._rows[key] = self._rows.get(key, 0) + 1
        doubled, rest = divmod(row, self.row)
        if not rest and not doubled & (doubled - 1):
            self.keeps_failing(fault, row)

    def attempt_begins(self, profile: str) -> None:
        """Whatever has not failed since the attempt before began is well again."""
        if self._rows:
            failed = {place[:2] for place in self._fresh}
            for key in [key for key in self._rows if key[0] == profile and key not in failed]:
                del self._rows[key]
            self._fresh = {place for place in self._fresh if place[0] != profile}


def is_ours(plugin_class: type) -> bool:
    """Is it an in-tree plugin?"""
    return plugin_class.__module__.startswith("moorage.plugins.")


def raised_at(plugin_class: "type[Plugin]", point: str, trace: TracebackType | None) -> str:
    """`FILE:LINE` where an exception passed the plugin's own code last, or code of others.

    Where the trouble is what our own code was given, that is the method that gave it.
    """
    own = plugin_class.__module__
    best, rank = "", 1
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        here = 2 if module == own else int(not module.startswith("moorage."))
        if here >= rank:
            best, rank = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", here
        trace = trace.tb_next
    return best or defined_at(plugin_class, point)


def defined_at(plugin_class: "type[Plugin]", point: str) -> str:
    """`FILE:LINE` of the method that answers at a point; empty if it cannot be told."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in point).lstrip("_")
    for name in _METHODS.get(point, (snake,)):
        method = inspect.unwrap(getattr(plugin_class, name, None) or raised_at)
        code = getattr(method, "__code__", None)
        if code is not None and not method.__module__.startswith("moorage.framework."):
            return f"{code.co_filename}:{code.co_firstlineno}"
    return ""


def _ignore(*_: object) -> None:
    """Where nobody listens."""
