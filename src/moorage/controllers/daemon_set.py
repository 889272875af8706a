"""DaemonSets: one pod on every node that it may run on; the scheduler binds it there.

Upstream: kubernetes@v1.37.1 pkg/controller/daemon.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from moorage.controllers import revisions
from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    age,
    annotations,
    finds_its_own,
    is_finished,
    is_going,
    is_ready,
    labels,
    meta,
    pod_from,
    scaled,
    seconds_to_available,
    spec,
)
from moorage.controllers.plan import Note, Plan
from moorage.model.node_selector import (
    NAME_FIELD,
    REQUIRED,
    NodeSelector,
    compile_node_selector,
)
from moorage.model.taints import Taint, Toleration, tolerated

_GENERATION = "deprecated.daemonset.template.generation"
_GENERATION_LABEL = "pod-template-generation"
_TOLERATED = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]
_NO_NETWORK = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}


class _Suits(NamedTuple):
    """Is a pod of the DaemonSet to be started on a node, and may one that is there stay?"""

    start: bool
    stay: bool


class _Daemons:
    """One look at a DaemonSet: its pods by node, and what each node is due."""

    def __init__(self, cluster: ClusterObjects, owner: Json, now: float) -> None:
        self.plan = Plan()
        self.owner = owner
        self.revision = revisions.latest_revision(self.plan, cluster, owner)
        self.hash = revisions.unique_part(self.revision)
        self.on: dict[str, list[Json]] = {}
        for pod in sorted(self.plan.claim(cluster, owner, "Pod"), key=age):
            self.on.setdefault(_node_of(pod), []).append(pod)
        template = spec(owner).get("template") or {}
        self.suits = {
            meta(node)["name"]: suits(node, template.get("spec") or {})
            for node in sorted(cluster.all("Node"), key=age)
        }
        min_ready = spec(owner).get("minReadySeconds") or 0
        waits = {
            meta(pod)["uid"]: seconds_to_available(pod, min_ready, now)
            for pods in self.on.values()
            for pod in pods
        }
        self.plan.look_again(waits.values())
        self._waits = waits

    @property
    def due(self) -> list[str]:
        """The nodes that are to have a pod."""
        return [node for node, suits in self.suits.items() if suits.start]

    def is_available(self, pod: Json) -> bool:
        """Has the pod been ready for long enough?"""
        return self._waits[meta(pod)["uid"]] == 0 and not is_going(pod)

    def is_latest(self, pod: Json) -> bool:
        """Is the pod made from the latest template?"""
        return labels(pod).get(revisions.HASH) == self.hash

    def living(self, node: str) -> list[Json]:
        """The pods of a node that have neither ended nor begun to go, the oldest first."""
        return [p for p in self.on.get(node, ()) if not is_going(p) and not is_finished(p)]

    def delete(self, pods: Iterable[Json]) -> None:
        """Take pods away."""
        for pod in pods:
            note = Note(self.owner, "SuccessfulDelete", "Deleted pod: {name}")
            self.plan.delete(pod, note)

    def create(self, node: str) -> None:
        """Make a pod for a node."""
        template = spec(self.owner).get("template") or {}
        generation = annotations(self.owner).get(_GENERATION)
        numbered = {_GENERATION_LABEL: generation} if generation else {}
        pod = pod_from(template, self.owner, **{revisions.HASH: self.hash, **numbered})
        pod["spec"] |= {
            "affinity": _only_on(node, pod["spec"].get("affinity") or {}),
            "tolerations": _tolerations(pod["spec"]),
        }
        self.plan.create(pod, Note(self.owner, "SuccessfulCreate", "Created pod: {name}"))


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Give every node what it is due, replace what is out of date, and say how far it is."""
    if is_going(owner) or not finds_its_own(owner):
        return Plan()
    look = _Daemons(cluster, owner, now)
    _report(look)
    surge, unavailable = _limits(look)
    for node, suits in look.suits.items():
        _tend(look, node, suits, surge=surge > 0)
    for node in look.on.keys() - look.suits.keys() - {""}:
        look.delete(look.living(node))
    if (spec(owner).get("updateStrategy") or {}).get("type") != "OnDelete":
        if surge:
            _replace_after(look, surge)
        else:
            _replace_before(look, unavailable)
    live = {labels(pod).get(revisions.HASH, "") for pods in look.on.values() for pod in pods}
    revisions.clean_up(look.plan, cluster, owner, {look.hash, *live})
    return look.plan


