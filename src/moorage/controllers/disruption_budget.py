"""PodDisruptionBudgets: how many pods may go just now, kept up to date in their status.

Upstream: kubernetes@v1.37.1 pkg/controller/disruption.
"""

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    condition,
    controller_of,
    is_going,
    is_ready,
    labels,
    meta,
    replicas,
    scaled,
    seconds,
    selector_of,
    spec,
    status,
    with_condition,
)
from moorage.controllers.plan import Plan

_EVICTION_SECONDS = 120
"""So long an eviction that was allowed counts, even if the pod does not go."""


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Count the pods, and say how many of them may be evicted."""
    plan = Plan()
    namespace = meta(owner)["namespace"]
    selector = selector_of(owner)
    everybody = spec(owner).get("selector") == {}
    pods = [
        pod
        for pod in cluster.all("Pod", namespace)
        if everybody or (selector is not None and selector.matches(labels(pod)))
    ]
    evicted = _evicted(plan, owner, pods, now)
    healthy = sum(
        is_ready(pod) and not is_going(pod) and meta(pod)["name"] not in evicted for pod in pods
    )
    expected, desired = _expected(cluster, owner, pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    new = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "disruptedPods": evicted,
        "observedGeneration": meta(owner).get("generation", 0),
    }
    says = {
        "type": "DisruptionAllowed",
        "status": str(allowed > 0),
        "reason": "SufficientPods" if allowed > 0 else "InsufficientPods",
        "message": "",
        "observedGeneration": new["observedGeneration"],
    }
    conditions = status(owner).get("conditions") or []
    old = condition(owner, "DisruptionAllowed")
    if old is None or any(old.get(name) != value for name, value in says.items()):
        conditions = with_condition(conditions, says, now)
    new["conditions"] = conditions
    required = ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"]
    plan.set_status(owner, new, required=required)
    return plan


def _evicted(plan: Plan, owner: Json, pods: list[Json], now: float) -> dict[str, str]:
    """By name: the pods that were promised to go, and have neither gone nor stayed too long."""
    here = {meta(pod)["name"] for pod in pods if not is_going(pod)}
    left = {}
    for name, at in (status(owner).get("disruptedPods") or {}).items():
        rest = seconds(at) + _EVICTION_SECONDS - now
        if name in here and rest > 0:
            left[name] = at
            plan.look_again([rest])
    return left


def _expected(cluster: ClusterObjects, owner: Json, pods: list[Json]) -> tuple[int, int]:
    """How many pods there ought to be, and how many of them have to be healthy."""
    most, least = spec(owner).get("maxUnavailable"), spec(owner).get("minAvailable")
    if most is not None:
        expected = _scale(cluster, pods)
        return expected, max(0, expected - scaled(most, expected, up=True))
    if isinstance(least, str):
        expected = _scale(cluster, pods)
        return expected, scaled(least, expected, up=True)
    return len(pods), int(least or 0)


def _scale(cluster: ClusterObjects, pods: list[Json]) -> int:
    """How many replicas the workloads of these pods are to have; pods of nobody do not count."""
    sizes: dict[str, int] = {}
    for pod in pods:
        above, namespace = controller_of(pod), meta(pod)["namespace"]
        workload = None
        while above is not None:
            found = cluster.get(above["kind"], namespace, above["name"])
            if found is None or meta(found)["uid"] != above["uid"]:
                break
            workload, above = found, controller_of(found)
        if workload is not None:
            sizes[meta(workload)["uid"]] = replicas(workload)
    return sum(sizes.values())
