"""Calling plugins: exceptions and wrong answers are reported with the plugin and the phase.

Owns what counts as a plugin's own fault, the checks of answers, and every call of a plugin's
PreEnqueue, PreFilter, Filter, PreScore and Score. A check looks at each answer once, never at each
node.
"""

import logging
import math
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.errors import ApiError, CallTimedOutError, MoorageError, PluginError, reason_of, shown
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.faults import (
    ANSWER,
    EXCEPTION,
    SCORE,
    TIMEOUT,
    PluginFault,
    defined_at,
    is_ours,
    raised_at,
)
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    DeferringPlugin,
    FilterPlugin,
    Handle,
    Plugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

FAULTS = (Exception, SystemExit, CallTimedOutError)
"""What counts as the plugin's own fault when it is raised; a KeyboardInterrupt does not."""
_INT64 = np.dtype(np.int64)


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
        # Callers tell the API's errors apart by their status.
        if isinstance(error, FAULTS) and not isinstance(error, (PluginError, ApiError)):
            raise surprise(self._plugin, self._phase, error) from error


def surprise(plugin: Plugin, phase: str, error: BaseException) -> PluginError:
    """What `guard` makes of an exception: for loops that every pod passes, as `try` costs less."""
    if isinstance(error, PluginError):
        return error
    reason = reason_of(error)
    if is_ours(type(plugin)) and isinstance(error, MoorageError):
        return PluginError(plugin.name, phase, reason)  # it is meant as it is
    if place := raised_at(type(plugin), phase, error.__traceback__):
        reason = f"{reason} ({place})"
    kind = TIMEOUT if isinstance(error, CallTimedOutError) else EXCEPTION
    return _noted(plugin, phase, kind, PluginError(plugin.name, phase, reason))


def log_surprise(plugin: Plugin, phase: str, error: BaseException, pod: Pod | None = None) -> None:
    """Where a fault ends nothing, it is logged, with the traceback for whoever wrote the plugin."""
    about = "" if pod is None else f"pod {pod.key}: "
    log.error("%s%s", about, surprise(plugin, phase, error), exc_info=True, stacklevel=2)


def _noted(plugin: Plugin, phase: str, kind: str, error: PluginError) -> PluginError:
    handle: Handle | None = getattr(plugin, "handle", None)  # its __init__ may have forgotten ours
    if handle is not None:
        handle.faults.note(PluginFault(handle.profile_name, plugin.name, phase, kind, str(error)))
    return error


def wrong_answer(plugin: Plugin, phase: str, answer: object, expected: str) -> PluginError:
    """The error of a plugin that returned something else than it should."""
    text = shown(answer)
    text = text if len(text) <= 80 else f"{text[:77]}..."
    place = defined_at(type(plugin), phase)
    detail = f"the answer is {text} instead of {expected}{f' ({place})' if place else ''}"
    return _noted(plugin, phase, ANSWER, PluginError(plugin.name, phase, detail))


def checked_status(plugin: Plugin, phase: str, answer: object) -> Status | None:
    """None if the answer is None or a success; otherwise the status."""
    if answer is None:
        return None
    if not _is_status(answer):
        raise wrong_answer(plugin, phase, answer, "a Status or None")
    assert isinstance(answer, Status), "just checked"
    return None if answer.code is Code.SUCCESS else answer


def ask_pre_enqueue(plugin: PreEnqueuePlugin, pod: Pod) -> Status | None:
    """What keeps the pod out of the queue; None lets it in."""
    try:
        status = checked_status(plugin, "PreEnqueue", plugin.pre_enqueue(pod))
    except FAULTS as error:
        raise surprise(plugin, "PreEnqueue", error) from error
    return None if status is None else Status(status.code, status.reasons, plugin.name)


def ask_pre_filter(
    plugin: PreFilterPlugin[Any], pod: Pod, nodes: NodeView
) -> PreFilterResult[Any] | Skip | Status:
    """What PreFilter works out, SKIP, or a rejection with the plugin's name."""
    try:
        answer: object = plugin.pre_filter(pod, nodes)
    except FAULTS as error:
        raise surprise(plugin, "PreFilter", error) from error
    if answer is SKIP:
        return SKIP
    if isinstance(answer, PreFilterResult):
        names = answer.node_names
        if names is None or isinstance(names, (frozenset, set)):
            return answer
    elif _is_status(answer):
        assert isinstance(answer, Status), "just checked"
        if not answer.code.rejected:
            raise PluginError(plugin.name, "PreFilter", answer.message)
        return Status(answer.code, answer.reasons, plugin.name)
    raise wrong_answer(plugin, "PreFilter", answer, "a PreFilterResult, a Status or SKIP")


def ask_filter(plugin: FilterPlugin[Any], pod: Pod, nodes: NodeView, state: Any) -> Verdicts:
    """The plugin's verdict on every node of a view."""
    try:
        answer = plugin.filter(pod, nodes, state)
    except FAULTS as error:
        raise surprise(plugin, "Filter", error) from error
    return checked_verdicts(plugin, answer, len(nodes))


def ask_pre_score(plugin: PreScorePlugin[Any], pod: Pod, nodes: NodeView) -> Any:
    """What PreScore works out, or SKIP."""
    try:
        return plugin.pre_score(pod, nodes)
    except FAULTS as error:
        raise surprise(plugin, "PreScore", error) from error


