"""Everything about one node: what it offers, who has it, and which waiting pods it would take.

Owns the joining into one value. Waiting pods are asked about at this one node only, so that many of
them can be; plugins are asked without consequences (`explain.trials`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from moorage.cluster.view import NodeView
from moorage.engine.cycle import Cycle
from moorage.errors import InputError
from moorage.explain.fixes.requests import quantity_text
from moorage.explain.report import NodeExplanation, NodePod, NodeRefusal
from moorage.explain.scores import REJECTED, matrix_rows
from moorage.explain.survey import survey
from moorage.explain.trials import trial_profile
from moorage.framework.profile import Profile
from moorage.model.pod import Pod
from moorage.model.resources import PODS

MOST_WAITING = 200
"""So many waiting pods are asked about; each takes some tenths of a millisecond, and what the
extenders take that are interested in it."""


def explain_node(
    cycle: Cycle,
    profiles: Mapping[str, Profile],
    name: str,
    *,
    source: str,
    waiting: Sequence[Pod] = (),
    limit: int = MOST_WAITING,
    profile: Profile | None = None,
) -> NodeExplanation:
    """Explain a node; of the pods that wait the `limit` most important ones are asked about.

    With a `profile` all of them are, as if it were theirs; without, those of the `profiles`.
    """
    state = cycle.state
    row = state.nodes.row_of.get(name)
    if row is None:
        raise InputError(f"node {name} is not one of the {len(state)} nodes known")
    node, pods = state.nodes.nodes[row], sorted(state.pods.on(row), key=lambda pod: pod.key)
    names = {pod.spec.scheduler_name for pod in waiting}
    used = profiles if profile is None else dict.fromkeys(names, profile)
    ours = [pod for pod in waiting if pod.spec.scheduler_name in used and not pod.terminating]
    ours.sort(key=lambda pod: (-pod.priority, pod.key))
    accepts, refusals = _judged(cycle, used, row, ours[: max(limit, 0)])
    return NodeExplanation(
        node=name,
        source=source,
        unschedulable=node.spec.unschedulable,
        labels=dict(node.labels),
        taints=tuple(taint.text for taint in node.spec.taints),
        allocatable={key: str(amount) for key, amount in node.status.allocatable.items()},
        requested=_requested(cycle, row),
        pods=len(pods),
        pod_list=tuple(NodePod(pod.key, pod.priority, _requests(pod)) for pod in pods),
        accepts=accepts,
        refusals=refusals,
        waiting=len(ours),
    )


def _judged(
    cycle: Cycle, profiles: Mapping[str, Profile], row: int, waiting: Sequence[Pod]
) -> tuple[tuple[str, ...], tuple[NodeRefusal, ...]]:
    """The pods that the node would take, and the others with all that is said against it."""
    wanted = {pod.spec.scheduler_name for pod in waiting}
    asked = {name: trial_profile(profiles[name]) for name in wanted}
    whole = NodeView(cycle.state)
    here = whole.take(np.array([row], np.intp))
    accepts: list[str] = []
    refusals: list[NodeRefusal] = []
    for pod in waiting:
        found = survey(
            asked[pod.spec.scheduler_name],
            pod,
            here,
            nominated=cycle.nominated.ahead_of(pod, whole),
            extenders=cycle.extenders,
        )
        (verdicts,) = matrix_rows(found, None, (0,))
        if verdicts.feasible:
            accepts.append(pod.key)
            continue
        against = tuple(one for one in verdicts.verdicts if one.verdict == REJECTED)
        refusals.append(NodeRefusal(pod.key, against))
    return tuple(accepts), tuple(refusals)


def _requested(cycle: Cycle, row: int) -> dict[str, str]:
    nodes = cycle.state.nodes
    amounts = {name: int(column[row]) for name, column in nodes.requested.items()}
    amounts_by_name = {
        name: quantity_text(name, amount) for name, amount in sorted(amounts.items()) if amount
    }
    return {**amounts_by_name, PODS: str(int(nodes.pod_count.values[row]))}


def _requests(pod: Pod) -> dict[str, str]:
    return {name: quantity_text(name, amount) for name, amount in pod.requests.occupied.items()}
