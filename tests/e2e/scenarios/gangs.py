"""Gangs: placed as a whole or not at all, within one domain if they must be."""

import time
from contextlib import closing
from functools import partial

from e2e.client import Api, Json, wait_for
from e2e.extender import extender
from e2e.objects import ZONE, pod_group, priority_class
from e2e.trial import Trial

_GATES = "GenericWorkload=true"
_PLACEMENTS = f"{_GATES},TopologyAwareWorkloadScheduling=true"
_ONE_PROFILE = [{"schedulerName": "default-scheduler"}]
_PERMIT_SECONDS = 300
_HEARSAY_SECONDS = 2.0
"""Long enough for a deletion to become known."""


def gang_fits(trial: Trial) -> Json:
    """A gang that finds room: it waits for its group and its last pod, then all are bound."""
    trial.add_node("n1", cpu="2")
    trial.add_node("n2", cpu="1")
    trial.start(gates=_GATES)
    trial.add_pod("first", **_member())
    trial.place("alone", cpu="100m")
    trial.add(pod_group("gang", 3))
    trial.add_pod("second", **_member())
    trial.place("other", cpu="100m")
    before = trial.observe("first", "second")
    trial.add_pod("third", **_member())
    names = ("first", "second", "third")
    for name in names:
        trial.bound(name)
    return {
        "before": before,
        "group": _told(trial, "True"),
        "nodes": sorted(trial.pods_per_node().items()),
        "after": trial.observe(*names, where=False),
    }


def gang_does_not_fit(trial: Trial) -> Json:
    """A gang too large for the cluster takes no place, until there is room for all of it."""
    trial.add_node("n1", cpu="2")
    trial.add(pod_group("gang", 3))
    trial.start(gates=_GATES)
    names = ("p0", "p1", "p2")
    for name in names:
        trial.add_pod(name, **_member())
    group = _told(trial, "False")
    for name in names:
        trial.refused(name)
    messages = sorted(_message(trial, name) for name in names)
    trial.place("other", cpu="1500m")
    alone = sorted(trial.pods_per_node().items())
    trial.add_node("n2", cpu="4")
    for name in names:
        trial.bound(name)
    return {
        "group": group,
        "messages": messages,
        "alone": alone,
        "later": _told(trial, "True"),
        "nodes": sorted(trial.pods_per_node().items()),
    }


def gang_in_one_zone(trial: Trial) -> Json:
    """A gang that must stay together goes to the only zone with room for it; a second fits none."""
    for name, zone, cpu in (("a1", "a", "1"), ("a2", "a", "1"), ("b1", "b", "2"), ("b2", "b", "2")):
        trial.add_node(name, cpu=cpu, zone=zone)
    trial.add(pod_group("gang", 3, topology=ZONE))
    trial.start(gates=_PLACEMENTS)
    for name in ("p0", "p1", "p2"):
        trial.add_pod(name, **_member())
    for name in ("p0", "p1", "p2"):
        trial.bound(name)
    nodes = {node for node in trial.pods_per_node() if node}
    trial.add(pod_group("second", 3, topology=ZONE))
    for name in ("q0", "q1", "q2"):
        trial.add_pod(name, **_member("second"))
    return {
        "zone": sorted({node[0] for node in nodes}),
        "group": _told(trial, "True"),
        "second": _told(trial, "False", "second")["status"],
    }


def gang_times_out(trial: Trial) -> Json:
    """A gang that loses a pod while it is placed waits for another, and then gives its places up.

    It is placed as a whole or not at all, so that its pods wait only if one that counted goes
    between the search for places and the look at who has one: while an extender is asked.
    """
    trial.add_node("n1", cpu="2")
    trial.add_node("n2", cpu="500m")
    trial.add(pod_group("gang", 3))
    trial.add_bound("first", "n2", schedulingGroup={"podGroupName": "gang"})
    with extender() as asked, closing(Api(trial.server.admin)) as api:

        def lose_first(body: Json) -> Json:
            if body["Pod"]["metadata"]["name"] == "third" and api.find(*first) is not None:
                api.delete(*first, grace=0)
                time.sleep(_HEARSAY_SECONDS)
            return {"NodeNames": body["NodeNames"]}

        first = ("Pod", "first", trial.namespace)
        asked.answers["filter"] = lose_first
        config = asked.config(filterVerb="filter", httpTimeout="30s")
        trial.start({"profiles": _ONE_PROFILE, "extenders": [config]}, gates=_GATES)
        for name in ("second", "third"):
            trial.add_pod(name, **_member())
        trial.wait("the pod to be lost", lambda: trial.api.find(*first) is None)
        trial.add_pod("rival", cpu="1500m")
        trial.refused("rival")
        attempts = trial.stays_refused("rival")
        during = trial.observe("second", "third", "rival")
        # Looked at once in a while, so as not to disturb what runs beside it.
        where = partial(_node, trial, "rival")
        wait_for("the rival to get the place", where, _PERMIT_SECONDS + 60, pause=2.0)
        for name in ("second", "third"):
            trial.refused(name)
        return {
            "attempts": attempts,
            "during": during,
            "after": trial.observe("second", "third", "rival"),
            "group": _told(trial, "True"),
        }


