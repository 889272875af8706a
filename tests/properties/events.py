"""A state machine of cluster events; the tests add what must hold after each of them."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from moorage.model.meta import ApiObject
from moorage.model.node import ContainerImage, Node
from moorage.model.pod import ContainerPort, Pod
from properties import strategies as given
from properties.harness import Twin
from properties.strategies import NODE_NAMES, named
from reference.objects import make_pod

picks = st.integers(0, 2**16)
"""Stands for "one of those there are", whatever their number."""
places = st.sampled_from([*NODE_NAMES, "nowhere"])


class ClusterEvents(RuleBasedStateMachine):
    """Everything that can happen to a cluster, done to both of its forms."""

    def __init__(self) -> None:
        super().__init__()
        self.twin = Twin()
        self.serial = 0

    def number(self) -> int:
        """A number that no pod has."""
        self.serial += 1
        return self.serial

    # Nodes

    def has_nodes(self) -> bool:
        return bool(self.twin.naive.nodes)

    def pick_node(self, pick: int) -> Node:
        nodes = self.twin.naive.nodes
        return nodes[sorted(nodes)[pick % len(nodes)]]

    @rule(node=st.sampled_from(NODE_NAMES).flatmap(given.nodes))
    def put_a_node(self, node: Node) -> None:
        self.twin.put_node(node)

    @rule(nodes=st.tuples(*[given.nodes(name) for name in NODE_NAMES[:3]]))
    def put_three_nodes(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self.twin.put_node(node)

    @precondition(has_nodes)
    @rule(pick=picks, data=st.data())
    def change_labels(self, pick: int, data: Any) -> None:
        node = self.pick_node(pick)
        labels = data.draw(given.node_labels(node.name))
        meta = msgspec.structs.replace(node.metadata, labels=labels)
        self.twin.put_node(msgspec.structs.replace(node, metadata=meta))

    def change_spec(self, pick: int, **changes: Any) -> None:
        node = self.pick_node(pick)
        spec = msgspec.structs.replace(node.spec, **changes)
        self.twin.put_node(msgspec.structs.replace(node, spec=spec))

    def change_status(self, pick: int, **changes: Any) -> None:
        node = self.pick_node(pick)
        status = msgspec.structs.replace(node.status, **changes)
        self.twin.put_node(msgspec.structs.replace(node, status=status))

    @precondition(has_nodes)
    @rule(pick=picks, taints=given.taint_lists)
    def change_taints(self, pick: int, taints: list[Any]) -> None:
        self.change_spec(pick, taints=tuple(taints))

    @precondition(has_nodes)
    @rule(pick=picks)
    def cordon_or_uncordon(self, pick: int) -> None:
        self.change_spec(pick, unschedulable=not self.pick_node(pick).spec.unschedulable)

    @precondition(has_nodes)
    @rule(pick=picks, offered=given.allocatables)
    def change_allocatable(self, pick: int, offered: dict[str, Any]) -> None:
        self.change_status(pick, allocatable=offered)

    @precondition(has_nodes)
    @rule(pick=picks, images=given.image_lists)
    def change_images(self, pick: int, images: tuple[ContainerImage, ...]) -> None:
        self.change_status(pick, images=images)

    @precondition(has_nodes)
    @rule(pick=picks, features=given.feature_lists)
    def change_features(self, pick: int, features: list[str]) -> None:
        self.change_status(pick, declared_features=tuple(features))

    @precondition(has_nodes)
    @rule(pick=picks)
    def remove_a_node(self, pick: int) -> None:
        self.twin.remove_node(self.pick_node(pick).name)

    @precondition(has_nodes)
    @rule()
    def remove_the_node_of_the_last_row(self) -> None:
        self.twin.remove_node(self.twin.state.nodes.nodes[-1].name)

    @precondition(has_nodes)
    @rule()
    def remove_the_node_of_the_first_row(self) -> None:
        self.twin.remove_node(self.twin.state.nodes.nodes[0].name)

    @precondition(has_nodes)
    @rule(pick=picks, data=st.data())
    def replace_a_node_by_one_of_its_name(self, pick: int, data: Any) -> None:
        name = self.pick_node(pick).name
        self.twin.remove_node(name)
        self.twin.put_node(data.draw(given.nodes(name)))

    # Pods

    def has_pods(self) -> bool:
        return bool(self.twin.naive.placed)

    def has_assumed(self) -> bool:
        return bool(self.twin.naive.assumed)

    def has_confirmed(self) -> bool:
        return self.twin.naive.placed.keys() > self.twin.naive.assumed

    def pick_pod(self, pick: int, *, assumed: bool | None = None) -> tuple[Pod, str]:
        naive = self.twin.naive
        uids = [u for u in naive.placed if assumed is None or (u in naive.assumed) is assumed]
        return naive.placed[uids[pick % len(uids)]]

    @rule(pod=given.pods, where=places)
    def add_a_pod(self, pod: Pod, where: str) -> None:
        self.twin.add_pod(named(pod, self.number(), where))

    @precondition(has_nodes)
    @rule(bodies=st.lists(given.pods, min_size=1, max_size=3), pick=picks)
    def add_pods_to_a_node(self, bodies: list[Pod], pick: int) -> None:
        for place, pod in enumerate(bodies):
            self.twin.add_pod(named(pod, self.number(), self.pick_node(pick + place // 2).name))

    @precondition(has_nodes)
    @rule(
        body=st.one_of(given.pods, given.social_pods),
        picked=st.lists(picks, min_size=2, max_size=4),
        fewer=st.booleans(),
    )
    def add_replicas(self, body: Pod, picked: list[int], fewer: bool) -> None:
        replicas = [named(body, self.number(), self.pick_node(pick).name) for pick in picked]
        for pod in replicas:
            self.twin.add_pod(pod)
        if fewer:
            self.twin.remove_pod(replicas[0].uid)

    @precondition(has_pods)
    @rule(picked=st.lists(picks, min_size=1, max_size=3))
    def remove_pods(self, picked: list[int]) -> None:
        for pick in picked:
            if self.has_pods():
                self.twin.remove_pod(self.pick_pod(pick)[0].uid)

    @precondition(has_nodes)
    @rule(pick=picks, port=st.sampled_from(given.PORTS), times=st.integers(1, 3))
    def add_pods_that_share_a_port(self, pick: int, port: ContainerPort, times: int) -> None:
        for _ in range(times):
            pod = make_pod("shares", ports=[port, given.PORTS[-1]], priority=times)
            self.twin.add_pod(named(pod, self.number(), self.pick_node(pick).name))

    @rule(pod=given.pods, where=places)
    def assume_a_pod(self, pod: Pod, where: str) -> None:
        self.twin.assume(named(pod, self.number()), where)

    @precondition(has_assumed)
    @rule(pick=picks)
    def confirm_an_assumed_pod(self, pick: int) -> None:
        pod, where = self.pick_pod(pick, assumed=True)
        spec = msgspec.structs.replace(pod.spec, node_name=where)
        self.twin.add_pod(msgspec.structs.replace(pod, spec=spec))

    @precondition(has_assumed)
    @rule(pick=picks, where=places)
    def confirm_an_assumed_pod_elsewhere(self, pick: int, where: str) -> None:
        pod, _ = self.pick_pod(pick, assumed=True)
        spec = msgspec.structs.replace(pod.spec, node_name=where)
        self.twin.add_pod(msgspec.structs.replace(pod, spec=spec))

    @precondition(has_assumed)
    @rule(pick=picks)
    def forget_an_assumed_pod(self, pick: int) -> None:
        self.twin.forget(self.pick_pod(pick, assumed=True)[0].uid)

    @precondition(has_confirmed)
    @rule(pick=picks, body=given.pods)
    def update_a_pod(self, pick: int, body: Pod) -> None:
        pod, where = self.pick_pod(pick, assumed=False)
        self.twin.update_pod(named(body, int(pod.uid[1:]), where))

    @precondition(has_confirmed)
    @rule(pick=picks)
    def begin_to_delete_a_pod(self, pick: int) -> None:
        pod, _ = self.pick_pod(pick, assumed=False)
        meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-02T00:00:00Z")
        self.twin.update_pod(msgspec.structs.replace(pod, metadata=meta))

    # Other objects

    @rule(obj=given.other_objects)
    def put_an_object(self, obj: ApiObject) -> None:
        self.twin.put(obj)

    @precondition(lambda self: bool(self.twin.naive.objects))
    @rule(pick=picks)
    def delete_an_object(self, pick: int) -> None:
        objects = list(self.twin.naive.objects.values())
        self.twin.drop(objects[pick % len(objects)])

    @rule(pod=given.incoming_pods, where=places)
    def nominate_a_pod(self, pod: Pod, where: str) -> None:
        self.twin.nominate(named(pod, self.number(), nominated=where), where)

    @precondition(lambda self: bool(self.twin.naive.nominated))
    @rule(pick=picks)
    def take_a_nomination_back(self, pick: int) -> None:
        nominated = self.twin.naive.nominated
        uid = list(nominated)[pick % len(nominated)]
        pod, _ = nominated.pop(uid)
        self.twin.cycle.nominated.remove(pod)
