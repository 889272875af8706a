"""Devices: claims are allocated and reserved with the pod, shared, missed and released."""

from e2e.client import Json
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


def _devices(trial: Trial) -> None:
    for name in ("n1", "n2"):
        trial.add_node(name)
    trial.add(_class("device.driver == 'device.example.com'"))
    trial.add(_slice("n1", "n1"))


def _class(expression: str) -> Json:
    return {
        "apiVersion": _GROUP,
        "kind": "DeviceClass",
        "metadata": {"name": "device"},
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


SCENARIOS = (claim_allocated, claim_created_later, class_missing, expression_broken)