def suits(node: Json, pod: Json) -> _Suits:
    """What labels and taints of a node say about pods of this spec."""
    if pod.get("nodeName") and pod["nodeName"] != meta(node)["name"]:
        return _Suits(start=False, stay=False)
    wanted = pod.get("nodeSelector") or {}
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if not wanted.items() <= labels(node).items():
        return _Suits(start=False, stay=False)
    if required is not None:
        selector = compile_node_selector(msgspec.convert(required, NodeSelector))
        if not selector.matches(labels(node), meta(node)["name"]):
            return _Suits(start=False, stay=False)
    accepts = msgspec.convert(_tolerations(pod), tuple[Toleration, ...])
    taints = msgspec.convert(spec(node).get("taints") or (), tuple[Taint, ...])
    refused = {one.effect for one in taints if not tolerated(one, accepts, comparisons=False)}
    stay = "NoExecute" not in refused
    return _Suits(start=stay and "NoSchedule" not in refused, stay=stay)


def _tend(look: _Daemons, node: str, suits: _Suits, *, surge: bool) -> None:
    """One pod, neither none nor two, unless a new one is just taking over from an old one."""
    pods, living = look.on.get(node, []), look.living(node)
    if not suits.stay:
        look.delete(living)
        return
    for pod in pods:
        if is_finished(pod):
            look.delete([pod])
    if suits.start and (not pods or (surge and not living)):
        look.create(node)
    if not surge:
        look.delete(living[1:])
        return
    new = [pod for pod in living if look.is_latest(pod)]
    old = [pod for pod in living if not look.is_latest(pod)]
    look.delete([*new[1:], *old[1:]])
    if new and old and (not is_ready(old[0]) or look.is_available(new[0])):
        look.delete(old[:1])


def _limits(look: _Daemons) -> tuple[int, int]:
    """How many pods there may be too many or too few during an update."""
    rolling = (spec(look.owner).get("updateStrategy") or {}).get("rollingUpdate") or {}
    due = len(look.due)
    surge = scaled(rolling.get("maxSurge"), due, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 1), due, up=True)
    return surge, unavailable if surge or unavailable else 1


def _replace_before(look: _Daemons, most: int) -> None:
    """Old pods go, as many as may be missing; their nodes get new ones afterwards."""
    missing, old = 0, []
    for node in look.due:
        living = look.living(node)
        if not living or not look.is_available(living[0]):
            missing += 1
            look.delete(pod for pod in living[:1] if not look.is_latest(pod))
        elif not look.is_latest(living[0]):
            old.append(living[0])
    look.delete(old[: max(0, most - missing)])


def _replace_after(look: _Daemons, most: int) -> None:
    """New pods come beside old ones, as many as there may be; the old ones go when they serve."""
    beside, waiting = 0, []
    for node in look.due:
        living = look.living(node)
        new = [pod for pod in living if look.is_latest(pod)]
        if new and len(living) > 1:
            beside += not look.is_available(new[0])
        elif living and not new and not look.is_available(living[0]):
            look.create(node)  # it serves nobody, so it does not count
        elif living and not new:
            waiting.append(node)
    for node in waiting[: max(0, most - beside)]:
        look.create(node)


def _node_of(pod: Json) -> str:
    """Where a pod is, or is to be: before it is bound, its affinity names the node."""
    bound = spec(pod).get("nodeName")
    if bound:
        return str(bound)
    affinity = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == NAME_FIELD and field.get("values"):
                return str(field["values"][0])
    return ""


def _only_on(node: str, affinity: Json) -> Json:
    field = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    only = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), REQUIRED: only}}


def _tolerations(pod: Json) -> list[Json]:
    more = [*_TOLERATED, _NO_NETWORK] if pod.get("hostNetwork") else _TOLERATED
    given = pod.get("tolerations") or []
    return [*given, *(one for one in more if one not in given)]


def _report(look: _Daemons) -> None:
    present = {node: pods for node in look.suits if (pods := look.on.get(node))}
    first = [present[node][0] for node in look.due if node in present]
    available = sum(map(look.is_available, first))
    counts = {
        "desiredNumberScheduled": len(look.due),
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(not look.suits[node].start for node in present),
        "numberReady": sum(map(is_ready, first)),
        "updatedNumberScheduled": sum(map(look.is_latest, first)),
        "numberAvailable": available,
        "numberUnavailable": len(look.due) - available,
        "observedGeneration": meta(look.owner).get("generation", 0),
    }
    required = ["desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled"]
    look.plan.set_status(look.owner, counts, required=[*required, "numberReady"])