def gang_leaves_some(trial: Trial) -> Json:
    """Of more pods than a gang needs, those that fit are bound; the rest waits for room.

    What the group is told in between is left to chance: kube-scheduler tries the rest at once, and
    may not have seen its own condition yet.
    """
    trial.add_node("n1", cpu="2")
    trial.add(pod_group("gang", 2))
    for name, cpu in (("p0", "800m"), ("p1", "800m"), ("large", "5")):
        trial.add_pod(name, **{**_member(), "cpu": cpu})
    trial.start(gates=_GATES)
    trial.bound("p0")
    trial.bound("p1")
    trial.refused("large", attempts=2)
    before = trial.observe("p0", "p1", "large")
    trial.add_node("n2", cpu="8")
    trial.bound("large")
    return {"before": before, "later": _told(trial, "True")}


def gang_too_large_for_a_zone(trial: Trial) -> Json:
    """No placement has room for a gang: its pods and the group are told of the first."""
    for zone in ("a", "b"):
        trial.add_node(f"{zone}1", cpu="1", zone=zone)
    trial.add(pod_group("gang", 2, topology=ZONE))
    names = ("p0", "p1")
    for name in names:
        trial.add_pod(name, **_member())
    trial.start(gates=_PLACEMENTS)
    for name in names:
        trial.refused(name)
    # Which pod is tried first is left to chance.
    return {
        "group": _told(trial, "False"),
        "messages": sorted(_message(trial, name) for name in names),
    }


def gang_needs_fewer(trial: Trial) -> Json:
    """A gang that lacks a pod is bound as soon as it needs one pod less."""
    trial.add_node("n1", cpu="2")
    trial.start(gates=_GATES)
    trial.add(pod_group("gang", 3))
    for name in ("p0", "p1"):
        trial.add_pod(name, **_member())
    trial.place("other", cpu="100m")
    before = trial.observe("p0", "p1")
    fewer = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    trial.api.patch("PodGroup", "gang", fewer, trial.namespace)
    for name in ("p0", "p1"):
        trial.bound(name)
    return {"before": before, "group": _told(trial, "True"), **trial.observe("p0", "p1")}


def group_of_misfits(trial: Trial) -> Json:
    """Pods of another priority than their group's are not tried with it; all are told why."""
    trial.add_node("n1", cpu="4")
    trial.add(priority_class("high", 1000))
    trial.add(pod_group("gang", 2))
    trial.add_pod("p0", **_member(), priorityClassName="high")
    trial.add_pod("p1", **_member(), priorityClassName="high")
    trial.start(gates=_GATES)
    for name in ("p0", "p1"):
        trial.refused(name)
    return {"group": _told(trial, "False"), **trial.observe("p0", "p1")}


def pod_evicts_a_whole_group(trial: Trial) -> Json:
    """A pod that needs the place of one pod evicts all of its group, from another node too."""
    trial.add_node("n1", cpu="2")
    trial.add_node("n2", cpu="1")
    trial.add(priority_class("high", 1000))
    group = pod_group("gang", 2)
    group["spec"]["disruptionMode"] = {"all": {}}
    trial.add(group)
    member = {"schedulingGroup": {"podGroupName": "gang"}, "terminationGracePeriodSeconds": 0}
    trial.add_bound("here", "n1", cpu="2", **member)
    trial.add_bound("there", "n2", cpu="500m", **member)
    trial.start(gates=_GATES)
    trial.add_pod("big", cpu="2", priorityClassName="high")
    trial.bound("big")
    left = [name for name in ("here", "there") if trial.api.find("Pod", name, trial.namespace)]
    return {"left": left, **trial.observe("big", where=False)}


SCENARIOS = (
    gang_fits,
    gang_does_not_fit,
    gang_in_one_zone,
    gang_leaves_some,
    gang_too_large_for_a_zone,
    gang_needs_fewer,
    group_of_misfits,
    pod_evicts_a_whole_group,
)
SLOW_SCENARIOS = (gang_times_out,)
"""Those that take minutes, in which nothing happens."""


def _member(group: str = "gang") -> Json:
    return {"cpu": "800m", "schedulingGroup": {"podGroupName": group}}


def _told(trial: Trial, status: str, name: str = "gang") -> Json:
    """Wait until the group's condition has a status; what it says."""

    def condition() -> Json | None:
        group = trial.api.get("PodGroup", name, trial.namespace)
        for one in group.get("status", {}).get("conditions", ()):
            if one["type"] == "PodGroupInitiallyScheduled" and one["status"] == status:
                return {key: one.get(key) for key in ("status", "reason", "message")}
        return None

    return trial.wait(f"group {name} to be {status}", condition)


def _node(trial: Trial, name: str) -> str | None:
    found: str | None = trial.pod(name)["spec"].get("nodeName")
    return found


def _message(trial: Trial, name: str) -> str:
    conditions = trial.pod(name)["status"]["conditions"]
    return next(str(one["message"]) for one in conditions if one["type"] == "PodScheduled")
