"""What is proposed is enough, is needed, and can be applied to the manifest as it was written."""

from typing import Any

import pytest

from explain.asked_fixes import changes, fixes_for, obj, of_kind
from explain.fixed_objects import applied
from framework.building import make_cycle, make_profile, make_state
from moorage.explain.fixes import smallest_fixes
from moorage.explain.fixes.changes import remove, shifts
from moorage.model.decode import decode_object
from moorage.model.defaulting import NO_CLASSES, default_pod
from moorage.model.meta import Json
from moorage.model.node import HOSTNAME_LABEL
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from plugins.volumes.storage_objects import (
    DRIVER,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    uses,
    volume,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(app: str) -> Json:
    return {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(**sides: list[str]) -> Json:
    """`podAffinity=["x"]`: near pods with app=x."""
    return {
        "affinity": {side: {REQUIRED: [term(app) for app in apps]} for side, apps in sides.items()}
    }


def gated(**members: Any) -> Pod:
    spec = {"schedulingGates": [{"name": "example.com/hold"}]}
    return make_pod(spec=spec, **members)


@pytest.mark.parametrize("priority", [10, 0], ids=["that could preempt", "that would have to rise"])
def test_a_gated_pod_gains_nothing_from_others_who_leave(priority: int) -> None:
    guest = make_pod("guest", node_name="n0", cpu="4")

    fixes = fixes_for(gated(cpu="3", priority=priority), [make_node("n0", cpu="4")], [guest])

    gate = "remove the scheduling gate example.com/hold"
    assert changes(fixes)
    assert all(change.startswith(gate) for change in changes(fixes))


def two_volumes() -> tuple[Pod, list[Any]]:
    volumes = [
        {"name": name, **source} for name, source in zip("ab", uses("c0", "c1"), strict=True)
    ]
    storage: list[Any] = [storage_class(provisioner=DRIVER)]
    for name in ("c0", "c1"):
        storage.append(claim(name, bound_to=f"pv-{name}", phase="Bound"))
        storage.append(volume(f"pv-{name}", csi={"driver": DRIVER, "volumeHandle": name}))
    return make_pod(spec={"volumes": volumes}), storage


def test_a_node_like_another_attaches_no_more_volumes() -> None:
    pod, storage = two_volumes()

    assert not of_kind(
        fixes_for(pod, [make_node("n0")], others=[*storage, csi_node("n0", 1)]), "addNode"
    )

    guests = [make_pod(f"g{i}", node_name="n0") for i in range(2)]
    full = make_node("n0", pods=2)
    (fix,) = of_kind(fixes_for(pod, [full], guests, [*storage, csi_node("n0", 2)]), "addNode")
    created = [edit.create for edit in fix.edits]
    assert [one and one["kind"] for one in created] == ["CSINode", "Node"]


def test_where_a_driver_must_be_there_a_new_node_is_like_one_that_has_it() -> None:
    pod, storage = two_volumes()
    storage += [csi_driver(preventPodSchedulingIfMissing=True), csi_node("with", 5)]
    nodes = [make_node("without", pods=1), make_node("with", pods=1)]
    fixes = fixes_for(pod, nodes, [make_pod("guest", node_name="with")], storage)
    assert [fix.change for fix in of_kind(fixes, "addNode")] == ["add a node like with (1 node)"]
    assert "do without" in " ".join(changes(fixes))


def test_a_class_whose_pods_may_not_preempt_is_not_proposed() -> None:
    guest = make_pod("guest", node_name="n0", cpu="4", priority=5)
    never = obj(
        "PriorityClass", "scheduling.k8s.io/v1", "meek", value=1000, preemptionPolicy="Never"
    )
    late = obj("PriorityClass", "scheduling.k8s.io/v1", "bold", value=2000)

    def proposed(*classes: Any) -> str:
        fixes = fixes_for(make_pod(cpu="3"), [make_node("n0", cpu="4")], [guest], classes)
        (fix,) = of_kind(fixes, "raisePriority")
        return fix.change

    assert "the PriorityClass bold (2000)" in proposed(never, late)
    assert "a new PriorityClass above-5 (6)" in proposed(never)


def test_what_helps_alone_is_not_proposed_together_with_something_else() -> None:
    hermit = make_pod(
        "hermit",
        node_name="n0",
        labels={"app": "x"},
        spec=affinity(podAntiAffinity=["web"]),
    )
    pod = make_pod(labels={"app": "web"}, spec=affinity(podAntiAffinity=["x"]))

    told = changes(fixes_for(pod, [make_node("n0")], [hermit]))

    assert told[0].startswith("move default/hermit from n0")
    assert not [change for change in told if ", and " in change]


def test_of_two_kinds_of_terms_only_those_in_the_way_are_dropped() -> None:
    friends = make_pod("friend", node_name="n0", labels={"app": "x"})
    foe = make_pod("foe", node_name="n0", labels={"app": "y"})
    spec = affinity(podAffinity=["x", "x"], podAntiAffinity=["y"])
    tainted = make_node("n0", taints=["a:NoSchedule"], cpu="1")

    told = changes(fixes_for(make_pod(cpu="4", spec=spec), [tainted], [friends, foe]))

    assert told
    assert not [change for change in told if "required pod affinity" in change]


def test_the_one_pod_that_the_pod_minds_is_named() -> None:
    foe = make_pod("foe", node_name="n0", labels={"app": "x"})
    pod = make_pod(spec=affinity(podAntiAffinity=["x"]))

    (fix,) = of_kind(fixes_for(pod, [make_node("n0")], [foe]), "movePod")
    assert fix.change == (
        "move default/foe from n0, which the pod's anti-affinity is against (1 node)"
    )

    sibling = make_pod(labels={"app": "x"}, spec=affinity(podAntiAffinity=["x"]))
    assert not of_kind(fixes_for(sibling, [make_node("n0")], [foe]), "movePod")


@pytest.mark.parametrize(("operator", "bound", "new"), [("Gt", "8", "3"), ("Lt", "1", "3")])
def test_a_bound_moves_as_little_as_will_do(operator: str, bound: str, new: str) -> None:
    size = {"Gt": ("2", "4"), "Lt": ("2", "4")}[operator]
    expression = {"key": "size", "operator": operator, "values": [bound]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pod = make_pod(spec={"affinity": {"nodeAffinity": {REQUIRED: required}}})
    nodes = [make_node(f"n{value}", labels={"size": value}) for value in (*size, "none")]

    (fix, *_) = of_kind(fixes_for(pod, nodes), "relaxConstraint")

    assert fix.change == (
        f"change the bound of the node affinity requirement size {operator} [{bound}] to {new} "
        "(1 node)"
    )


def test_a_request_is_lowered_where_a_nominated_pod_is_in_the_way() -> None:
    nodes = [make_node("n0", cpu="4")]
    state = make_state(nodes)
    cycle = make_cycle(state)
    cycle.nominated.add(make_pod("first", cpu="3", priority=100), "n0")

    fixes = smallest_fixes(cycle, make_profile(state), make_pod(cpu="2"))

    assert "lower the cpu request of container main from 2 to 1 (1 node)" in changes(fixes)


def test_the_last_port_can_be_used() -> None:
    def with_port(name: str, node: str = "") -> Pod:
        ports = [{"containerPort": 65534, "hostPort": 65534}]
        return make_pod(name, node_name=node, spec={"containers": [{"name": "c", "ports": ports}]})

    told = changes(fixes_for(with_port("new"), [make_node("n0")], [with_port("old", "n0")]))

    assert "such as 65535" in told[0]


@pytest.mark.parametrize(
    ("resources", "name"),
    [
        ({"limits": {"cpu": "8"}}, "cpu"),
        ({"limits": {"cpu": "8", "memory": "1Gi"}, "requests": {"memory": "1Gi"}}, "cpu"),
        ({"limits": {"example.com/gpu": "4"}}, "example.com/gpu"),
    ],
    ids=["limits alone", "a request beside", "extended"],
)
def test_requests_that_follow_from_limits_can_be_lowered_in_the_manifest(
    resources: Json, name: str
) -> None:
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    }
    node = make_node("n0", cpu="2", memory="4Gi", allocatable={"example.com/gpu": "2"})

    def read(document: Json) -> Pod:
        pod = decode_object(document, "pod")
        assert isinstance(pod, Pod)
        return default_pod(pod, NO_CLASSES)

    (fix, *_) = of_kind(fixes_for(read(manifest), [node]), "lowerRequest")
    (changed,) = applied(fix, [manifest])

    pod = read(changed)
    assert pod.requests.incoming[name] == {"cpu": 2000}.get(name, 2)
    assert not fixes_for(pod, [node])


def test_a_list_that_loses_an_element_shifts_those_after_it() -> None:
    first = (remove("spec", "tolerations", 0),)
    assert shifts(first, (remove("spec", "tolerations", 1),))
    assert not shifts(first, (remove("spec", "tolerations"),))
    assert not shifts(
        (remove("spec", "nodeSelector", "a"),), (remove("spec", "nodeSelector", "b"),)
    )


def test_a_claim_that_two_volumes_share_is_created_once() -> None:
    volumes = [{"name": name, **source} for name in ("a", "b") for source in uses("shared")]
    pod = make_pod(spec={"volumes": volumes})
    made = storage_class("late", provisioner=DRIVER)

    (fix, *_) = of_kind(fixes_for(pod, [make_node("n0")], others=[made]), "createObject")
    assert [edit.name for edit in fix.edits] == ["default/shared"]

    by_hand = storage_class()
    wanted = claim("shared")
    (fix, *_) = of_kind(fixes_for(pod, [make_node("n0")], others=[by_hand, wanted]), "createObject")
    assert [edit.name for edit in fix.edits] == [
        "default-shared-on-n0",
        "default-shared-on-n0-2",
    ], "upstream looks for a volume for each mention of a claim"
