"""What a kubelet says of its node, and the lease that tells that it is alive.

What a node's author says of it stands; the rest is as in `node_status.yaml`. A node that was given
up because nobody renewed its lease is ready again.
"""

from datetime import UTC, datetime

from moorage.controllers.cluster import ClusterObjects, Key
from moorage.controllers.objects import Json, meta, rfc3339, seconds, spec, status, with_condition
from moorage.controllers.plan import CreateObject, PatchObject, Plan
from moorage.tables import read_table

_STATUS = read_table("moorage.controllers", "node_status.yaml", Json)
_LEASES = "kube-node-lease"
_RENEWALS_MISSED = 4
"""A lease lasts as long as so many renewals take."""


def internal_address(node: Json) -> str:
    """The node's address in the cluster; empty if it has none yet."""
    known = status(node).get("addresses") or ()
    return next((str(one["address"]) for one in known if one.get("type") == "InternalIP"), "")


def make_ready(plan: Plan, node: Json, address: str, now: float) -> None:
    """Say what is missing in the node's status."""
    old = status(node)
    given = old.get("capacity") or {}
    capacity = {**given, **{k: v for k, v in _STATUS["capacity"].items() if not given.get(k)}}
    conditions: list[Json] = old.get("conditions") or []
    present = {one["type"]: one for one in conditions}
    for condition in _STATUS["conditions"]:
        if present.get(condition["type"], {}).get("status", "Unknown") == "Unknown":
            says = {**condition, "lastHeartbeatTime": rfc3339(now)}
            conditions = with_condition(conditions, says, now)
    addresses = old.get("addresses") or [{"type": "Hostname", "address": meta(node)["name"]}]
    if not internal_address(node):
        addresses = [{"type": "InternalIP", "address": address}, *addresses]
    new = {
        **old,
        "addresses": addresses,
        "allocatable": {**capacity, **(old.get("allocatable") or {})},
        "capacity": capacity,
        "conditions": conditions,
        "nodeInfo": {**_STATUS["nodeInfo"], **_told(old.get("nodeInfo") or {})},
    }
    plan.set_status(node, new)


def _told(info: Json) -> Json:
    """API servers fill in empty texts where nothing was said."""
    return {name: value for name, value in info.items() if value}


def lease_of(name: str) -> Key:
    """The key of a node's lease."""
    return Key("Lease", _LEASES, name)


def keep_lease(
    plan: Plan, cluster: ClusterObjects, node: Json, interval: float, period: float, now: float
) -> None:
    """Say once in a period that the node is alive; `interval` is the longest one."""
    name, uid = meta(node)["name"], meta(node)["uid"]
    lease = cluster.get(*lease_of(name))
    moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
    news = {
        "holderIdentity": name,
        "leaseDurationSeconds": int(interval * _RENEWALS_MISSED),
        "renewTime": moment.replace("+00:00", "Z"),
    }
    left = period
    if lease is None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": news,
        }
        plan.writes.append(CreateObject("Lease", _LEASES, body))
    else:
        renewed = spec(lease).get("renewTime")
        left = seconds(renewed) + period - now if renewed else 0.0
        if left <= 0:
            plan.writes.append(PatchObject(lease_of(name), {"spec": news}))
            left = period
    plan.look_again([left])
