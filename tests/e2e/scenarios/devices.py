"""Devices: claims are allocated and reserved with the pod, shared, missed and released."""

from e2e.client import Json
from e2e.objects import HOSTNAME, pod_group
from e2e.trial import Trial

_DRIVER = "device.example.com"
_GROUP = "resource.k8s.io/v1"


def claim_allocated(trial: Trial) -> Json:
    """A pod goes where the device is; two pods share a claim; a second claim finds nothing."""
    _devices(trial)
    trial.start()
    trial.add(_claim("first"))
    trial.place("user", **_uses("first"))
    trial.place("shares", **_uses("first"))
    trial.add(_claim("second"))
    trial.add_pod("too-late", **_uses("second"))
    trial.refused("too-late")
    before = trial.observe("too-late")
    held = _seen(trial, "first")
    trial.add(_slice("n2", "n2"))
    trial.bound("too-late")
    return {
        "before": before,
        "first": held,
        "second": _seen(trial, "second"),
        **trial.observe("user", "shares", "too-late"),
    }


def claim_created_later(trial: Trial) -> Json:
    """A claim that is missing when the pod comes."""
    _devices(trial)
    trial.start()
    trial.add_pod("waits", **_uses("late"))
    trial.place("other")
    before = trial.observe("waits")
    trial.add(_claim("late"))
    trial.bound("waits")
    return {"before": before, **trial.observe("waits"), "claim": _seen(trial, "late")}


def class_missing(trial: Trial) -> Json:
    """A claim that names a class that does not exist, until it does."""
    trial.add_node("n1")
    trial.add(_slice("n1", "n1"))
    trial.start()
    trial.add(_claim("first"))
    trial.add_pod("waits", **_uses("first"))
    trial.refused("waits")
    before = trial.observe("waits")
    trial.add(_class("device.driver == 'device.example.com'"))
    trial.bound("waits")
    return {"before": before, **trial.observe("waits")}


def expression_broken(trial: Trial) -> Json:
    """A selector that fails at run time keeps the pod pending; other pods go on."""
    trial.add_node("n1")
    trial.add(_slice("n1", "n1"))
    trial.add(_class("device.attributes['device.example.com'].missing == 'x'"))
    trial.start()
    trial.add(_claim("first"))
    trial.add_pod("waits", **_uses("first"))
    trial.refused("waits")
    trial.place("other")
    return trial.observe("waits", "other")


def claim_shared(trial: Trial) -> Json:
    """A second user of a claim must go where the device is; it waits for room, not elsewhere."""
    _devices(trial)
    trial.start()
    trial.add(_claim("shared"))
    trial.place("first", cpu="3", **_uses("shared"))
    trial.add_pod("second", cpu="3", **_uses("shared"))
    trial.refused("second")
    before = trial.observe("first", "second")
    trial.place("small", cpu="1", **_uses("shared"))
    both = _seen(trial, "shared")
    trial.delete_pod("first")
    trial.bound("second")
    _release(trial, "shared", "first")
    return {
        "before": before,
        "both": both,
        "shared": _seen(trial, "shared"),
        **trial.observe("second", "small"),
    }


def claim_released(trial: Trial) -> Json:
    """A device is free when its claim is deallocated, not yet when its last user has gone."""
    _devices(trial)
    trial.start()
    trial.add(_claim("first"))
    trial.place("holder", **_uses("first"))
    trial.add(_claim("second"))
    trial.add_pod("waits", **_uses("second"))
    trial.refused("waits")
    before = trial.observe("waits")
    trial.delete_pod("holder")
    trial.gone("holder")
    _release(trial, "first", "holder")
    attempts = trial.stays_refused("waits")
    released = _seen(trial, "first")
    _deallocate(trial, "first")
    trial.bound("waits")
    return {
        "before": before,
        "attempts": attempts,
        "released": released,
        "first": _seen(trial, "first"),
        "second": _seen(trial, "second"),
        **trial.observe("waits"),
    }


