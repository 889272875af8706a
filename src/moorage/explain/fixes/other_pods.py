"""Pods in the way: one to move, or whom a higher priority would evict, by preemption's dry run."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.errors import PluginError
from moorage.explain.fixes.changes import MOVE_POD, RAISE_PRIORITY, Change, add, free_name
from moorage.explain.fixes.claims import VOLUME_LIMITS, VOLUME_RESTRICTIONS
from moorage.explain.fixes.requests import FIT, crowded, lacking, left_over
from moorage.explain.fixes.sandbox import Sandbox, names_of
from moorage.explain.survey import Survey
from moorage.framework.attempt import AttemptResult
from moorage.framework.guard import guard
from moorage.framework.plugin import PostFilterPlugin, PostFilterResult
from moorage.framework.runner import TrialNode
from moorage.framework.status import Code
from moorage.model.meta import ObjectMeta
from moorage.model.pod import Pod
from moorage.model.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim, claims_of, uses_claim
from moorage.model.workloads import PriorityClass
from moorage.plugins.default_preemption import DefaultPreemption, columns

_ANY_PRIORITY = 2**31
_MOST_VOLUME_ROWS = 12
_ENOUGH = 2
_MOST_USERS = 3


def moved(gone: Sequence[Pod], why: str, plugin: str, kind: str = MOVE_POD) -> Change:
    """Delete pods, or let them run elsewhere."""
    named = " and ".join(f"{pod.key} from {pod.spec.node_name}" for pod in gone)
    highest = max(pod.priority for pod in gone)
    size = 1.5 + 0.7 * len(gone) + (1.0 if highest >= 1_000_000_000 else 0.0)
    return Change(kind, f"move {named}, {why}", size, (plugin,) if plugin else (), gone=tuple(gone))


def make_room(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """One pod that takes what a node lacks, of the least important ones the smallest."""
    short = lacking(survey, pod)
    full = crowded(survey, len(rows))
    concerned = rows & (full | np.logical_or.reduce([*short.values(), full]))
    if not concerned.any():
        return
    others = sandbox.nodes.lesser_pods(_ANY_PRIORITY, 0.0)
    enough: Bools = concerned[others.rows]
    weight = np.zeros(len(others), np.float64)
    for name in short:
        wanted = pod.requests.incoming[name]
        missing = np.maximum(wanted - left_over(sandbox, name, pod), 0)[others.rows]
        held = others.requests.get(name)
        enough &= missing <= (0 if held is None else held)
        if held is not None:
            weight += held / wanted
    places = np.flatnonzero(enough)
    order = np.lexsort((weight[places], others.priorities[places]))
    for place in places[order[:_ENOUGH]]:
        other = others.pods[int(place)]
        yield moved([other], "which makes room", FIT)


def move_claim_users(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """The pods that use a claim that only one pod may use."""
    lister = sandbox.state.listers.of(PersistentVolumeClaim)
    found = (lister.get(used.name, pod.namespace) for used in claims_of(pod) if not used.ephemeral)
    single = [
        claim
        for claim in found
        if claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes
    ]
    users = [
        other
        for other, _ in sandbox.state.placed_pods()
        if single
        and other.spec.volumes
        and any(uses_claim(other, claim, ephemeral=False) for claim in single)
    ]
    if 0 < len(users) <= _MOST_USERS:
        names = " and ".join(claim.name for claim in single)
        verb = "use" if len(users) > 1 else "uses"
        yield moved(users, f"which {verb} the ReadWriteOncePod claim {names}", VOLUME_RESTRICTIONS)


def move_volume_users(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """A pod whose volumes leave room for the pod's on a node, or whose disk it could have."""
    attempt = sandbox.attempt(pod)
    if attempt.outcome is None:
        return
    found = 0
    for row in np.flatnonzero(rows)[:_MOST_VOLUME_ROWS]:
        trial = TrialNode(attempt, int(row))
        here = (other for other in survey.nodes.pods_on(int(row)) if other.spec.volumes)
        for other in sorted(here, key=lambda other: (other.priority, other.key)):
            if sandbox.exhausted:
                return
            sandbox.runs += 1
            try:
                if trial.removing((other,)).rejection() is not None:
                    continue
            except PluginError:
                return
            yield moved([other], "which makes room for the pod's volumes", VOLUME_LIMITS)
            found += 1
            break
        if found >= _ENOUGH:
            return


