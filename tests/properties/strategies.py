"""Small vocabularies, so that pods and nodes meet, collide and refuse each other often."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from moorage.model.affinity import Affinity, PodAffinity, PodAffinityTerm
from moorage.model.labels import LabelSelector
from moorage.model.meta import ApiObject, ObjectMeta, OwnerReference
from moorage.model.node import ContainerImage, Node, NodeSpec, NodeStatus
from moorage.model.node_selector import NodeAffinity, NodeSelectorTerm
from moorage.model.pod import (
    Container,
    ContainerPort,
    ContainerRestartRule,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from moorage.model.quantity import Quantity
from moorage.model.taints import Taint, Toleration
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
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


def some(options: Mapping[str, Any] | tuple[Any, ...], most: int) -> SearchStrategy[list[Any]]:
    """A few distinct options."""
    values = list(options)
    return st.lists(st.sampled_from(values), max_size=most, unique_by=values.index)


def rarely(strategy: SearchStrategy[Any], default: Any) -> SearchStrategy[Any]:
    """Mostly the default."""
    return st.one_of(st.just(default), st.just(default), strategy)


# Nodes


@st.composite
def node_labels(draw: DrawFn, name: str) -> dict[str, str]:
    labels = {}
    if draw(st.integers(0, 5)):
        labels[HOSTNAME] = name
    zone = draw(st.sampled_from([None, "a", "a", "b", "c", ""]))
    if zone is not None:
        labels[ZONE] = zone
    disk = draw(st.sampled_from([None, "ssd", "hdd", "5", "12", "-1"]))
    if disk is not None:
        labels["disk"] = disk
    region = draw(rarely(st.sampled_from(["east", "west"]), None))
    if region is not None:
        labels["failure-domain.beta.kubernetes.io/region"] = region
    return labels


def amounts(choices: Mapping[str, list[Quantity | None]]) -> SearchStrategy[dict[str, Quantity]]:
    """A resource list; a choice of None leaves the resource out."""
    return st.fixed_dictionaries(
        {name: st.sampled_from(values) for name, values in choices.items()}
    ).map(lambda chosen: {name: value for name, value in chosen.items() if value is not None})


def allocatables() -> SearchStrategy[dict[str, Quantity]]:
    return amounts(
        {
            "cpu": ["2", "1500m", 4],
            "memory": ["2Gi", "3000M"],
            "pods": [2, 4, "10"],
            "ephemeral-storage": [None, "1Gi", "10Gi"],
            "example.com/gpu": [None, 1, "3", 0],
            "hugepages-2Mi": [None, "4Mi"],
        }
    )


def image_lists(sizes: bool = False) -> SearchStrategy[tuple[ContainerImage, ...]]:
    """Images; with `sizes` nodes may disagree on how large one is."""

    def image(name: str) -> SearchStrategy[ContainerImage]:
        size = st.sampled_from([1 << 20, 500 << 20]) if sizes else st.just(IMAGES[name])
        return st.builds(ContainerImage, names=st.just((name, f"{name}-alias")), size_bytes=size)

    chosen = some(IMAGES, 3)
    return chosen.flatmap(lambda names: st.tuples(*[image(name) for name in names]))


@st.composite
def nodes(draw: DrawFn, name: str, *, sizes: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=draw(node_labels(name))),
        spec=NodeSpec(
            unschedulable=draw(rarely(st.just(True), False)),
            taints=tuple(draw(rarely(some(TAINTS, 2), ()))),
        ),
        status=NodeStatus(
            allocatable=draw(allocatables()),
            images=draw(image_lists(sizes)),
            declared_features=tuple(draw(some(FEATURES, 2))),
        ),
    )


# Selectors


def label_selectors() -> SearchStrategy[LabelSelector]:
    return st.sampled_from(
        [
            selector({"app": "web"}),
            selector({"app": "db"}),
            selector({"app": "web", "tier": "1"}),
            selector(None, ("app", "In", ["web", "db"])),
            selector(None, ("tier", "NotIn", ["1"])),
            selector(None, ("tier", "Exists", [])),
            selector(None, ("app", "DoesNotExist", [])),
            selector(),
        ]
    )


def maybe_selectors() -> SearchStrategy[LabelSelector | None]:
    return st.one_of(label_selectors(), label_selectors(), st.none())


def node_terms() -> SearchStrategy[NodeSelectorTerm]:
    return st.sampled_from(
        [
            node_term((ZONE, "In", ["a", "b"])),
            node_term((ZONE, "NotIn", ["a"])),
            node_term((ZONE, "Exists", []), ("disk", "DoesNotExist", [])),
            node_term(("disk", "Gt", ["5"])),
            node_term(("disk", "Lt", ["5"])),
            node_term(("disk", "Gt", ["five"])),
            node_term((HOSTNAME, "In", ["n0", "n1", "n2"])),
            node_term(names=("NotIn", ["n1"])),
            node_term(("disk", "Exists", []), names=("In", ["n0"])),
            node_term(names=("In", ["n2"])),
            node_term(names=("In", ["n3", "n4"])),
            node_term(("disk", "Near", ["ssd"])),
            node_term(),
        ]
    )


def parsed_node_terms() -> SearchStrategy[NodeSelectorTerm]:
    """Terms that upstream's parser takes; wishes must parse."""
    return st.sampled_from(
        [
            node_term((ZONE, "In", ["a", "b"])),
            node_term(("disk", "Gt", ["5"])),
            node_term(("disk", "Exists", []), (ZONE, "NotIn", ["c"])),
            node_term(names=("In", ["n0"])),
            node_term(),
        ]
    )


