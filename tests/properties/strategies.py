"""Small vocabularies, so that pods and nodes meet, collide and refuse each other often.

Nodes and pods are drawn from pools that a seeded generator fills once, the simplest first: drawing
one is then a single choice, which is fast and shrinks towards simple objects. A deep run may take
another pool each time (`POOL_SEED`).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from moorage.model.affinity import Affinity, PodAffinity, PodAffinityTerm
from moorage.model.labels import LabelSelector
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.node import ContainerImage, Node, NodeSpec, NodeStatus
from moorage.model.node_selector import NodeAffinitySpec
from moorage.model.pod import (
    Container,
    ContainerRestartRule,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
    VolumeMount,
)
from moorage.model.quantity import Quantity
from moorage.model.taints import Taint, Toleration
from moorage.model.volumes import ImageVolume, Volume
from moorage.model.workloads import (
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
)
from reference.objects import (
    HOSTNAME,
    ZONE,
    host_port,
    make_budget,
    make_namespace,
    make_replica_set,
    make_service,
    node_affinity,
    node_term,
    owned_by,
    pod_term,
    pod_terms,
    selector,
)

T = TypeVar("T")

POOL_SEED = int(os.environ.get("POOL_SEED", "0"))

NODE_NAMES = tuple(f"n{i}" for i in range(8))
NAMESPACES = ("default", "other")
TOPOLOGY_KEYS = (ZONE, HOSTNAME, "disk")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu", "hugepages-2Mi")
IMAGES = {"web:v1": 300 << 20, "db:latest": 900 << 20, "reg.io:5000/tool:v2": 40 << 20}
PORTS = (
    host_port(80),
    host_port(80, ip="10.0.0.1"),
    host_port(80, ip="10.0.0.2"),
    host_port(80, protocol="UDP"),
    host_port(443, ip="0.0.0.0", protocol="TCP"),
)
TAINTS = (
    Taint(key="gpu", value="yes", effect="NoSchedule"),
    Taint(key="gpu", value="no", effect="NoExecute"),
    Taint(key="spot", value="", effect="PreferNoSchedule"),
    Taint(key="old", value="1", effect="PreferNoSchedule"),
)
TOLERATIONS = (
    Toleration(operator="Exists"),
    Toleration(key="gpu", operator="Exists"),
    Toleration(key="gpu", operator="Equal", value="yes", effect="NoSchedule"),
    Toleration(key="spot", operator="Exists", effect="PreferNoSchedule"),
    Toleration(key="old", value="1"),
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),
    Toleration(value="1"),
)
FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)
LABEL_SELECTORS = (
    selector({"app": "web"}),
    selector({"app": "db"}),
    selector({"app": "web", "tier": "1"}),
    selector(None, ("app", "In", ["web", "db"])),
    selector(None, ("tier", "NotIn", ["1"])),
    selector(None, ("tier", "Exists", [])),
    selector(None, ("app", "DoesNotExist", [])),
    selector(),
    None,
)
NAMESPACE_SELECTORS = (
    None,
    None,
    None,
    selector(),
    selector({"team": "red"}),
    selector(None, ("team", "DoesNotExist", [])),
    selector(None, ("team", "NotIn", ["red"])),
)
WISHED_NODES = (
    node_term((ZONE, "In", ["a", "b"])),
    node_term(("disk", "Gt", ["5"])),
    node_term(("disk", "Exists", []), (ZONE, "NotIn", ["c"])),
    node_term(names=("In", ["n0"])),
    node_term(),
)
"""Terms that upstream's parser takes; wishes must parse."""
DEMANDED_NODES = (
    *WISHED_NODES,
    node_term((ZONE, "NotIn", ["a"])),
    node_term((ZONE, "Exists", []), ("disk", "DoesNotExist", [])),
    node_term(("disk", "Lt", ["5"])),
    node_term(("disk", "Gt", ["five"])),
    node_term((HOSTNAME, "In", ["n0", "n1", "n2"])),
    node_term(names=("NotIn", ["n1"])),
    node_term(("disk", "Exists", []), names=("In", ["n0"])),
    node_term(names=("In", ["n2"])),
    node_term(names=("In", ["n3", "n4"])),
    node_term(("disk", "Near", ["ssd"])),
)
OFFERS: Mapping[str, Sequence[Quantity | None]] = {
    "cpu": ["2", "1500m", 4],
    "memory": ["2Gi", "3000M"],
    "pods": [2, 4, "10"],
    "ephemeral-storage": [None, "1Gi", "10Gi"],
    "example.com/gpu": [None, 1, "3", 0],
    "hugepages-2Mi": [None, "4Mi"],
}
REQUESTS: Mapping[str, Sequence[Quantity | None]] = {
    "cpu": [None, "500m", "1", "1800m", "5", 0],
    "memory": [None, "300Mi", "1Gi", "8Gi"],
    "ephemeral-storage": [None, None, None, None, "600Mi", "2Gi"],
    "example.com/gpu": [None, None, None, None, 1, 2, 0],
    "hugepages-2Mi": [None, None, None, None, "2Mi", "4Mi"],
    "kubernetes.io/odd": [None] * 7 + [1],
}


