"""Features behind gates: those that are off by default switched on, and some others off."""

import json

from e2e.client import Json
from e2e.objects import pod, pod_group, priority_class
from e2e.storage import (
    add_volume,
    bind_claim,
    claim,
    claims,
    local_volume,
    storage_class,
    volume_chosen_for,
)
from e2e.trial import Trial

_DRIVER = "device.example.com"
_DEVICES = "resource.k8s.io/v1"
_GROUPS = "GenericWorkload=true"


def taint_rule(trial: Trial) -> Json:
    """A rule taints a device; the pod waits until the rule goes, and others tolerate it."""
    trial.add_node("n1")
    trial.add(_class())
    trial.add(_slice("n1", {"name": "d0"}, {"name": "d1"}))
    trial.add(_taint_rule("broken"))
    trial.start()
    trial.add(_claim("plain"))
    trial.add_pod("waits", **_uses("plain"))
    trial.refused("waits")
    before = trial.observe("waits")
    trial.add(_claim("tolerant", tolerations=[{"key": "broken", "operator": "Exists"}]))
    trial.place("tolerates", **_uses("tolerant"))
    trial.add(_taint_rule("other", driver="other.example.com"))
    attempts = trial.stays_refused("waits")
    trial.api.delete("DeviceTaintRule", "broken")
    trial.bound("waits")
    return {
        "before": before,
        "attempts": attempts,
        **trial.observe("waits", "tolerates"),
        "plain": _given(trial, "plain"),
        "tolerant": _given(trial, "tolerant"),
    }


def library_of_expressions(trial: Trial) -> Json:
    """Selectors with the functions for times, addresses, URLs, formats and lists."""
    trial.add_node("n1")
    attributes = {
        "model": {"string": "a100"},
        "made": {"string": "2024-02-29T12:00:00Z"},
        "address": {"string": "10.1.2.3"},
        "home": {"string": "https://example.com:8443/gpu?x=1"},
    }
    mine = f"device.attributes['{_DRIVER}']"
    trial.add(_slice("n1", {"name": "d0", "attributes": attributes}))
    trial.add(
        _class(
            f"timestamp({mine}.made).getFullYear() == 2024",
            f"timestamp({mine}.made) + duration('24h') > timestamp('2024-03-01T00:00:00Z')",
            f"cidr('10.0.0.0/8').containsIP(ip({mine}.address))",
            f"url({mine}.home).getPort() == '8443'",
            f"'%s-%d'.format([dyn({mine}.model), 8]) == 'a100-8'",
            f"!format.dns1123Label().validate({mine}.model).hasValue()",
            "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
            "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        )
    )
    trial.start()
    trial.add(_claim("first"))
    trial.place("user", **_uses("first"))
    trial.add(_claim("second", f"ip({mine}.model).family() == 4"))
    trial.add_pod("waits", **_uses("second"))
    trial.refused("waits")
    return {**trial.observe("user", "waits"), "first": _given(trial, "first")}


def group_preempts(trial: Trial) -> Json:
    """A gang evicts less important pods from several nodes at once, and then takes their places."""
    for name in ("n1", "n2"):
        trial.add_node(name, cpu="2")
    trial.add(priority_class("high", 1000))
    for name, node in (("a", "n1"), ("b", "n2")):
        trial.add_bound(name, node, cpu="2", terminationGracePeriodSeconds=0)
    group = pod_group("gang", 2)
    group["spec"]["priorityClassName"] = "high"
    trial.start(gates=_GROUPS)
    trial.add(group)
    names = ("p0", "p1")
    for name in names:
        trial.add_pod(
            name,
            cpu="2",
            schedulingGroup={"podGroupName": "gang"},
            priorityClassName="high",
        )
    for name in names:
        trial.bound(name, wait=60.0)
    return {
        "victims": {name: _preempted(trial, name) for name in ("a", "b")},
        "nodes": sorted(trial.pods_per_node().items()),
        "after": _in_any_order(trial, *names, where=False),
    }


def group_may_not_preempt(trial: Trial) -> Json:
    """A gang that fits only partly even without all lesser pods evicts nobody."""
    trial.add_node("n1", cpu="2")
    trial.add(priority_class("high", 1000))
    trial.add_bound("a", "n1", cpu="2")
    group = pod_group("gang", 2)
    group["spec"]["priorityClassName"] = "high"
    trial.start(gates=_GROUPS)
    trial.add(group)
    for name in ("p0", "p1"):
        trial.add_pod(
            name,
            cpu="2",
            schedulingGroup={"podGroupName": "gang"},
            priorityClassName="high",
        )
    for name in ("p0", "p1"):
        trial.refused(name)
    return {
        "group": _condition(trial, "gang"),
        "pods": _in_any_order(trial, "p0", "p1"),
        "nodes": sorted(trial.pods_per_node().items()),
    }


def list_attributes(trial: Trial) -> Json:
    """Attributes with several values: selectors look into them, constraints compare all."""
    trial.add_node("n1")
    roots = ({"strings": ["r0", "r1"]}, {"strings": ["r1"]})
    devices = [{"name": f"d{i}", "attributes": {"roots": root}} for i, root in enumerate(roots)]
    trial.add(_slice("n1", *devices))
    trial.add(_class(f"device.attributes['{_DRIVER}'].roots.includes('r1')"))
    trial.start(gates="DRAListTypeAttributes=true")
    trial.add(_claim("first", f"device.attributes['{_DRIVER}'].roots.exists(r, r == 'r0')"))
    trial.place("user", **_uses("first"))
    first = _given(trial, "first")
    _free(trial, "user", "first")
    alike = _claim("alike", count=2)
    alike["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{_DRIVER}/roots"}]
    trial.add(alike)
    trial.place("both", **_uses("alike"))
    both = _given(trial, "alike")
    _free(trial, "both", "alike")
    unlike = _claim("unlike", count=2)
    unlike["spec"]["devices"]["constraints"] = [{"distinctAttribute": f"{_DRIVER}/roots"}]
    trial.add(unlike)
    trial.add_pod("waits", **_uses("unlike"))
    trial.refused("waits")
    return {"first": first, "both": both, **trial.observe("waits")}


