"""What a pod on a node takes of it, worked out container by container and resource by resource."""

from moorage.model.pod import Container, Pod
from moorage.model.resources import ResourceList

WHOLE = ("cpu", "memory")
"""Resources that may be asked for a whole pod, as far as the tests go."""

Amounts = dict[str, int]


def occupied(pod: Pod) -> Amounts:
    """The most that the pod may be using: what it is to have, was given, or still has."""
    spec = _sum(pod, "spec")
    infeasible = _infeasible(pod)
    status = pod.status
    running = status.resources.requests if status.resources is not None else {}
    if status.allocated_resources and running:
        others = [_amounts(status.allocated_resources), _amounts(running)]
    else:
        others = [_sum(pod, "allocated"), _sum(pod, "actuated")]
    total = _most(others if infeasible else [spec, *others])
    asked = pod.spec.resources.requests if pod.spec.resources is not None else {}
    if any(name in WHOLE for name in asked):
        whole = _amounts(asked)
        if status.resources is not None:
            parts = [_amounts(running), _amounts(status.allocated_resources)]
            whole = _most(parts if infeasible else [whole, *parts])
        total = {**total, **whole}
    for name, amount in _amounts(pod.spec.overhead).items():
        total[name] = total.get(name, 0) + amount
    return total


def _sum(pod: Pod, side: str) -> Amounts:
    """The containers run beside the sidecars; each init container beside those before it."""
    names = {
        name
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for name in _of(pod, container, side)
    }
    total = {}
    for name in names:
        sidecars = largest = 0
        for container in pod.spec.init_containers:
            amount = _of(pod, container, side).get(name, 0)
            if container.restart_policy == "Always":
                sidecars += amount
                largest = max(largest, sidecars)
            else:
                largest = max(largest, sidecars + amount)
        together = sum(_of(pod, one, side).get(name, 0) for one in pod.spec.containers)
        total[name] = max(together + sidecars, largest)
    return total


def _of(pod: Pod, container: Container, side: str) -> Amounts:
    spec = _amounts(container.resources.requests)
    if side == "spec":
        return spec
    reported = [*pod.status.container_statuses, *pod.status.init_container_statuses]
    status = next((one for one in reported if one.name == container.name), None)
    if status is not None:
        if side == "actuated" and status.resources is not None and status.resources.requests:
            return _amounts(status.resources.requests)
        if status.allocated_resources:
            return _amounts(status.allocated_resources)
    return {} if _infeasible(pod) else spec


def _infeasible(pod: Pod) -> bool:
    pending = [one.reason for one in pod.status.conditions if one.type == "PodResizePending"]
    return pending[:1] == ["Infeasible"]


def _most(parts: list[Amounts]) -> Amounts:
    names = {name for part in parts for name in part}
    return {name: max(part.get(name, 0) for part in parts) for name in names}


def _amounts(resources: ResourceList) -> Amounts:
    return {name: int(amount) for name, amount in resources.items()}