def pool(size: int, build: Callable[[Random], T]) -> SearchStrategy[T]:
    """Objects of one kind, the simplest first."""
    random = Random(POOL_SEED)
    objects = sorted((build(random) for _ in range(size)), key=lambda obj: len(repr(obj)))
    return st.integers(0, size - 1).map(lambda place: objects[place])


def some(options: Sequence[Any], most: int) -> SearchStrategy[list[Any]]:
    """A few distinct options."""
    return st.lists(st.sampled_from(options), max_size=most, unique_by=options.index)


def _some(random: Random, options: Sequence[T], most: int) -> list[T]:
    return random.sample(list(options), random.randint(0, most))


def _rarely(random: Random) -> bool:
    return random.random() < 0.2


def _amounts(
    random: Random, choices: Mapping[str, Sequence[Quantity | None]]
) -> dict[str, Quantity]:
    drawn = {name: random.choice(values) for name, values in choices.items()}
    return {name: value for name, value in drawn.items() if value is not None}


# Nodes


def _labels(random: Random) -> dict[str, str]:
    labels = {HOSTNAME: "{name}"} if random.random() < 0.85 else {}
    zone = random.choice([None, "a", "a", "b", "c", ""])
    if zone is not None:
        labels[ZONE] = zone
    disk = random.choice([None, "ssd", "hdd", "5", "12", "-1"])
    if disk is not None:
        labels["disk"] = disk
    if _rarely(random):
        labels["failure-domain.beta.kubernetes.io/region"] = random.choice(["east", "west"])
    return labels


def _images(random: Random, *, sizes: bool = False) -> tuple[ContainerImage, ...]:
    return tuple(
        ContainerImage(
            names=(name, f"{name}-alias"),
            size_bytes=random.choice([1 << 20, 500 << 20]) if sizes else IMAGES[name],
        )
        for name in _some(random, list(IMAGES), 3)
    )


def _node(random: Random) -> Node:
    return Node(
        metadata=ObjectMeta(labels=_labels(random)),
        spec=NodeSpec(
            unschedulable=_rarely(random),
            taints=tuple(_some(random, TAINTS, 2)) if random.random() < 0.4 else (),
        ),
        status=NodeStatus(
            allocatable=_amounts(random, OFFERS),
            images=_images(random),
            declared_features=tuple(_some(random, FEATURES, 2)),
        ),
    )


def _open_node(random: Random) -> Node:
    """A node that keeps nobody out, and soon is full."""
    node = _node(random)
    offered: dict[str, Quantity] = {**node.status.allocatable, "pods": random.choice([2, 4])}
    return msgspec.structs.replace(
        node,
        spec=NodeSpec(),
        status=msgspec.structs.replace(node.status, allocatable=offered),
    )


def _roomy_node(random: Random) -> Node:
    """A node that refuses nobody for lack of anything but company."""
    node = _open_node(random)
    offered: dict[str, Quantity] = dict.fromkeys(REQUESTS, "1000Gi") | {"pods": 110}
    return msgspec.structs.replace(
        node, status=msgspec.structs.replace(node.status, allocatable=offered)
    )


_nodes = pool(400, _node)
_open_nodes = pool(200, _open_node)
_roomy_nodes = pool(200, _roomy_node)
_label_sets = pool(100, _labels)


def nodes(name: str) -> SearchStrategy[Node]:
    """A node of that name."""
    return _nodes.map(lambda node: _with_name(node, name))


def open_nodes(name: str) -> SearchStrategy[Node]:
    """A node of that name that keeps nobody out."""
    return _open_nodes.map(lambda node: _with_name(node, name))


def roomy_nodes(name: str) -> SearchStrategy[Node]:
    """A node of that name that has room for everybody."""
    return _roomy_nodes.map(lambda node: _with_name(node, name))


def node_labels(name: str) -> SearchStrategy[dict[str, str]]:
    """Labels for a node of that name."""
    return _label_sets.map(lambda labels: _filled_in(labels, name))


def _with_name(node: Node, name: str) -> Node:
    meta = ObjectMeta(name=name, labels=_filled_in(node.labels, name))
    return msgspec.structs.replace(node, metadata=meta)


