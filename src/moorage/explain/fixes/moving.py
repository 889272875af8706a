"""Room made by others: which pod would have to run elsewhere.

Priorities decide only who is named first; whoever reads it decides who may go.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from moorage.cluster.columns import Bools
from moorage.errors import PluginError
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import MOVE_POD, Change
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.requests import PLUGIN as FIT
from moorage.explain.fixes.requests import crowded, lacking, left_over
from moorage.explain.fixes.volumes import LIMITS, RESTRICTIONS
from moorage.framework.runner import TrialNode
from moorage.model.pod import Pod
from moorage.model.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim, claims_of, uses_claim

_ANY_PRIORITY = 2**31
_MOST_ROWS = 12
_ENOUGH = 2
_MOST_USERS = 3


def moved(gone: Sequence[Pod], why: str, plugin: str, kind: str = MOVE_POD) -> Change:
    """Delete pods, or let them run elsewhere."""
    named = " and ".join(f"{pod.key} from {pod.spec.node_name}" for pod in gone)
    highest = max(pod.priority for pod in gone)
    size = 1.5 + 0.7 * len(gone) + (1.0 if highest >= 1_000_000_000 else 0.0)
    return Change(kind, f"move {named}, {why}", size, (plugin,) if plugin else (), gone=tuple(gone))


def make_room(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """One pod that takes what a node lacks, of the least important ones the smallest."""
    short = lacking(obstacles, pod)
    full = crowded(obstacles, len(rows))
    concerned = rows & (full | np.logical_or.reduce([*short.values(), full]))
    if not concerned.any():
        return
    others = bench.nodes.lesser_pods(_ANY_PRIORITY, 0.0)
    enough: Bools = concerned[others.rows]
    weight = np.zeros(len(others), np.float64)
    for name in short:
        wanted = pod.requests.incoming[name]
        missing = np.maximum(wanted - left_over(bench, name, pod), 0)[others.rows]
        held = others.requests.get(name)
        enough &= missing <= (0 if held is None else held)
        if held is not None:
            weight += held / wanted
    places = np.flatnonzero(enough)
    order = np.lexsort((weight[places], others.priorities[places]))
    for place in places[order[:_ENOUGH]]:
        other = others.pods[int(place)]
        yield moved([other], "which makes room", FIT)


def move_claim_users(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """The pods that use a claim that only one pod may use."""
    del obstacles
    if not rows.any():
        return
    lister = bench.state.listers.of(PersistentVolumeClaim)
    found = (lister.get(used.name, pod.namespace) for used in claims_of(pod) if not used.ephemeral)
    single = [
        claim
        for claim in found
        if claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes
    ]
    users = [
        other
        for other, _ in bench.state.placed_pods()
        if single
        and other.spec.volumes
        and any(uses_claim(other, claim, ephemeral=False) for claim in single)
    ]
    if 0 < len(users) <= _MOST_USERS:
        names = " and ".join(claim.name for claim in single)
        verb = "use" if len(users) > 1 else "uses"
        yield moved(users, f"which {verb} the ReadWriteOncePod claim {names}", RESTRICTIONS)


def move_volume_users(
    bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools
) -> Iterator[Change]:
    """A pod whose volumes leave room for the pod's on a node, or whose disk it could have."""
    if not rows.any():
        return
    attempt = bench.attempt(pod)
    if attempt.outcome is None:
        return
    found = 0
    for row in np.flatnonzero(rows)[:_MOST_ROWS]:
        trial = TrialNode(attempt, int(row))
        here = (other for other in obstacles.nodes.pods_on(int(row)) if other.spec.volumes)
        for other in sorted(here, key=lambda other: (other.priority, other.key)):
            if bench.exhausted:
                return
            bench.runs += 1
            try:
                if trial.removing((other,)).rejection() is not None:
                    continue
            except PluginError:
                return
            yield moved([other], "which makes room for the pod's volumes", LIMITS)
            found += 1
            break
        if found >= _ENOUGH:
            return
