"""All nodes and all pods of a live cluster, one line each, page by page.

Owns what is listed and in which order. Both must stay cheap at thousands of objects: arithmetic is
done on whole columns, and a line is made for the objects of one page only. What a pod waits for in
the queue is left to the explanation of that pod, as it takes longer to find out.
"""

from collections.abc import Mapping
from heapq import nsmallest
from itertools import islice

import numpy as np

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.state import ClusterState
from moorage.engine.scheduler import Scheduler
from moorage.explain.fixes.requests import quantity_text
from moorage.explain.listing import NodeLine, NodePage, PodLine, PodPage, ResourceTotal
from moorage.explain.queue_state import ABSENT, queue_state
from moorage.explain.report import QueueState
from moorage.kube.timing import parse_time
from moorage.model.node import BETA_ZONE_LABEL, ZONE_LABEL
from moorage.model.pod import Pod
from moorage.model.resources import CPU, MEMORY, PODS

_FIRST = (CPU, MEMORY)
_DIGITS = 4
PLACED = "placed"


def node_page(state: ClusterState, limit: int, after: str = "") -> tuple[NodePage, str]:
    """The nodes whose names come after one; with the last name if there are more."""
    table = state.nodes
    names = sorted(name for name in table.row_of if name > after)
    shown = list(islice(names, limit))
    rows = np.fromiter((table.row_of[name] for name in shown), np.intp, len(shown))
    taints = [[taint.text for taint in value] for value in table.taints.vocabulary.values]
    offered = _offered(state)
    utilisation = _utilisation(state, offered, rows)
    most = table.allocatable.values(PODS)[rows].tolist()
    nodes = table.nodes
    items = [
        NodeLine(name, _zone(nodes[row].labels), taints[code], cordoned, pods, limit_, used)
        for name, row, code, cordoned, pods, limit_, used in zip(
            shown,
            rows.tolist(),
            table.taints.codes[rows].tolist(),
            table.unschedulable.values[rows].tolist(),
            table.pod_count.values[rows].tolist(),
            most,
            utilisation,
            strict=True,
        )
    ]
    page = NodePage(tuple(offered), items, len(state), totals=_totals(state, offered))
    return page, shown[-1] if len(names) > len(shown) else ""


def _offered(state: ClusterState) -> Mapping[str, Ints]:
    """The resources there are, with how much of each every node has."""
    found = {
        name: amounts
        for name, amounts in state.nodes.allocatable.items()
        if name != PODS and bool(amounts.any())
    }
    return dict(sorted(found.items(), key=lambda item: (item[0] not in _FIRST, item[0])))


def _utilisation(
    state: ClusterState, offered: Mapping[str, Ints], rows: Rows
) -> list[dict[str, float]]:
    """Per row how much of each resource is taken."""
    used: list[dict[str, float]] = [{} for _ in range(len(rows))]
    for name, every in offered.items():
        amounts = every[rows]
        places = np.flatnonzero(amounts > 0)
        taken = state.nodes.requested.values(name)[rows][places]
        shares = np.round(taken / amounts[places], _DIGITS)
        for place, share in zip(places.tolist(), shares.tolist(), strict=True):
            used[place][name] = share
    return used


def _totals(state: ClusterState, offered: Mapping[str, Ints]) -> dict[str, ResourceTotal]:
    rows = np.fromiter(state.nodes.row_of.values(), np.intp, len(state))

    def total(name: str, amounts: Ints) -> str:
        # As Python's integers: the sum may be wider than a column.
        return quantity_text(name, sum(amounts[rows].tolist()))

    return {
        name: ResourceTotal(total(name, state.nodes.requested.values(name)), total(name, amounts))
        for name, amounts in offered.items()
    }


def _zone(labels: dict[str, str]) -> str:
    return labels.get(ZONE_LABEL) or labels.get(BETA_ZONE_LABEL, "")


def pod_page(
    scheduler: Scheduler,
    *,
    pending: bool,
    leading: bool,
    limit: int,
    after: str = "",
    namespace: str = "",
) -> tuple[PodPage, str]:
    """The pods whose `namespace/name` comes after one; with the last name if there are more.

    `pending`: only pods that this scheduler has to find a node for. A scheduler that is not
    `leading` knows nothing of the queue. With a `namespace` only the pods in it.
    """
    every = scheduler.state.listers.of(Pod)
    if pending:
        profiles = scheduler.profiles
        found = [
            pod for pod in every if not pod.spec.node_name and pod.spec.scheduler_name in profiles
        ]
    else:
        found = list(every)
    namespaces = sorted({pod.namespace for pod in found})
    pods = {pod.key: pod for pod in found if namespace in ("", pod.namespace)}
    # One more than asked for shows whether there is another page.
    keys = nsmallest(limit + 1, (key for key in pods if key > after))
    shown = keys[:limit]
    items = tuple(_line(scheduler, pods[key], leading) for key in shown)
    page = PodPage(items, len(pods), namespaces=tuple(namespaces))
    return page, shown[-1] if len(keys) > limit else ""


def _line(scheduler: Scheduler, pod: Pod, leading: bool) -> PodLine:
    created = _created(pod)
    if pod.spec.node_name:
        return PodLine(
            pod.key,
            pod.uid,
            PLACED,
            pod.priority,
            added=created,
            node=pod.spec.node_name,
            created=created,
        )
    queue = _in_queue(scheduler, pod) if leading else QueueState(ABSENT)
    refusers = {*queue.unschedulable_plugins, *queue.pending_plugins}
    if queue.gated_by:
        refusers.add(queue.gated_by)
    return PodLine(
        pod.key,
        pod.uid,
        queue.state,
        pod.priority,
        queue.attempts,
        queue.added if queue.added is not None else created,
        queue.next_retry,
        _refusal(pod) or queue.message,
        tuple(sorted(refusers)),
        scheduler.state.node_of(pod) or "",
        created,
    )


def _in_queue(scheduler: Scheduler, pod: Pod) -> QueueState:
    queue = scheduler.queue
    info = queue.view.find(pod)
    if info is None or info.pod.uid != pod.uid:
        return queue_state(scheduler, pod)
    return QueueState(
        queue.view.place_of(info),
        attempts=info.attempts,
        added=info.timestamp,
        next_retry=queue.next_try(info),
        unschedulable_plugins=tuple(info.unschedulable_plugins),
        pending_plugins=tuple(info.pending_plugins),
        gated_by=info.gating_plugin,
    )


def _refusal(pod: Pod) -> str:
    """The scheduler's own sentence, as it is written in the pod's status."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""


def _created(pod: Pod) -> float | None:
    text = pod.metadata.creation_timestamp
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