def ask_score(plugin: ScorePlugin[Any], pod: Pod, nodes: NodeView, state: Any) -> Ints | Skip:
    """The plugin's raw score of every node of a view, or SKIP."""
    try:
        answer = plugin.score(pod, nodes, state)
    except FAULTS as error:
        raise surprise(plugin, "Score", error) from error
    return SKIP if answer is SKIP else checked_scores(plugin, answer, len(nodes))


def raw_scores(plugin: ScorePlugin[Any], pod: Pod, nodes: NodeView, state: Any) -> Ints:
    """The same, with SKIP as zeros."""
    answer = ask_score(plugin, pod, nodes, state)
    return np.zeros(len(nodes), np.int64) if answer is SKIP else answer


def ask_normalize(plugin: ScorePlugin[Any], scores: Ints, state: Any) -> Ints:
    """Raw scores brought to 0..100; the argument may be changed."""
    try:
        answer = plugin.normalize(scores, state)
    except FAULTS as error:
        raise surprise(plugin, "NormalizeScore", error) from error
    return checked_range(plugin, checked_scores(plugin, answer, len(scores), "NormalizeScore"))


def checked_range(plugin: Plugin, scores: Ints) -> Ints:
    """Normalised scores, or `PluginError` if one is not in 0..100."""
    # As unsigned numbers negative scores are huge, so one reduction tests both ends.
    unsigned = scores.view(np.uint64)
    if len(scores) and unsigned[unsigned.argmax()] > MAX_NODE_SCORE:
        wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]
        detail = (
            f'plugin "{plugin.name}" returns an invalid score {wrong}, it should in the range '
            f"of [0, {MAX_NODE_SCORE}] after normalizing"
        )
        cls = type(plugin)
        if place := defined_at(cls, "NormalizeScore") or defined_at(cls, "Score"):
            detail = f"{detail} ({place})"
        raise _noted(plugin, "Score", SCORE, PluginError(plugin.name, "Score", detail))
    return scores


def check_post_filter_answer(plugin: Plugin, answer: object) -> None:
    """Raise `PluginError` unless `post_filter` may return this."""
    if (
        isinstance(answer, PostFilterResult)
        and _is_status(answer.status)
        and (answer.nominated_node is None or isinstance(answer.nominated_node, str))
        and isinstance(answer.victims, tuple)
        and all(isinstance(victim, Pod) for victim in answer.victims)
    ):
        return
    raise wrong_answer(plugin, "PostFilter", answer, "a PostFilterResult")


def checked_permit_answer(plugin: Plugin, answer: Any) -> tuple[Status | None, float]:
    """What `permit` returned, or `PluginError` if it must not return that."""
    if isinstance(answer, tuple) and len(answer) == 2:
        status, seconds = answer
        number = isinstance(seconds, (int, float)) and not math.isnan(seconds)
        if number and (status is None or _is_status(status)):
            return checked_status(plugin, "Permit", status), seconds
    raise wrong_answer(plugin, "Permit", answer, "a Status or None, and seconds")


def checked_verdicts(plugin: Plugin, answer: object, size: int) -> Verdicts:
    """What `filter` returned for `size` nodes, or `PluginError` if it must not return that."""
    if not isinstance(answer, Verdicts):
        raise wrong_answer(plugin, "Filter", answer, "Verdicts")
    bits = answer.bits
    if not isinstance(bits, np.ndarray) or bits.dtype.kind != "u" or bits.shape != (size,):
        raise wrong_answer(plugin, "Filter", bits, f"bits for each of {size} nodes")
    for reason in answer.reasons:
        if not isinstance(reason, Reason) or not isinstance(reason.code, Code):
            raise wrong_answer(plugin, "Filter", reason, "a Reason")
        if not isinstance(reason.text, str):
            raise wrong_answer(plugin, "Filter", reason.text, "a reason's text")
    return answer


def checked_scores(plugin: Plugin, answer: Any, size: int, phase: str = "Score") -> Ints:
    """What `score` or `normalize` returned for `size` nodes, as int64; otherwise `PluginError`."""
    if isinstance(answer, np.ndarray) and answer.shape == (size,):
        if answer.dtype == _INT64:
            return answer
        if answer.dtype.kind in "iu" and answer.dtype != np.uint64:
            return answer.astype(np.int64)
    raise wrong_answer(plugin, phase, answer, f"an integer for each of {size} nodes")


def events_of(plugin: Plugin) -> Sequence[EventRegistration] | None:
    """The events that a plugin registers; None (any event) if it fails to."""
    try:
        with guard(plugin, "EventsToRegister"):
            events = plugin.events_to_register()
            if events is None:
                return None
            events = tuple(events)
            if all(isinstance(event, EventRegistration) for event in events):
                return events
            raise wrong_answer(plugin, "EventsToRegister", events, "EventRegistrations or None")
    except MoorageError as error:
        log.error("%s; its pods are tried again after any event", error)
        return None


def has_work(plugin: DeferringPlugin) -> bool:
    """Has a plugin anything left to write? Not if asking it fails."""
    try:
        return bool(plugin.has_work)
    except FAULTS as error:
        log_surprise(plugin, "HasWork", error)
        return False


def may_take_long(plugin: Plugin, pod: Pod) -> bool:
    """May a plugin's part in an attempt take long? Also if asking it fails."""
    try:
        return bool(plugin.may_take_long(pod))
    except FAULTS as error:
        log_surprise(plugin, "MayTakeLong", error, pod)
        return True


def _is_status(answer: object) -> bool:
    return (
        isinstance(answer, Status)
        and isinstance(answer.code, Code)
        and isinstance(answer.reasons, (tuple, list))
        and all(isinstance(reason, str) for reason in answer.reasons)
    )