def claim_moves(trial: Trial) -> Json:
    """The scheduler itself deallocates a claim that nobody uses and that is in the wrong place."""
    _devices(trial)
    trial.add(_slice("n2", "n2"))
    trial.start()
    trial.add(_claim("first"))
    trial.place("holder", nodeSelector={HOSTNAME: "n1"}, **_uses("first"))
    trial.add_pod("waits", nodeSelector={HOSTNAME: "n2"}, **_uses("first"))
    trial.refused("waits")
    attempts = trial.stays_refused("waits")
    before = {**trial.observe("waits"), "first": _seen(trial, "first")}
    trial.delete_pod("holder")
    trial.gone("holder")
    _release(trial, "first", "holder")
    trial.bound("waits")
    return {
        "attempts": attempts,
        "before": before,
        "first": _seen(trial, "first"),
        **trial.observe("waits"),
    }


def claim_deleted(trial: Trial) -> Json:
    """A claim goes while its pod waits for a device, and comes again."""
    _devices(trial)
    trial.start()
    trial.add(_claim("first"))
    trial.place("holder", **_uses("first"))
    trial.add(_claim("second"))
    trial.add_pod("waits", **_uses("second"))
    trial.refused("waits")
    before = trial.observe("waits")
    trial.api.delete("ResourceClaim", "second", trial.namespace)
    _tell_of_claims(trial)
    attempts = [trial.stays_refused("waits")]
    trial.add(_slice("n2", "n2"))
    attempts.append(trial.stays_refused("waits"))
    trial.place("other")
    without = trial.observe("waits", "holder")
    trial.add(_claim("second"))
    trial.bound("waits")
    return {
        "before": before,
        "attempts": attempts,
        "without": without,
        "second": _seen(trial, "second"),
        **trial.observe("waits"),
    }


def claim_ending(trial: Trial) -> Json:
    """A claim that is to go when its user has gone takes no more users; a new one does."""
    _devices(trial)
    trial.start()
    trial.add(_claim("first"))
    trial.place("holder", **_uses("first"))
    trial.api.delete("ResourceClaim", "first", trial.namespace)
    _tell_of_claims(trial)
    trial.add_pod("waits", **_uses("first"))
    trial.place("other")
    attempts = trial.attempts("waits")
    before = {**trial.observe("waits"), "first": _seen(trial, "first")}
    trial.delete_pod("holder")
    trial.gone("holder")
    _release(trial, "first", "holder")
    _deallocate(trial, "first")
    trial.wait("the claim to be gone", lambda: _gone(trial, "first"))
    trial.add(_claim("first"))
    trial.bound("waits")
    return {
        "attempts": attempts,
        "before": before,
        "first": _seen(trial, "first"),
        **trial.observe("waits"),
    }


def claim_from_template(trial: Trial) -> Json:
    """A pod waits until its claim has been made after a template; only one of its own will do."""
    _devices(trial)
    trial.start()
    template = {"name": "device", "resourceClaimTemplateName": "template"}
    made = trial.add_pod("waits", resourceClaims=[template])
    trial.place("other")
    before = trial.observe("waits")
    _generate(trial, made, _claim("of-nobody"))
    trial.place("another")
    stranger = trial.observe("waits")
    _generate(trial, made, _claim("generated"), owned=True)
    trial.bound("waits")
    return {
        "before": before,
        "stranger": stranger,
        "claim": _seen(trial, "generated"),
        **trial.observe("waits"),
    }


def gang_with_claims(trial: Trial) -> Json:
    """Each pod of a gang has a claim of its own; there are devices for all of them, or for none."""
    trial.add_node("n1")
    trial.add_node("n2")
    trial.add(_class("device.driver == 'device.example.com'"))
    trial.add(_slice("n1", "n1"))
    trial.add(pod_group("gang", 2))
    names = ("first", "second")
    for name in names:
        trial.add(_claim(name))
    trial.start(gates="GenericWorkload=true")
    for name in names:
        trial.add_pod(name, schedulingGroup={"podGroupName": "gang"}, **_uses(name))
    for name in names:
        trial.refused(name)
    before = {name: _seen(trial, name) for name in names}
    # Which of them finds the device, and which none, is left open.
    told = sorted(line for name in names for line in trial.event_lines(name))
    trial.add(_slice("n2", "n2"))
    for name in names:
        trial.bound(name)
    trial.wait("both to be reserved", lambda: all(_seen(trial, n)["reserved for"] for n in names))
    seen = [_seen(trial, name) for name in names]
    return {
        "before": before,
        "told": told,
        "reserved for": [one["reserved for"] for one in seen],
        "devices": sorted(str(one["devices"]) for one in seen),
        "nodes": sorted(trial.pods_per_node().items()),
    }


