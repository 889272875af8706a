"""Gangs: placed as a whole or not at all, within one domain if they must be."""

from e2e import objects
from e2e.client import Json
from e2e.trial import Trial

_GATES = "GenericWorkload=true,GangScheduling=true"
_PLACEMENTS = f"{_GATES},TopologyAwareWorkloadScheduling=true"


def gang_fits(trial: Trial) -> Json:
    """A gang that finds room: it waits for its group and its last pod, then all are bound."""
    trial.add_node("n1", cpu="2")
    trial.add_node("n2", cpu="1")
    trial.start(gates=_GATES)
    trial.add_pod("first", **_member())
    trial.place("alone", cpu="100m")
    trial.add(_group(3))
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
    trial.add(_group(3))
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
    trial.add(_group(3, topology=objects.ZONE))
    trial.start(gates=_PLACEMENTS)
    for name in ("p0", "p1", "p2"):
        trial.add_pod(name, **_member())
    for name in ("p0", "p1", "p2"):
        trial.bound(name)
    nodes = {node for node in trial.pods_per_node() if node}
    trial.add(_group(3, "second", topology=objects.ZONE))
    for name in ("q0", "q1", "q2"):
        trial.add_pod(name, **_member("second"))
    return {
        "zone": sorted({node[0] for node in nodes}),
        "group": _told(trial, "True"),
        "second": _told(trial, "False", "second")["status"],
    }


SCENARIOS = (gang_fits, gang_does_not_fit, gang_in_one_zone)


def _group(count: int, name: str = "gang", topology: str | None = None) -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}}}
    if topology is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def _member(group: str = "gang") -> Json:
    return {"cpu": "800m", "schedulingGroup": {"podGroupName": group}}


def _told(trial: Trial, status: str, name: str = "gang") -> Json:
    """Wait until the group's condition has a status; what it says."""

    def condition() -> Json | None:
        group = trial.api.get("PodGroup", name, trial.namespace)
        for one in group.get("status", {}).get("conditions", ()):
            if one["type"] == "PodGroupScheduled" and one["status"] == status:
                return {key: one.get(key) for key in ("status", "reason", "message")}
        return None

    return trial.wait(f"group {name} to be {status}", condition)


def _message(trial: Trial, name: str) -> str:
    conditions = trial.pod(name)["status"]["conditions"]
    return next(str(one["message"]) for one in conditions if one["type"] == "PodScheduled")