_HIGHEST = 1_000_000_000
"""The highest priority that users may give."""
NEVER = "Never"
_MOST_NAMED = 3
_MOST_PREEMPTED_ROWS = 500
_MOST_ONE_BY_ONE = 30
"""So many nodes are tried, together where that is quick."""


def raise_priority(sandbox: Sandbox, pod: Pod) -> Change | None:
    """The lowest priority that makes room; just who has to go, if it is high enough already."""
    plugin = next(
        (p for p in sandbox.profile.post_filter if isinstance(p, DefaultPreemption)), None
    )
    if plugin is None or pod.spec.preemption_policy == NEVER or sandbox.exhausted:
        return None
    now = _outcome(sandbox, pod, pod.priority, plugin)
    if now is not None:
        return moved(now.victims, "as preemption is about to do", "") if now.victims else None
    steps = _priorities(sandbox, pod)
    best = _outcome(sandbox, pod, steps[-1] + 1, plugin) if steps else None
    if best is None:
        return None
    low, high = -1, len(steps) - 1
    while high - low > 1 and not sandbox.exhausted:
        middle = (low + high) // 2
        found = _outcome(sandbox, pod, steps[middle] + 1, plugin)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    known = _class_above(sandbox, steps[high])
    if known is not None:
        best = _outcome(sandbox, pod, known.value, plugin) or best
    chosen = known or _new_class(sandbox, steps[high])
    return _raised(steps[high], chosen, best, is_new=known is None)


class _Outcome(msgspec.Struct, frozen=True):
    nodes: Sequence[str]
    victims: tuple[Pod, ...] = ()


def _priorities(sandbox: Sandbox, pod: Pod) -> list[int]:
    """The priorities that it may help to exceed, ascending."""
    placed = {other.priority for other, _ in sandbox.state.placed_pods()}
    waiting = {
        other.priority
        for pods in sandbox.cycle.nominated.ahead_of(pod, sandbox.nodes).values()
        for other in pods
    }
    return sorted(p for p in placed | waiting if pod.priority <= p < _HIGHEST)


def _with_priority(pod: Pod, priority: int) -> Pod:
    spec = msgspec.structs.replace(pod.spec, priority=priority)
    return msgspec.structs.replace(pod, spec=spec)


def _outcome(
    sandbox: Sandbox, pod: Pod, priority: int, plugin: PostFilterPlugin
) -> _Outcome | None:
    changed = _with_priority(pod, priority)
    try:
        attempt = sandbox.attempt(changed)
        nodes = names_of(attempt)
        if nodes:
            return _Outcome(nodes)
        together = columns.applies(attempt) and not pod.host_ports
        some = _some(attempt, _MOST_PREEMPTED_ROWS if together else _MOST_ONE_BY_ONE)
        if some is not None:
            attempt = sandbox.attempt(changed, some)
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


def _class_above(sandbox: Sandbox, above: int) -> PriorityClass | None:
    """The lowest of the cluster's classes that is high enough, and lets its pods preempt."""
    classes = [
        one
        for one in sandbox.state.listers.of(PriorityClass)
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


def _new_class(sandbox: Sandbox, above: int) -> PriorityClass:
    name = f"above-{'minus-' if above < 0 else ''}{abs(above)}"
    return PriorityClass(
        metadata=ObjectMeta(name=free_name(name, sandbox.state.listers.of(PriorityClass).get)),
        api_version="scheduling.k8s.io/v1",
        kind="PriorityClass",
        value=above + 1,
    )