def pod_level_off(trial: Trial) -> Json:
    """What is asked for a pod as a whole does not count, neither for it nor for later ones."""
    trial.add_node("n1", cpu="2")
    off = (
        *("PodLevelResources", "InPlacePodLevelResourcesVerticalScaling"),
        *("PodLevelResourcesFixDefaulting", "PodLevelResourcesFixKubeletQOSClass"),
    )
    trial.start(gates=",".join(f"{gate}=false" for gate in off))
    trial.place("whole", cpu="1", pod_level={"cpu": "3"})
    trial.place("next", cpu="900m")
    trial.add_pod("third", cpu="200m", pod_level={"cpu": "3"})
    trial.refused("third")
    return trial.observe("whole", "next", "third")


def no_expectations(trial: Trial) -> Json:
    """Nobody is told where a pod is going to be while its volume is being prepared."""
    trial.add(storage_class("local"))
    trial.add_node("n1")
    add_volume(trial, local_volume("volume", "n1", "local"))
    trial.add(claim("data", "local"))
    trial.start(gates="NominatedNodeNameForExpectation=false")
    trial.add_pod("first", volumes=claims("data"))
    volume = volume_chosen_for(trial, "data")
    during = trial.pod("first")["status"].get("nominatedNodeName")
    bind_claim(trial, "data", volume)
    trial.bound("first")
    return {"during": during, **trial.observe("first")}


def gang_shares_claim(trial: Trial) -> Json:
    """The pods of a gang share a claim that none of them had before: each reserves it."""
    return _share(trial, _GROUPS)


def group_owns_claim(trial: Trial) -> Json:
    """The group names the claim as its pods do: it is reserved once, for the group."""
    return _share(trial, f"{_GROUPS},DRAWorkloadResourceClaims=true")


def devices_as_resources(trial: Trial) -> Json:
    """Devices that stand for cpu and memory of their node count there with the pod's requests."""
    trial.add_node("n1", cpu="2", memory="4Gi")
    declared = {"status": {"declaredFeatures": ["DRANodeAllocatableResources"]}}
    trial.api.patch("Node", "n1", declared, subresource="status")
    trial.add(_class())
    mappings = {
        "cpu": {"mapping": {"deviceMultiplier": "1500m"}},
        "memory": {
            "mapping": {"capacityKey": "units", "capacityMultiplier": "256Mi"},
            "overhead": {"perPod": "64Mi", "perContainer": "16Mi"},
        },
    }
    shared = {
        "name": "d0",
        "allowMultipleAllocations": True,
        "capacity": {"units": {"value": "8"}},
        "nodeAllocatableResources": mappings,
    }
    trial.add(_slice("n1", shared))
    trial.start(gates="DRANodeAllocatableResources=true")
    for name in ("first", "second", "unused"):
        trial.add(_claim(name, capacity={"requests": {"units": "3"}}))
    first = trial.add(_pod_using("user", "first", cpu="400m"))
    trial.bound("user")
    trial.add_pod("plain", cpu="200m")
    trial.refused("plain")
    trial.add(_pod_using("twice", "second", cpu="50m"))
    trial.refused("twice")
    trial.add(_pod_using("sharer", "first"))
    trial.refused("sharer")
    trial.add_pod("apart", **_uses("unused"))
    trial.refused("apart")
    stored = trial.pod("user")
    assert stored["metadata"]["uid"] == first["metadata"]["uid"]
    return {
        "taken": stored["status"]["nodeAllocatableResourceClaimStatuses"],
        **trial.observe("plain", "twice", "sharer", "apart"),
    }


