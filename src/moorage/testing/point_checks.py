"""Checks for every plugin, whatever its points: its class, what it says off the nodes, its balance.

1. Class: a name, at least one point, nothing left undefined; kinds and events that can be followed.
2. Answers: PreEnqueue, sort keys, hints and keys are of the right type, the same when asked again,
   and sort keys can be compared.
3. Balance: what Reserve and Permit note about pods is gone after `unreserve`, which may be called
   twice and without `reserve`; then the plugin says of nodes what it said before.

Owns the checks that need no attempt. `plugin_checks` asks about nodes and runs the engine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random

import msgspec

from moorage.cluster.state import ClusterState
from moorage.errors import MoorageError, reason_of
from moorage.framework.cluster_events import ActionType, ClusterEvent, EventResource
from moorage.framework.faults import raised_at
from moorage.framework.guard import (
    ask_pre_enqueue,
    checked_permit_answer,
    checked_status,
    events_of,
    guard,
    wrong_answer,
)
from moorage.framework.plugin import (
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ReservePlugin,
)
from moorage.framework.profile import check_reads, named_kinds
from moorage.framework.registry import POINT_CLASSES
from moorage.framework.status import Code
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing.errors import PluginCheckError

_DEPTH = 6
_OPAQUE = (str, bytes, int, float, bool, type(None), type, msgspec.Struct)


def check_class(plugin_class: type[Plugin]) -> None:
    """Can the class be offered to a configuration?"""
    if not (isinstance(plugin_class, type) and issubclass(plugin_class, Plugin)):
        raise PluginCheckError(
            f"{plugin_class!r} is not a subclass of moorage.framework.plugin.Plugin"
        )
    name = getattr(plugin_class, "name", None)
    if not (isinstance(name, str) and name and name == name.strip()):
        raise PluginCheckError(f"{plugin_class.__name__}: name is {name!r} instead of a name")
    missing = sorted(getattr(plugin_class, "__abstractmethods__", ()))
    if missing:
        raise PluginCheckError(f"{name}: {', '.join(missing)} not defined")
    if not issubclass(plugin_class, tuple(POINT_CLASSES.values())):
        raise PluginCheckError(f"{name}: it takes part in no extension point")


def check_registrations(plugin: Plugin, state: ClusterState, pods: Sequence[Pod]) -> None:
    """What it looks up and waits for; hints answer whatever they are asked about."""
    check_reads(plugin)
    list(named_kinds(plugin))
    with guard(plugin, "EventsToRegister"):
        plugin.events_to_register()
    for registration in events_of(plugin) or ():
        if registration.hint is None:
            continue
        for change in _changes(registration.event, state, pods):
            for pod in pods:
                with guard(plugin, "QueueingHint"):
                    hint = registration.hint(pod, *change)
                    if not isinstance(hint, bool):
                        raise wrong_answer(plugin, "QueueingHint", hint, "True or False")


def _changes(
    event: ClusterEvent, state: ClusterState, pods: Sequence[Pod]
) -> Iterator[tuple[ApiObject | None, ApiObject | None]]:
    """Some objects that an event may be about, as they were before and after it."""
    resource = event.resource
    objects: Iterable[ApiObject]
    if isinstance(resource, str):
        objects = state.listers.of(resource)
    elif resource is EventResource.NODE:
        objects = state.nodes.nodes
    elif resource.value.endswith("Pod"):
        objects = pods
    else:
        kind = resource.value.rpartition("/")[2]
        objects = state.listers.of(KINDS[kind].struct) if kind in KINDS else ()
    for obj in islice(objects, 3):
        if event.action & ActionType.ADD:
            yield None, obj
        if event.action & ActionType.UPDATE:
            yield obj, obj
        if event.action & ActionType.DELETE:
            yield obj, None


def check_queue(plugin: Plugin, pods: Sequence[Pod]) -> None:
    """PreEnqueue and QueueSort, and the key of a pod."""
    for pod in pods:
        with guard(plugin, "PodKey"):
            key = plugin.pod_key(pod)
            hash(key)
            _same("pod_key", pod, key, plugin.pod_key(pod))
        if isinstance(plugin, PreEnqueuePlugin):
            _same("pre_enqueue", pod, ask_pre_enqueue(plugin, pod), ask_pre_enqueue(plugin, pod))
    if isinstance(plugin, QueueSortPlugin):
        times = range(len(pods))
        with guard(plugin, "QueueSort"):
            keys = [plugin.sort_key(pod, float(at)) for pod, at in zip(pods, times, strict=True)]
            for pod, at, key in zip(pods, times, keys, strict=True):
                if key is None or bool(key != key):
                    raise wrong_answer(plugin, "QueueSort", key, "something to be compared")
                _same("sort_key", pod, key, plugin.sort_key(pod, float(at)))
            sorted(keys)


def _same(method: str, pod: Pod, first: object, again: object) -> None:
    if first != again:
        raise PluginCheckError(
            f"{method} of pod {pod.key} says {first!r}, and {again!r} when asked again"
        )


def check_balance(plugin: Plugin, random: Random, state: ClusterState, rounds: int = 3) -> None:
    """Reserve and Permit for pods that all come to nothing: nothing may pile up."""
    if not isinstance(plugin, ReservePlugin | PermitPlugin):
        return
    pods = [pod for pod, _ in state.placed_pods()][:8]
    sizes = []
    for serial in range(rounds):
        for pod in pods:
            metadata = msgspec.structs.replace(
                pod.metadata, name=f"{pod.name}-{serial}", uid=f"{pod.uid}-{serial}"
            )
            _come_and_go(
                plugin,
                msgspec.structs.replace(pod, metadata=metadata).on_node(""),
                random.choice(list(state.nodes.row_of)),
            )
        sizes.append(_size([plugin, *plugin.handle.listers.tracked]))
    # The first round may fill what is kept on purpose; what goes on growing was forgotten.
    if pods and sizes[-1] >= sizes[-2] + len(pods) and sizes[-2] >= sizes[-3] + len(pods):
        raise PluginCheckError(
            f"what it notes about pods goes on growing although all of them were unreserved: "
            f"{', '.join(map(str, sizes))} entries after rounds of {len(pods)} pods each"
            + ("" if isinstance(plugin, ReservePlugin) else "; only a ReservePlugin is told of it")
        )


def _come_and_go(plugin: Plugin, pod: Pod, node_name: str) -> None:
    undone = isinstance(plugin, ReservePlugin)
    if isinstance(plugin, ReservePlugin):
        with guard(plugin, "Unreserve"):
            plugin.unreserve(pod, node_name)  # as if an earlier plugin had refused
        with guard(plugin, "Reserve"):
            assumed = plugin.assumed(pod, node_name)
            if not isinstance(assumed, Pod):
                raise wrong_answer(plugin, "Reserve", assumed, "a pod")
            refused = checked_status(plugin, "Reserve", plugin.reserve(assumed, node_name))
            undone = refused is None
    if isinstance(plugin, PermitPlugin) and (undone or not isinstance(plugin, ReservePlugin)):
        with guard(plugin, "Permit"):
            status, seconds = checked_permit_answer(plugin, plugin.permit(pod, node_name))
        if status is not None and status.code is Code.WAIT:
            if seconds < 0:
                raise PluginCheckError(f"permit of pod {pod.key} lets it wait {seconds} s")
            waiting = WaitingPod(pod, node_name, {plugin.name: (seconds, seconds)})
            plugin.handle.waiting.add(waiting)
            waiting.expire(seconds)
    if isinstance(plugin, ReservePlugin):
        with guard(plugin, "Unreserve"):
            plugin.unreserve(pod, node_name)
            plugin.unreserve(pod, node_name)
    plugin.handle.cycle_states.end(pod)


def _size(found: object, depth: int = _DEPTH, seen: set[int] | None = None) -> int:
    """How many entries there are in collections that can be reached from a plugin."""
    seen = set() if seen is None else seen
    if depth == 0 or isinstance(found, _OPAQUE) or id(found) in seen:
        return 0
    seen.add(id(found))
    entries, parts = 0, getattr(found, "__dict__", {}).values()
    if isinstance(found, Mapping):
        entries, parts = len(found), found.values()
    elif isinstance(found, list | tuple | set | frozenset):
        entries, parts = len(found), found
    return entries + sum(_size(part, depth - 1, seen) for part in parts)


def named(plugin_class: type[Plugin], error: BaseException, more: str = "") -> PluginCheckError:
    """The error of a check, with the plugin's name in front, and with the place."""
    text = str(error)
    if not isinstance(error, (MoorageError, PluginCheckError)):
        place = raised_at(plugin_class, "", error.__traceback__)
        text = reason_of(error) + (f" ({place})" if place else "")
    return PluginCheckError(
        f"{plugin_class.name}: {text.removeprefix(f'{plugin_class.name}: ')}{more}"
    )
