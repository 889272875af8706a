"""The objects of a soak: pods that hardly resemble one another, and the nodes they go to.

Labels, selectors, owners, images, service accounts, ports and resource names are new all the time:
whatever a process remembers of them beyond the life of the pods shows as growing memory.
"""

import random
from itertools import count
from typing import Any

Json = dict[str, Any]

NAMESPACE = "default"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
POOL = "pool"
SMALL = "small"
LOW, HIGH = -10, 1000
_GROUP_SIZE = 5
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node(name: str, zone: int, *, cpu: str = "16", pool: str = "large") -> Json:
    """A node of one of three zones."""
    labels = {HOSTNAME: name, ZONE: f"zone-{zone % 3}", POOL: pool}
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


class PodMaker:
    """Makes pods in groups, as controllers do; no two groups and no two pods are alike."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._number = count()

    def ordinary(self) -> Json:
        """A pod that fits, one of a group with rules of its own."""
        number = next(self._number)
        group = number // _GROUP_SIZE
        labels = {"app": f"app-{group}"}
        spec = self._spec(number, f"app-{group}")
        spec["nodeSelector"] = {POOL: "large"}
        match group % 5:
            case 0:
                spec["affinity"] = _apart(labels)
            case 1:
                spec["topologySpreadConstraints"] = [_spread(labels)]
            case 2:
                spec["affinity"] = _together(labels)
            case 3:
                port = 20000 + number % 10000
                spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        return self._pod(f"app-{group}-{number}", number, labels, spec)

    def filler(self) -> Json:
        """A pod of low priority that fills the small pool."""
        number = next(self._number)
        spec = self._spec(number, "filler", cpu="1")
        spec |= {"nodeSelector": {POOL: SMALL}, "priorityClassName": "low"}
        return self._pod(f"filler-{number}", number, {"app": "filler"}, spec)

    def urgent(self) -> Json:
        """A pod of high priority that must evict a filler."""
        number = next(self._number)
        spec = self._spec(number, "urgent", cpu="1")
        spec |= {"nodeSelector": {POOL: SMALL}, "priorityClassName": "high"}
        return self._pod(f"urgent-{number}", number, {"app": "urgent"}, spec)

    def misfit(self) -> Json:
        """A pod that asks for a resource no node has."""
        number = next(self._number)
        spec = self._spec(number, f"misfit-{number}")
        resource = {f"example.com/device-{number}": "1"}
        spec["containers"][0]["resources"] = {"requests": resource, "limits": resource}
        return self._pod(f"misfit-{number}", number, {"app": f"misfit-{number}"}, spec)

    def _spec(self, number: int, owner: str, cpu: str = "100m") -> Json:
        requests = {"cpu": cpu, "memory": f"{32 + number % 64}Mi"}
        container = {
            "name": "main",
            "image": f"{owner}:{number}",
            "resources": {"requests": requests},
            "env": [{"name": "INDEX", "value": str(number)}],
        }
        return {
            "serviceAccountName": owner,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "tolerations": [{"key": owner, "operator": "Exists", "effect": "NoSchedule"}],
        }

    def _pod(self, name: str, number: int, labels: Json, spec: Json) -> Json:
        owner = labels["app"]
        reference = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": owner,
            "uid": f"{abs(hash(owner)):032x}"[:32],
            "controller": True,
        }
        own = {
            "apps.kubernetes.io/pod-index": str(number),
            "statefulset.kubernetes.io/pod-name": name,
            "controller-revision-hash": f"{self._random.getrandbits(40):x}",
        }
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels | own,
            "annotations": {"example.com/build": f"{self._random.getrandbits(128):x}"},
            "ownerReferences": [reference],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _apart(labels: Json) -> Json:
    return {"podAntiAffinity": {_REQUIRED: [_term(labels)]}}


def _together(labels: Json) -> Json:
    return {"podAffinity": {_PREFERRED: [{"weight": 10, "podAffinityTerm": _term(labels)}]}}


def _term(labels: Json) -> Json:
    return {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}


def _spread(labels: Json) -> Json:
    return {
        "maxSkew": 2,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
