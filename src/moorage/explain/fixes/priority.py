"""A higher priority: above whom, and who would have to go, by preemption's own dry run."""

from collections.abc import Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.errors import PluginError
from moorage.explain.fixes.bench import Bench, names_of
from moorage.explain.fixes.changes import RAISE_PRIORITY, Change, free_name
from moorage.explain.fixes.moving import moved
from moorage.explain.fixes.patches import add
from moorage.framework.attempt import AttemptResult
from moorage.framework.guard import guard
from moorage.framework.plugin import PostFilterPlugin, PostFilterResult
from moorage.framework.status import Code
from moorage.model.meta import ObjectMeta
from moorage.model.pod import Pod
from moorage.model.workloads import PriorityClass
from moorage.plugins.default_preemption import DefaultPreemption, columns

_HIGHEST = 1_000_000_000
"""The highest priority that users may give."""
NEVER = "Never"
_MOST_NAMED = 3
_MOST_ROWS = 500
_MOST_ONE_BY_ONE = 30
"""So many nodes are tried, together where that is quick."""


def raise_priority(bench: Bench, pod: Pod) -> Change | None:
    """The lowest priority that makes room; just who has to go, if it is high enough already."""
    plugin = next((p for p in bench.profile.post_filter if isinstance(p, DefaultPreemption)), None)
    if plugin is None or pod.spec.preemption_policy == NEVER or bench.exhausted:
        return None
    now = _outcome(bench, pod, pod.priority, plugin)
    if now is not None:
        return moved(now.victims, "as preemption is about to do", "") if now.victims else None
    steps = _priorities(bench, pod)
    best = _outcome(bench, pod, steps[-1] + 1, plugin) if steps else None
    if best is None:
        return None
    low, high = -1, len(steps) - 1
    while high - low > 1 and not bench.exhausted:
        middle = (low + high) // 2
        found = _outcome(bench, pod, steps[middle] + 1, plugin)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    known = _class_above(bench, steps[high])
    if known is not None:
        best = _outcome(bench, pod, known.value, plugin) or best
    chosen = known or _new_class(bench, steps[high])
    return _raised(steps[high], chosen, best, is_new=known is None)


class _Outcome(msgspec.Struct, frozen=True):
    nodes: Sequence[str]
    victims: tuple[Pod, ...] = ()


def _priorities(bench: Bench, pod: Pod) -> list[int]:
    """The priorities that it may help to exceed, ascending."""
    placed = {other.priority for other, _ in bench.state.placed_pods()}
    waiting = {
        other.priority
        for pods in bench.cycle.nominated.ahead_of(pod, bench.nodes).values()
        for other in pods
    }
    return sorted(p for p in placed | waiting if pod.priority <= p < _HIGHEST)


def _with_priority(pod: Pod, priority: int) -> Pod:
    spec = msgspec.structs.replace(pod.spec, priority=priority)
    return msgspec.structs.replace(pod, spec=spec)


def _outcome(bench: Bench, pod: Pod, priority: int, plugin: PostFilterPlugin) -> _Outcome | None:
    changed = _with_priority(pod, priority)
    try:
        attempt = bench.attempt(changed)
        nodes = names_of(attempt, attempt.outcome)
        if nodes:
            return _Outcome(nodes)
        together = columns.applies(attempt) and not pod.host_ports
        some = _some(attempt, _MOST_ROWS if together else _MOST_ONE_BY_ONE)
        if some is not None:
            attempt = bench.attempt(changed, some)
        with guard(plugin, "PostFilter"):
            result: PostFilterResult = plugin.post_filter(changed, attempt)
    except PluginError:
        return None
    if result.status.code is not Code.SUCCESS or not result.nominated_node:
        return None
    return _Outcome([result.nominated_node], result.victims)


def _some(attempt: AttemptResult, most: int) -> Bools | None:
    """Some of the nodes that preemption may help on, if there are too many to try them all."""
    curable = np.flatnonzero(attempt.diagnosis.resolvable_rows())
    if len(curable) <= most:
        return None
    chosen: Bools = np.zeros(len(attempt.nodes), np.bool_)
    chosen[curable[:: len(curable) // most][:most]] = True
    return chosen


def _class_above(bench: Bench, above: int) -> PriorityClass | None:
    """The lowest of the cluster's classes that is high enough, and lets its pods preempt."""
    classes = [
        one
        for one in bench.state.listers.of(PriorityClass)
        if above < one.value <= _HIGHEST and one.preemption_policy != NEVER
    ]
    return min(classes, key=lambda one: (one.value, one.name), default=None)


def _raised(above: int, chosen: PriorityClass, outcome: _Outcome, *, is_new: bool) -> Change:
    # Priorities of pods come from classes only; the number is what the API would fill in.
    operations = (
        add(chosen.value, "spec", "priority"),
        add(chosen.name, "spec", "priorityClassName"),
    )
    new = "a new" if is_new else "the"
    text = f"raise the priority above {above} by {new} PriorityClass {chosen.name} ({chosen.value})"
    victims = [other.key for other in outcome.victims]
    if victims:
        named = ", ".join(victims[:_MOST_NAMED])
        more = f" and {len(victims) - _MOST_NAMED} more" if len(victims) > _MOST_NAMED else ""
        text += f"; {named}{more} would have to leave {outcome.nodes[0]}"
    return Change(
        RAISE_PRIORITY,
        text,
        2.0 + 0.5 * min(len(victims), 6),
        patch=operations,
        objects=(chosen,) if is_new else (),
        gone=outcome.victims,
    )


def _new_class(bench: Bench, above: int) -> PriorityClass:
    name = f"above-{'minus-' if above < 0 else ''}{abs(above)}"
    return PriorityClass(
        metadata=ObjectMeta(name=free_name(name, bench.state.listers.of(PriorityClass).get)),
        api_version="scheduling.k8s.io/v1",
        kind="PriorityClass",
        value=above + 1,
    )