def _tell_of_claims(trial: Trial) -> None:
    """Wait until the scheduler has heard of whatever happened to claims so far.

    Pods and claims come to it by different watches. It can refuse this pod only after it has heard
    of its claim, which is the latest.
    """
    request = {"name": "one", "exactly": {"deviceClassName": "nothing"}}
    trial.add(_class("false", "nothing"))
    trial.add(_claim("latest") | {"spec": {"devices": {"requests": [request]}}})
    trial.add_pod("hears", **_uses("latest"))
    trial.refused("hears")


def _generate(trial: Trial, pod: Json, claim: Json, *, owned: bool = False) -> None:
    """What the claim controller does: a claim is made, and the pod's status names it."""
    meta = pod["metadata"]
    if owned:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        claim["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    name = trial.add(claim)["metadata"]["name"]
    status = {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": name}]}
    trial.api.patch("Pod", meta["name"], {"status": status}, trial.namespace, "status")


def _devices(trial: Trial) -> None:
    for name in ("n1", "n2"):
        trial.add_node(name)
    trial.add(_class("device.driver == 'device.example.com'"))
    trial.add(_slice("n1", "n1"))


def _class(expression: str, name: str = "device") -> Json:
    return {
        "apiVersion": _GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _slice(name: str, node: str) -> Json:
    return {
        "apiVersion": _GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "dev-0", "attributes": {"model": {"string": "a"}}}],
        },
    }


def _claim(name: str) -> Json:
    request = {"name": "one", "exactly": {"deviceClassName": "device"}}
    return {
        "apiVersion": _GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }


def _uses(claim: str) -> Json:
    return {"resourceClaims": [{"name": "device", "resourceClaimName": claim}]}


def _release(trial: Trial, name: str, pod: str) -> None:
    """What the claim controller does when a pod has gone: the claim is not reserved for it."""
    claim = trial.api.get("ResourceClaim", name, trial.namespace)
    left = [user for user in claim["status"]["reservedFor"] if user["name"] != pod]
    _change_status(trial, name, {"reservedFor": left or None})


def _deallocate(trial: Trial, name: str) -> None:
    """What the claim controller does with a claim that is not needed any more."""
    _change_status(trial, name, {"allocation": None})
    change = {"metadata": {"finalizers": None}}
    trial.api.patch("ResourceClaim", name, change, trial.namespace)


def _change_status(trial: Trial, name: str, status: Json) -> None:
    trial.api.patch("ResourceClaim", name, {"status": status}, trial.namespace, "status")


def _gone(trial: Trial, name: str) -> bool:
    return trial.api.find("ResourceClaim", name, trial.namespace) is None


def _seen(trial: Trial, name: str) -> Json:
    """What is compared of a claim: its finalizers, its allocation and for whom it is reserved."""
    claim = trial.api.get("ResourceClaim", name, trial.namespace)
    status = claim.get("status", {})
    return {
        "finalizers": claim["metadata"].get("finalizers"),
        "devices": status.get("allocation", {}).get("devices"),
        "nodes": status.get("allocation", {}).get("nodeSelector"),
        "reserved for": sorted(user["name"] for user in status.get("reservedFor", [])),
    }


SCENARIOS = (
    claim_allocated,
    claim_created_later,
    class_missing,
    expression_broken,
    claim_shared,
    claim_released,
    claim_moves,
    claim_deleted,
    claim_ending,
    claim_from_template,
    gang_with_claims,
)
