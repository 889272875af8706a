"""Calls of plugins that are not in-tree, for whoever watches how long they take.

Owns which call is under way. `watched` makes a plugin class of which every point that does not
await says so, at the cost of some tenths of a microsecond; in-tree plugins stay as they are. Who
watches, and how a call is ended, is the business of whoever runs the scheduler (`kube.call_watch`).
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType, new_class
from typing import Any

import msgspec

from moorage.framework.cluster_events import EventRegistration, Subjects
from moorage.framework.faults import is_ours
from moorage.framework.pacing import PluginCalls
from moorage.framework.plugin import Plugin

_LOOPS = frozenset({"filter", "score", "rejects_row", "score_row"})
"""What `moorage.framework.plugin` defines and calls a plugin's own code."""
_POINTS = (
    *("__init__", "pod_key", "may_take_long", "pre_enqueue", "sort_key", "pre_filter", "with_pod"),
    *("filter", "post_filter", "pre_score", "score", "normalize", "rejects_row", "score_row"),
    *("assumed", "reserve", "unreserve", "permit", "has_pre_bind_work", "has_work"),
    *("generate_placements", "score_placement", "pod_group_post_filter"),
)


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
        finally:
            calls.current = before

    return watched_call


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