def _filled_in(labels: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: name if key == HOSTNAME else value for key, value in labels.items()}


allocatables = pool(60, lambda random: _amounts(random, OFFERS))
taint_lists = some(TAINTS, 3)
image_lists = pool(30, _images)
image_lists_of_any_size = pool(30, lambda random: _images(random, sizes=True))
feature_lists = some(FEATURES, 2)


# Pods


def _selector(random: Random) -> LabelSelector | None:
    return random.choice(LABEL_SELECTORS)


def _pod_term(random: Random) -> PodAffinityTerm:
    return pod_term(
        random.choice(TOPOLOGY_KEYS),
        _selector(random),
        namespaces=_some(random, NAMESPACES, 2) if _rarely(random) else (),
        namespace_selector=random.choice(NAMESPACE_SELECTORS),
    )


def _pod_affinity(random: Random) -> PodAffinity | None:
    if random.random() < 0.6:
        return None
    wishes = [(random.choice([1, 7, 100]), _pod_term(random)) for _ in range(random.randint(0, 2))]
    return pod_terms([_pod_term(random) for _ in range(random.randint(0, 2))], wishes)


def _node_affinity(random: Random) -> NodeAffinitySpec | None:
    if random.random() < 0.6:
        return None
    terms = None
    if random.random() < 0.6:
        terms = [random.choice(DEMANDED_NODES) for _ in range(random.randint(0, 2))]
    count = random.randint(0, 2)
    wishes = [(random.choice([0, 1, 50]), random.choice(WISHED_NODES)) for _ in range(count)]
    return node_affinity(terms, wishes)


def _spread(random: Random) -> TopologySpreadConstraint:
    hard = random.random() < 0.5
    return TopologySpreadConstraint(
        max_skew=random.randint(1, 2),
        topology_key=random.choice(TOPOLOGY_KEYS),
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
        label_selector=_selector(random),
        min_domains=random.randint(1, 4) if hard and random.random() < 0.4 else None,
        node_affinity_policy=random.choice([None, "Honor", "Ignore"]),
        node_taints_policy=random.choice([None, "Honor", "Ignore"]),
        match_label_keys=tuple(_some(random, ("app", "tier"), 2)) if _rarely(random) else (),
    )


def _container(random: Random, name: str, *, init: bool = False) -> Container:
    rule = ContainerRestartRule(action="RestartAllContainers")
    return Container(
        name=name,
        image=random.choice(["", *_IMAGES]),
        resources=ResourceRequirements(requests=_amounts(random, REQUESTS)),
        ports=tuple(_some(random, PORTS, 2)) if _rarely(random) else (),
        restart_policy="Always" if init and random.random() < 0.5 else None,
        restart_policy_rules=(rule,) if random.random() < 0.1 else (),
        volume_mounts=(VolumeMount(("noexec",)),) if random.random() < 0.1 else (),
    )


def _pod_labels(random: Random) -> dict[str, str]:
    labels = {
        "app": random.choice([None, "web", "web", "db"]),
        "tier": random.choice([None, None, "1", "2"]),
    }
    return {key: value for key, value in labels.items() if value is not None}


OWNERS = (
    owned_by("rs"),
    owned_by("ss", "StatefulSet"),
    owned_by("rc", "ReplicationController", "v1"),
    owned_by("job", "Job", "batch/v1"),
)


def _meta(random: Random) -> ObjectMeta:
    return ObjectMeta(
        namespace=random.choice(NAMESPACES),
        labels=_pod_labels(random),
        owner_references=(random.choice(OWNERS),) if random.random() < 0.4 else (),
        deletion_timestamp="2026-01-02T00:00:00Z" if _rarely(random) else None,
    )


_IMAGES = ["web:v1", "db", "reg.io:5000/tool:v2", "db:latest-alias"]


def _image_volume(random: Random) -> Volume:
    return Volume(name="data", image=ImageVolume(reference=random.choice(_IMAGES)))