def node_affinities() -> SearchStrategy[NodeAffinity]:
    wishes = st.tuples(st.sampled_from([0, 1, 10, 50]), parsed_node_terms())
    return st.builds(
        node_affinity,
        st.one_of(st.none(), st.lists(node_terms(), max_size=2)),
        st.lists(wishes, max_size=2),
    )


# Pods


def affinity_terms() -> SearchStrategy[PodAffinityTerm]:
    namespace_selectors = st.one_of(
        st.none(),
        st.none(),
        st.sampled_from(
            [
                selector(),
                selector({"team": "red"}),
                selector(None, ("team", "DoesNotExist", [])),
                selector(None, ("team", "NotIn", ["red"])),
            ]
        ),
    )
    return st.builds(
        lambda key, labels, names, found: pod_term(
            key, labels, namespaces=names, namespace_selector=found
        ),
        st.sampled_from(TOPOLOGY_KEYS),
        maybe_selectors(),
        rarely(some(NAMESPACES, 2), ()),
        namespace_selectors,
    )


def pod_affinities() -> SearchStrategy[PodAffinity]:
    wishes = st.tuples(st.sampled_from([1, 7, 100]), affinity_terms())
    return st.builds(
        pod_terms, st.lists(affinity_terms(), max_size=2), st.lists(wishes, max_size=2)
    )


def affinities() -> SearchStrategy[Affinity]:
    return st.builds(
        Affinity,
        node_affinity=rarely(node_affinities(), None),
        pod_affinity=rarely(pod_affinities(), None),
        pod_anti_affinity=rarely(pod_affinities(), None),
    )


@st.composite
def spread_constraints(draw: DrawFn) -> TopologySpreadConstraint:
    hard = draw(st.booleans())
    return TopologySpreadConstraint(
        max_skew=draw(st.integers(1, 2)),
        topology_key=draw(st.sampled_from(TOPOLOGY_KEYS)),
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
        label_selector=draw(maybe_selectors()),
        min_domains=draw(rarely(st.integers(1, 4), None)) if hard else None,
        node_affinity_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
        node_taints_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
        match_label_keys=tuple(draw(rarely(some(("app", "tier"), 2), ()))),
    )


def requests() -> SearchStrategy[dict[str, Quantity]]:
    return amounts(
        {
            "cpu": [None, "500m", "1", "1800m", "5", 0],
            "memory": [None, "300Mi", "1Gi", "8Gi"],
            "ephemeral-storage": [None, None, None, "600Mi", "2Gi"],
            "example.com/gpu": [None, None, None, 1, 2, 0],
            "hugepages-2Mi": [None, None, None, "2Mi", "4Mi"],
            "kubernetes.io/odd": [None, None, None, None, None, 1],
        }
    )


@st.composite
def containers(draw: DrawFn, name: str, *, init: bool = False) -> Container:
    ports: list[ContainerPort] = draw(rarely(some(PORTS, 2), []))
    return Container(
        name=name,
        image=draw(st.sampled_from(["", "web:v1", "db", "reg.io:5000/tool:v2", "db:latest-alias"])),
        resources=ResourceRequirements(requests=draw(requests())),
        ports=tuple(ports),
        restart_policy="Always" if init and draw(st.booleans()) else None,
        restart_policy_rules=(
            (ContainerRestartRule(action="RestartAllContainers"),)
            if draw(rarely(st.booleans(), False))
            else ()
        ),
    )


