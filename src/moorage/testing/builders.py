"""Objects for tests, with only what matters to a test spelled out.

Common fields are keyword arguments; everything else goes into `spec` and `status` as the API
writes it. Objects take the same way as those of an API server (`model.decode`), so a mistyped field
name is ignored as there, and a value of the wrong type is an error.
"""

from collections.abc import Iterable, Mapping, Sequence

from moorage.cluster.state import ClusterState
from moorage.model.custom import kind_of
from moorage.model.decode import decode_object
from moorage.model.meta import ApiObject, Json
from moorage.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.model.pod import Pod

_SOURCE = "test object"


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    node_name: str = "",
    priority: int | None = None,
    spec: Json | None = None,
    metadata: Json | None = None,
    status: Json | None = None,
) -> Pod:
    """A pod with one container.

    `cpu`, `memory` and `requests` are the container's requests; `uid` is `namespace/name` unless
    given. `spec`, `metadata` and `status` are laid over the rest, so `spec={"containers": [...]}`
    replaces the container:

        make_pod("ship", cpu="500m", labels={"app": "web"}, spec={"hostNetwork": True})
    """
    amounts = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    container = {"name": "main", "resources": {"requests": {**amounts, **(requests or {})}}}
    pod = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid or f"{namespace}/{name}",
                "labels": dict(labels or {}),
                **(metadata or {}),
            },
            "spec": {
                "containers": [container],
                "nodeName": node_name,
                "priority": priority,
                **(spec or {}),
            },
            "status": status or {},
        },
        _SOURCE,
    )
    assert isinstance(pod, Pod)
    return pod


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    allocatable: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    spec: Json | None = None,
    status: Json | None = None,
) -> Node:
    """A node, labelled with its name and, if given, its zone.

    `taints` are written as kubectl does (`key=value:NoSchedule`, or `key:NoExecute`), `images` maps
    names to sizes in bytes, `allocatable` adds further resources:

        make_node("quay", zone="north", cpu="8", taints=["gpu=yes:NoSchedule"])
    """
    own = {HOSTNAME_LABEL: name, **({ZONE_LABEL: zone} if zone else {})}
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **(allocatable or {})}
    node = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": {**own, **(labels or {})}},
            "spec": {
                "unschedulable": unschedulable,
                "taints": [_taint(text) for text in taints],
                **(spec or {}),
            },
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "images": [
                    {"names": [image], "sizeBytes": size} for image, size in (images or {}).items()
                ],
                **(status or {}),
            },
        },
        _SOURCE,
    )
    assert isinstance(node, Node)
    return node


def _taint(text: str) -> Json:
    key_and_value, colon, effect = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a taint: expected key=value:Effect or key:Effect")
    key, _, value = key_and_value.partition("=")
    return {"key": key, "value": value, "effect": effect}


def cluster(
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    others: Iterable[ApiObject] = (),
) -> ClusterState:
    """A cluster state with these nodes, pods on them (`node_name`), and other objects."""
    state = ClusterState()
    for node in nodes:
        state.add_node(node)
    for pod in pods:
        if not pod.spec.node_name:
            raise ValueError(f"pod {pod.key} has no node; give make_pod a node_name")
        state.add_pod(pod)
    for obj in others:
        state.listers.put(obj, kind_of(obj))
    return state
