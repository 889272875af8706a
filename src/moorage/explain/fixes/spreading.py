"""Topology spread constraints: how much skew would have to be allowed, or which one only wished."""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.errors import PluginError
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import RELAX, Change
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import Operation, add, remove
from moorage.framework.guard import ask_filter, ask_pre_filter
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin
from moorage.framework.status import SKIP, Status
from moorage.model.node import HOSTNAME_LABEL
from moorage.model.pod import Pod

SPREAD = "PodTopologySpread"
_FIELD = "topologySpreadConstraints"
_HARD = "DoNotSchedule"
_SOFT = "ScheduleAnyway"
_MOST_SKEW = 1 << 20


def relax_spreading(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Relax each hard constraint: more skew, fewer domains, or merely a wish."""
    del obstacles
    if not rows.any():
        return
    constraints = pod.spec.topology_spread_constraints
    if not constraints:
        yield _own_constraint(pod)
    for i, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable != _HARD:
            continue
        name = f"the topology spread over {constraint.topology_key}"
        skew = _least_skew(bench, pod, i, rows)
        if skew is not None:
            operation = add(skew, "spec", _FIELD, i, "maxSkew")
            text = f"raise maxSkew of {name} from {constraint.max_skew} to {skew}"
            size = 0.6 + min(0.8, 0.1 * (skew - constraint.max_skew))
            yield Change(RELAX, text, size, (SPREAD,), (operation,))
        if constraint.min_domains is not None:
            text = f"drop minDomains ({constraint.min_domains}) of {name}"
            yield Change(RELAX, text, 0.9, (SPREAD,), (remove("spec", _FIELD, i, "minDomains"),))
        yield _softened(pod, i)


def _softened(pod: Pod, place: int) -> Change:
    """A wish instead of a demand, by the API's rules: one per key, and without minDomains."""
    constraints = pod.spec.topology_spread_constraints
    one = constraints[place]
    name = f"the topology spread over {one.topology_key}"
    if any(
        (other.topology_key, other.when_unsatisfiable) == (one.topology_key, _SOFT)
        for other in constraints
    ):
        text = f"drop {name} as a demand, as it is a wish as well"
        return Change(RELAX, text, 1.2, (SPREAD,), (remove("spec", _FIELD, place),))
    soft: tuple[Operation, ...] = (add(_SOFT, "spec", _FIELD, place, "whenUnsatisfiable"),)
    if one.min_domains is not None:
        soft = (remove("spec", _FIELD, place, "minDomains"), *soft)
    return Change(RELAX, f"make {name} {_SOFT}", 1.2, (SPREAD,), soft)


def _own_constraint(pod: Pod) -> Change:
    """The profile's defaults are for pods without constraints of their own."""
    own = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME_LABEL,
        "whenUnsatisfiable": _SOFT,
        "labelSelector": {"matchLabels": dict(pod.labels)},
    }
    text = f"give the pod a topology spread of its own, {_SOFT}, instead of the profile's default"
    return Change(RELAX, text, 1.3, (SPREAD,), (add([own], "spec", _FIELD),))


def _least_skew(bench: Bench, pod: Pod, place: int, rows: Bools) -> int | None:
    """The smallest maxSkew with which the constraint lets some row pass."""
    low = pod.spec.topology_spread_constraints[place].max_skew
    high = _MOST_SKEW
    if not _passes(bench, _with_skew(pod, place, high), rows):
        return None
    step = 1
    while low + step < high:  # most often little more is enough
        if _passes(bench, _with_skew(pod, place, low + step), rows):
            high = low + step
            break
        step *= 2
    low += step // 2
    while high - low > 1:
        middle = (low + high) // 2
        if _passes(bench, _with_skew(pod, place, middle), rows):
            high = middle
        else:
            low = middle
    return high


def _with_skew(pod: Pod, place: int, skew: int) -> Pod:
    constraints = list(pod.spec.topology_spread_constraints)
    constraints[place] = msgspec.structs.replace(constraints[place], max_skew=skew)
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=tuple(constraints))
    return msgspec.structs.replace(pod, spec=spec)


def _passes(bench: Bench, pod: Pod, rows: Bools) -> bool:
    """Does the plugin, asked alone, accept any of the rows?"""
    plugin: Any = bench.profile.plugins.get(SPREAD)
    if not isinstance(plugin, PreFilterPlugin) or not isinstance(plugin, FilterPlugin):
        return False
    try:
        answer = ask_pre_filter(plugin, pod, bench.nodes)
        if answer is SKIP:
            return True
        if isinstance(answer, Status):
            return False
        return bool(np.any(rows & ~ask_filter(plugin, pod, bench.nodes, answer.state).rejected))
    except PluginError:
        return False
