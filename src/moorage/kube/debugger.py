"""SIGUSR2: what the scheduler believes, written to the log, and where that differs from the API."""

import logging

from moorage.engine.scheduler import Scheduler
from moorage.kube.informers import Informers
from moorage.log_fields import fields
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


def dump(scheduler: Scheduler, informers: Informers) -> None:
    """Compare the cluster state with the informers' stores, then log it."""
    compare(scheduler, informers)
    log.info("Dump of cached NodeInfo", extra=fields(nodes="\n\n".join(_nodes(scheduler))))
    pending = scheduler.queue.view.pending_pods()
    pods = "\n".join(map(_pod, pending.pods))
    log.info("Dump of scheduling queue", extra=fields(summary=pending.summary, pods=pods))


def compare(scheduler: Scheduler, informers: Informers) -> None:
    """Log nodes and pods that only one side knows."""
    cached = set(scheduler.state.nodes.row_of)
    _mismatch("Nodes", set(informers.stores["Node"].objects), cached)
    listed = {obj.metadata.uid for obj in informers.stores["Pod"].objects.values()}
    known = {pod.uid for pod, _ in scheduler.state.placed_pods()}
    pending = scheduler.queue.view.pending_pods()
    known |= {pod.uid for pod in (*pending.pods, *pending.in_flight)}
    _mismatch("Pods", listed, known)


def _mismatch(what: str, actual: set[str], known: set[str]) -> None:
    if actual != known:
        log.info(
            "Cache mismatch missed%s=%s redundant%s=%s",
            what,
            sorted(actual - known),
            what,
            sorted(known - actual),
        )


def _nodes(scheduler: Scheduler) -> list[str]:
    state = scheduler.state
    texts = []
    for row, node in enumerate(state.nodes.nodes):
        pods = list(state.pods.on(row))
        waiting = scheduler.cycle.nominated.on_node(node.name)
        requested = {name: int(amounts[row]) for name, amounts in state.nodes.requested.items()}
        texts.append(
            "\n".join(
                (
                    f"Node name: {node.name}",
                    "Deleted: false",
                    f"Requested Resources: {requested}",
                    f"Allocatable Resources: {node.allocatable}",
                    f"Scheduled Pods(number: {len(pods)}):",
                    *map(_pod, pods),
                    f"Nominated Pods(number: {len(waiting)}):",
                    *map(_pod, waiting),
                )
            )
        )
    return texts


def _pod(pod: Pod) -> str:
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, "
        f"phase: {pod.status.phase}, nominated node: {pod.status.nominated_node_name}"
    )