@st.composite
def pod_labels(draw: DrawFn) -> dict[str, str]:
    labels = {}
    app = draw(st.sampled_from([None, "web", "web", "db"]))
    tier = draw(st.sampled_from([None, None, "1", "2"]))
    if app is not None:
        labels["app"] = app
    if tier is not None:
        labels["tier"] = tier
    return labels


def owners() -> SearchStrategy[OwnerReference | None]:
    return rarely(
        st.sampled_from(
            [
                owned_by("rs"),
                owned_by("ss", "StatefulSet"),
                owned_by("rc", "ReplicationController", "v1"),
                owned_by("job", "Job", "batch/v1"),
            ]
        ),
        None,
    )


def _resized(container: Container) -> SearchStrategy[ContainerStatus]:
    return requests().map(
        lambda actual: ContainerStatus(
            name=container.name, resources=ResourceRequirements(requests=actual)
        )
    )


@st.composite
def pods(draw: DrawFn, *, plain: bool = False, incoming: bool = False) -> Pod:
    """A pod without a name; `plain` leaves out all that looks at other pods."""
    main = [draw(containers("main"))]
    if draw(rarely(st.booleans(), False)):
        main.append(draw(containers("second")))
    init = [draw(containers("init", init=True))] if draw(rarely(st.booleans(), False)) else []
    statuses: tuple[ContainerStatus, ...] = ()
    if not incoming and draw(rarely(st.booleans(), False)):
        statuses = (draw(_resized(main[0])),)
    affinity = draw(rarely(affinities(), None))
    if plain and affinity is not None:
        affinity = Affinity(node_affinity=affinity.node_affinity)
    return Pod(
        metadata=ObjectMeta(
            namespace=draw(st.sampled_from(NAMESPACES)),
            labels=draw(pod_labels()),
            owner_references=tuple(filter(None, [draw(owners())])),
            deletion_timestamp=(
                "2026-01-02T00:00:00Z" if draw(rarely(st.booleans(), False)) else None
            ),
        ),
        spec=PodSpec(
            containers=tuple(main),
            init_containers=tuple(init),
            overhead=draw(rarely(st.just({"cpu": "100m"}), {})),
            resources=draw(rarely(st.just(ResourceRequirements(requests={"cpu": "700m"})), None)),
            node_selector=draw(rarely(st.sampled_from([{"disk": "ssd"}, {ZONE: "a"}]), {})),
            affinity=affinity,
            tolerations=tuple(draw(rarely(some(TOLERATIONS, 2), ()))),
            topology_spread_constraints=(
                () if plain else tuple(draw(rarely(st.lists(spread_constraints(), max_size=2), ())))
            ),
            priority=draw(st.sampled_from([None, 0, 5, 10, -3])),
            host_network=(shared := draw(rarely(st.booleans(), False))),
            host_users=False if shared else None,
        ),
        status=PodStatus(container_statuses=statuses),
    )


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


def other_objects() -> SearchStrategy[ApiObject]:
    """Namespaces, services, owners and budgets; few names, so that they replace each other."""
    spaces = st.sampled_from(NAMESPACES)
    match_labels = st.sampled_from([{"app": "web"}, {"tier": "1"}, {}])
    return st.one_of(
        st.builds(
            lambda name, team: make_namespace(name, **({"team": team} if team else {})),
            st.sampled_from([*NAMESPACES, "third"]),
            st.sampled_from([None, "red", "blue"]),
        ),
        st.builds(
            lambda name, wanted, space: make_service(name, wanted, namespace=space),
            st.sampled_from(["s1", "s2"]),
            match_labels,
            spaces,
        ),
        st.builds(
            lambda wanted, space: make_replica_set("rs", wanted, namespace=space),
            maybe_selectors(),
            spaces,
        ),
        st.builds(
            lambda wanted, space: StatefulSet(
                metadata=ObjectMeta(name="ss", namespace=space),
                spec=make_replica_set("ss", wanted).spec,
            ),
            maybe_selectors(),
            spaces,
        ),
        st.builds(
            lambda wanted, space: ReplicationController(
                metadata=ObjectMeta(name="rc", namespace=space),
                spec=ReplicationControllerSpec(selector=wanted),
            ),
            match_labels,
            spaces,
        ),
        st.builds(
            lambda name, wanted, allowed, space, gone: make_budget(
                name, wanted, allowed, namespace=space, disrupted=gone
            ),
            st.sampled_from(["b1", "b2"]),
            maybe_selectors(),
            st.integers(-1, 2),
            spaces,
            rarely(some(("p1", "p2"), 2), ()),
        ),
    )
