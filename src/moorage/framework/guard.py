"""Running plugin code: what it raises or answers wrongly is reported with its name and the phase.

Owns what counts as a plugin's own fault, and the checks of answers. They look at each answer once,
never at each node.
"""

import logging
import math
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from moorage.cluster.columns import Ints
from moorage.errors import ApiError, MoorageError, PluginError
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.plugin import DeferringPlugin, Plugin, PostFilterResult, PreFilterResult
from moorage.framework.status import SKIP, Code, Reason, Status, Verdicts
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

FAULTS = (Exception, SystemExit)
"""What a plugin may raise without consequences for others; an interrupt is not the plugin's."""


class guard:  # noqa: N801  # used as a statement, `with guard(plugin, "Filter"):`
    """Turn a surprise in a plugin into a `PluginError`."""

    __slots__ = ("_phase", "_plugin")

    def __init__(self, plugin: Plugin, phase: str) -> None:
        self._plugin = plugin
        self._phase = phase

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, trace
        # What the API says is for whoever talks to it.
        if isinstance(error, FAULTS) and not isinstance(error, (PluginError, ApiError)):
            raise surprise(self._plugin, self._phase, error) from error


def surprise(plugin: Plugin, phase: str, error: BaseException) -> PluginError:
    """What `guard` makes of an exception: for loops that every pod passes, as `try` costs less."""
    if isinstance(error, PluginError):
        return error
    text = str(error) if isinstance(error, MoorageError) else f"{type(error).__name__}: {error}"
    return PluginError(plugin.name, phase, text)


# Answers.


def wrong(plugin: Plugin, phase: str, answer: object, expected: str) -> PluginError:
    """The error of a plugin that answers something else than it should."""
    shown = repr(answer)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return PluginError(plugin.name, phase, f"the answer is {shown} instead of {expected}")


def status_or_none(plugin: Plugin, phase: str, answer: object) -> Status | None:
    """An answer that agrees with None, or with a success that says so."""
    if answer is None:
        return None
    if not _is_status(answer):
        raise wrong(plugin, phase, answer, "a Status or None")
    assert isinstance(answer, Status), "just checked"
    return None if answer.code is Code.SUCCESS else answer


def pre_filter_answer(plugin: Plugin, answer: object) -> None:
    """Refuse what `pre_filter` must not answer."""
    if answer is SKIP:
        return
    if isinstance(answer, PreFilterResult):
        names = answer.node_names
        if names is None or isinstance(names, (frozenset, set)):
            return
    elif _is_status(answer):
        return
    raise wrong(plugin, "PreFilter", answer, "a PreFilterResult, a Status or SKIP")


def post_filter_answer(plugin: Plugin, answer: object) -> None:
    """Refuse what `post_filter` must not answer."""
    if (
        isinstance(answer, PostFilterResult)
        and _is_status(answer.status)
        and (answer.nominated_node is None or isinstance(answer.nominated_node, str))
        and isinstance(answer.victims, tuple)
        and all(isinstance(victim, Pod) for victim in answer.victims)
    ):
        return
    raise wrong(plugin, "PostFilter", answer, "a PostFilterResult")


def permit_answer(plugin: Plugin, answer: Any) -> tuple[Status | None, float]:
    """What `permit` answered, if that makes sense."""
    if isinstance(answer, tuple) and len(answer) == 2:
        status, seconds = answer
        number = isinstance(seconds, (int, float)) and not math.isnan(seconds)
        if number and (status is None or _is_status(status)):
            return status_or_none(plugin, "Permit", status), seconds
    raise wrong(plugin, "Permit", answer, "a Status or None, and seconds")


def verdicts(plugin: Plugin, answer: object, size: int) -> Verdicts:
    """What `filter` answered about so many nodes, if that makes sense."""
    if not isinstance(answer, Verdicts):
        raise wrong(plugin, "Filter", answer, "Verdicts")
    bits = answer.bits
    if not isinstance(bits, np.ndarray) or bits.dtype.kind != "u" or bits.shape != (size,):
        raise wrong(plugin, "Filter", bits, f"bits for each of {size} nodes")
    for reason in answer.reasons:
        if not isinstance(reason, Reason) or not isinstance(reason.code, Code):
            raise wrong(plugin, "Filter", reason, "a Reason")
        if not isinstance(reason.text, str):
            raise wrong(plugin, "Filter", reason.text, "a reason's text")
    return answer


def scores(plugin: Plugin, answer: Any, size: int, phase: str = "Score") -> Ints:
    """What `score` or `normalize` answered about so many nodes, if that makes sense."""
    if isinstance(answer, np.ndarray) and answer.shape == (size,):
        if answer.dtype == np.int64:
            return answer
        if answer.dtype.kind in "iu" and answer.dtype != np.uint64:
            return answer.astype(np.int64)
    raise wrong(plugin, phase, answer, f"an integer for each of {size} nodes")


def events_of(plugin: Plugin) -> Sequence[EventRegistration] | None:
    """The events that a plugin registers; None (any event) if it cannot say so."""
    try:
        with guard(plugin, "EventsToRegister"):
            events = plugin.events_to_register()
            if events is None:
                return None
            events = tuple(events)
            if all(isinstance(event, EventRegistration) for event in events):
                return events
            raise wrong(plugin, "EventsToRegister", events, "EventRegistrations or None")
    except MoorageError as error:
        log.error("%s; its pods are tried again after any event", error)
        return None


def has_work(plugin: DeferringPlugin) -> bool:
    """Has a plugin anything left to be written? Not if it cannot say so."""
    try:
        return bool(plugin.has_work)
    except FAULTS:
        log.exception("plugin %s cannot say whether anything is left to be written", plugin.name)
        return False


def _is_status(answer: object) -> bool:
    return (
        isinstance(answer, Status)
        and isinstance(answer.code, Code)
        and isinstance(answer.reasons, (tuple, list))
        and all(isinstance(reason, str) for reason in answer.reasons)
    )
