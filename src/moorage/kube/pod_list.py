"""All pods of a live cluster in lines, page by page.

Owns which pods are listed and in which order. A line is made for the pods of a page only; what the
queue waits for is left to the explanation of a single pod, as it takes longer to find out.
"""

from heapq import nsmallest

from moorage.engine.scheduler import Scheduler
from moorage.explain.listing import PodLine, PodPage
from moorage.explain.queue_state import ABSENT, queue_state
from moorage.explain.report import QueueState
from moorage.kube.timing import parse_time
from moorage.model.pod import Pod

PLACED = "placed"


def pod_page(
    scheduler: Scheduler, *, pending: bool, leading: bool, limit: int, after: str = ""
) -> tuple[PodPage, str]:
    """The pods whose `namespace/name` comes after one; with the last name if there are more.

    `pending`: only pods that this scheduler has to find a node for. A scheduler that is not
    `leading` knows nothing of the queue.
    """
    every = scheduler.state.listers.of(Pod)
    if pending:
        profiles = scheduler.profiles
        found = [
            pod for pod in every if not pod.spec.node_name and pod.spec.scheduler_name in profiles
        ]
    else:
        found = list(every)
    pods = {pod.key: pod for pod in found}
    # One more than asked for tells whether there is another page.
    keys = nsmallest(limit + 1, (key for key in pods if key > after))
    shown = keys[:limit]
    items = tuple(_line(scheduler, pods[key], leading) for key in shown)
    return PodPage(items, len(pods)), shown[-1] if len(keys) > limit else ""


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
    info = queue.get(pod.key)
    if info is None or info.pod.uid != pod.uid:
        return queue_state(scheduler, pod)
    return QueueState(
        queue.place_of(info),
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
