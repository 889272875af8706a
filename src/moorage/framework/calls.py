"""Calls of plugins that are not in-tree, for whoever watches how long they take.

Owns which call is under way, and that nothing comes out of a call that ends the process or a task.
`watched` makes a plugin class of which every point that does not await says that it is at work, at
the cost of some tenths of a microsecond; in-tree plugins stay as they are. Who
watches, and how a call is ended, is the business of whoever runs the scheduler (`kube.call_watch`).
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import wraps
from types import FunctionType, new_class
from typing import Any

import msgspec

from moorage.errors import CallTimedOutError, StrayError, reason_of
from moorage.framework.cluster_events import EventRegistration, Subjects
from moorage.framework.faults import is_ours
from moorage.framework.pacing import PluginCalls
from moorage.framework.plugin import Plugin

_LOOPS = frozenset({"filter", "score", "rejects_row", "score_row"})
"""What `moorage.framework.plugin` defines and calls a plugin's own code."""
_POINTS = (
    *("__init__", "pod_key", "may_take_long", "pre_enqueue", "sort_key", "pre_filter", "with_pod"),
    *("filter", "post_filter", "pre_score", "score", "normalize", "rejects_row", "score_row"),
    *("assumed", "reserve", "unreserve", "permit", "has_pre_bind_work", "pre_bind_offline"),
    *("generate_placements", "placement_feasible", "score_placement", "normalize_placements"),
    *("pod_group_post_filter", "has_work", "trial_copy", "log_rejections"),
)


_AWAITED = ("pre_bind", "bind", "post_bind", "flush")


def watched(plugin_class: type[Plugin], calls: PluginCalls, profile: str) -> type[Plugin]:
    """The same plugin, of which it is known when it is at work."""
    if is_ours(plugin_class):
        return plugin_class
    body: dict[str, Any] = {
        "__module__": plugin_class.__module__,
        "__qualname__": plugin_class.__qualname__,
        "__doc__": plugin_class.__doc__,
    }
    for name in _POINTS:
        method = getattr(plugin_class, name, None)
        if isinstance(method, property) and method.fget is not None:
            body[name] = property(_watched(method.fget, calls, profile))
        elif method is not None and (
            name in _LOOPS or getattr(method, "__module__", "") != Plugin.__module__
        ):
            body[name] = _watched(method, calls, profile)
    for name in _AWAITED:
        if hasattr(plugin_class, name):
            body[name] = _awaited(getattr(plugin_class, name))
    body["events_to_register"] = _with_watched_hints(plugin_class, calls, profile)
    made = new_class(
        plugin_class.__name__, (plugin_class,), exec_body=lambda namespace: namespace.update(body)
    )
    assert issubclass(made, plugin_class)
    return made


def _watched(method: Callable[..., Any], calls: PluginCalls, profile: str) -> Callable[..., Any]:
    @wraps(method)
    def watched_call(*args: Any, **more: Any) -> Any:
        before = calls.current
        calls.current = [profile]
        try:
            return method(*args, **more)
        except BaseException as error:
            if isinstance(error, (Exception, SystemExit, CallTimedOutError)) or _is_ctrl_c(error):
                raise
            raise StrayError(reason_of(error)).with_traceback(error.__traceback__) from error
        finally:
            calls.current = before

    return watched_call


def _awaited(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def awaited_call(*args: Any, **more: Any) -> Any:
        try:
            return await method(*args, **more)
        except (Exception, SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if _is_ctrl_c(error) or (task is not None and task.cancelling()):
                raise
            raise StrayError(reason_of(error)).with_traceback(error.__traceback__) from error

    return awaited_call


def _is_ctrl_c(error: BaseException) -> bool:
    """Does somebody want the command to end? Where signals are handled it is the plugin's own."""
    handled = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and not handled


_call = _watched(len, PluginCalls(), "")
assert isinstance(_call, FunctionType)
CALL_CODE = _call.__code__
"""The code that is on the stack, right below the plugin's, while a call is under way."""


def _with_watched_hints(
    plugin_class: type[Plugin], calls: PluginCalls, profile: str
) -> Callable[[Any], Any]:
    register = _watched(plugin_class.events_to_register, calls, profile)

    def of(call: Any) -> Any:
        return _watched(call, calls, profile) if callable(call) else call

    @wraps(plugin_class.events_to_register)
    def events_to_register(self: Any) -> Any:
        found = register(self)
        if not isinstance(found, (list, tuple)):
            return found
        return [_replaced(one, of) if isinstance(one, EventRegistration) else one for one in found]

    return events_to_register


def _replaced(one: EventRegistration, of: Callable[[Any], Any]) -> EventRegistration:
    subjects = one.subjects
    if isinstance(subjects, Subjects):
        subjects = Subjects(of(subjects.of_pod), of(subjects.of_event))
    return msgspec.structs.replace(one, hint=of(one.hint), subjects=subjects)