def _pod(random: Random, *, plain: bool, incoming: bool) -> Pod:
    main = [_container(random, "main")]
    if _rarely(random):
        main.append(_container(random, "second"))
    init = (_container(random, "init", init=True),) if _rarely(random) else ()
    resized: tuple[ContainerStatus, ...] = ()
    if not incoming and _rarely(random):
        actual = ResourceRequirements(requests=_amounts(random, REQUESTS))
        resized = (ContainerStatus(name="main", resources=actual),)
    spread = [_spread(random) for _ in range(random.randint(1, 2))]
    alone = plain or random.random() < 0.65
    host_network = random.random() < 0.1
    return Pod(
        metadata=_meta(random),
        spec=PodSpec(
            containers=tuple(main),
            init_containers=init,
            overhead={"cpu": "100m"} if _rarely(random) else {},
            resources=ResourceRequirements(requests={"cpu": "700m"}) if _rarely(random) else None,
            node_selector=random.choice([{"disk": "ssd"}, {ZONE: "a"}]) if _rarely(random) else {},
            affinity=Affinity(
                node_affinity=_node_affinity(random),
                pod_affinity=None if plain else _pod_affinity(random),
                pod_anti_affinity=None if plain else _pod_affinity(random),
            ),
            tolerations=tuple(_some(random, TOLERATIONS, 2)) if random.random() < 0.4 else (),
            topology_spread_constraints=() if alone else tuple(spread),
            priority=random.choice([None, 0, 5, 10, -3]),
            host_network=host_network,
            host_users=False if host_network else None,
            volumes=(_image_volume(random),) if _rarely(random) else (),
        ),
        status=PodStatus(container_statuses=resized),
    )


pods = pool(1500, lambda random: _pod(random, plain=False, incoming=False))
"""Pods on nodes, without a name (see `named`)."""
incoming_pods = pool(1500, lambda random: _pod(random, plain=False, incoming=True))
"""Pods that wait for a node."""
plain_pods = pool(1000, lambda random: _pod(random, plain=True, incoming=False))
"""Pods on nodes that do not look at other pods."""
plain_incoming_pods = pool(1000, lambda random: _pod(random, plain=True, incoming=True))


def _demanding(random: Random, *, plain: bool) -> Pod:
    """A pod that could run on an empty node, and not where many others are."""
    pod = _pod(random, plain=plain, incoming=True)
    wanted: dict[str, Quantity] = {"cpu": random.choice(["1", "1400m"]), "memory": "1Gi"}
    container = Container(
        name="main",
        resources=ResourceRequirements(requests=wanted),
        ports=tuple(_some(random, PORTS, 1)),
    )
    affinity = pod.spec.affinity or Affinity()
    return msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(
            pod.spec,
            containers=(container,),
            init_containers=(),
            resources=None,
            node_selector={},
            affinity=msgspec.structs.replace(affinity, node_affinity=None),
            priority=random.choice([1, 7, 100, 100]),
            host_network=False,
        ),
    )


def _social(random: Random) -> Pod:
    """A pod that only cares for other pods."""
    hard = msgspec.structs.replace(_spread(random), when_unsatisfiable="DoNotSchedule")
    required = pod_terms([_pod_term(random)])
    kind = random.randrange(3)
    return Pod(
        metadata=_meta(random),
        spec=PodSpec(
            containers=(Container(name="main"),),
            topology_spread_constraints=(hard,) if kind == 0 else (),
            affinity=Affinity(
                pod_affinity=required if kind == 1 else None,
                pod_anti_affinity=required if kind == 2 else None,
            ),
            priority=100,
        ),
    )


social_pods = pool(400, _social)
demanding_pods = pool(600, lambda random: _demanding(random, plain=False))
plain_demanding_pods = pool(600, lambda random: _demanding(random, plain=True))


def named(pod: Pod, number: int, node_name: str = "", *, nominated: str = "") -> Pod:
    """The pod with a name, and a start time that no other pod has."""
    clock = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, name=f"p{number}", uid=f"u{number}"),
        spec=msgspec.structs.replace(pod.spec, node_name=node_name),
        status=msgspec.structs.replace(pod.status, start_time=clock, nominated_node_name=nominated),
    )


# Other objects


def _other_object(random: Random) -> ApiObject:
    space, wanted = random.choice(NAMESPACES), random.choice([{"app": "web"}, {"tier": "1"}, {}])
    match random.randrange(7):
        case 0 | 1:
            name = random.choice([*NAMESPACES, "third"])
            return make_namespace(name, **random.choice([{}, {"team": "red"}, {"team": "blue"}]))
        case 2:
            return make_service(random.choice(["s1", "s2"]), wanted, namespace=space)
        case 3:
            return make_replica_set("rs", _selector(random), namespace=space)
        case 4:
            spec = make_replica_set("ss", _selector(random)).spec
            return StatefulSet(metadata=ObjectMeta(name="ss", namespace=space), spec=spec)
        case 5:
            return ReplicationController(
                metadata=ObjectMeta(name="rc", namespace=space),
                spec=ReplicationControllerSpec(selector=wanted),
            )
        case _:
            return make_budget(
                random.choice(["b1", "b2"]),
                _selector(random),
                random.randint(-1, 2),
                namespace=space,
                disrupted=_some(random, ("p1", "p2"), 2) if _rarely(random) else (),
            )


other_objects = pool(200, _other_object)
"""Namespaces, services, owners and budgets; few names, so that they replace each other."""
