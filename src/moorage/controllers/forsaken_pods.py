"""Pods that nobody takes care of any more: their node has gone, or the Job that was to count them.

Upstream: kubernetes@v1.37.1 pkg/controller/podgc, and the orphaned pods of pkg/controller/job.
"""

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.job import is_tracked, untrack
from moorage.controllers.objects import Json, is_finished, spec, status, with_condition
from moorage.controllers.plan import Note, Plan


def reconcile(cluster: ClusterObjects, pod: Json, now: float) -> Plan:
    """Let a pod go that has no Job any more, and end one that has no node."""
    if is_tracked(pod):
        plan = untrack(cluster, pod)
        if plan.writes:
            return plan
    plan = Plan()
    node = spec(pod).get("nodeName", "")
    if not cluster.has_lost_node(node):
        return plan
    if not is_finished(pod):
        says = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        conditions = with_condition(status(pod).get("conditions") or [], says, now)
        plan.set_status(pod, {**status(pod), "phase": "Failed", "conditions": conditions})
    plan.delete(pod, Note(pod, "NodeGone", f"node {node} no longer exists"), grace_seconds=0)
    return plan