SCENARIOS = (
    devices_as_resources,
    *(gang_shares_claim, group_owns_claim),
    *(taint_rule, library_of_expressions, list_attributes),
    *(group_preempts, group_may_not_preempt),
    *(pod_level_off, no_expectations),
)


def _share(trial: Trial, gates: str) -> Json:
    trial.add_node("n1")
    trial.add(_class())
    trial.add(_slice("n1", {"name": "d0"}))
    trial.add(_claim("shared"))
    group = pod_group("gang", 2)
    group["spec"]["resourceClaims"] = _uses("shared")["resourceClaims"]
    trial.add(group)
    trial.start(gates=gates)
    names = ("p0", "p1")
    for name in names:
        trial.add_pod(name, schedulingGroup={"podGroupName": "gang"}, **_uses("shared"))
    for name in names:
        trial.bound(name, wait=60.0)
    return _given(trial, "shared") | {"nodes": sorted(trial.pods_per_node().items())}


def _class(*expressions: str) -> Json:
    return {
        "apiVersion": _DEVICES,
        "kind": "DeviceClass",
        "metadata": {"name": "device"},
        "spec": {
            "selectors": [
                {"cel": {"expression": expression}}
                for expression in (f"device.driver == '{_DRIVER}'", *expressions)
            ]
        },
    }


def _slice(node: str, *devices: Json) -> Json:
    return {
        "apiVersion": _DEVICES,
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def _taint_rule(name: str, **selector: str) -> Json:
    return {
        "apiVersion": _DEVICES,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {
            "deviceSelector": selector or {"driver": _DRIVER},
            "taint": {"key": "broken", "effect": "NoSchedule"},
        },
    }


def _claim(name: str, *expressions: str, **exactly: object) -> Json:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    request = {"deviceClassName": "device", "selectors": selectors, **exactly}
    return {
        "apiVersion": _DEVICES,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": request}]}},
    }


def _uses(claim: str) -> Json:
    return {"resourceClaims": [{"name": "claim", "resourceClaimName": claim}]}


def _pod_using(name: str, claim: str, cpu: str | None = None) -> Json:
    """A pod whose container uses a claim."""
    made = pod(name, cpu=cpu, **_uses(claim))
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "claim"}]
    return made


def _given(trial: Trial, name: str) -> Json:
    """What a claim got and who uses it."""
    status = trial.api.get("ResourceClaim", name, trial.namespace).get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", [])
    users = [f"{user['resource']}/{user['name']}" for user in status.get("reservedFor", [])]
    return {"devices": [result["device"] for result in results], "users": sorted(users)}


def _preempted(trial: Trial, name: str) -> list[str]:
    uid = trial.api.get("PodGroup", "gang", trial.namespace)["metadata"]["uid"]
    lines = trial.event_lines(name)
    return [line.replace(uid, "<uid of gang>") for line in lines if "Preempted" in line]


def _free(trial: Trial, pod_name: str, claim: str) -> None:
    """Delete a pod and its claim, so that the devices are free."""
    trial.api.delete("Pod", pod_name, trial.namespace, grace=0)
    trial.api.patch("ResourceClaim", claim, {"metadata": {"finalizers": None}}, trial.namespace)
    trial.api.delete("ResourceClaim", claim, trial.namespace)


def _in_any_order(trial: Trial, *names: str, where: bool = True) -> list[Json]:
    """What is seen of each pod of a group; which of them is tried first is left open."""
    seen = trial.observe(*names, where=where)
    told = sorted(json.dumps(seen[name]).replace(name, "<pod>") for name in names)
    return [json.loads(text) for text in told]


def _condition(trial: Trial, name: str) -> Json:
    def told() -> Json | None:
        group = trial.api.get("PodGroup", name, trial.namespace)
        for condition in group.get("status", {}).get("conditions", []):
            return {key: condition[key] for key in ("status", "reason", "message")}
        return None

    return trial.wait("the group's condition", told)
