"""NodeVolumeLimits: what is kept of nodes' volumes equals counting them anew, whatever changes."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moorage.cluster import listers as listers_module
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.status import Reason
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Pod
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.testing import make_node
from plugins.volumes.judging import make
from plugins.volumes.storage_objects import (
    DRIVER,
    SLOW,
    attachment,
    claim,
    csi_node,
    pod_with,
    storage_class,
    uses,
    volume,
)
from properties.harness import effort

NAMES = st.sampled_from(("a", "b", "c", "d"))
CLAIMS = st.sampled_from(("c0", "c1", "c2", "c3"))
VOLUMES = st.sampled_from(("v0", "v1", "v2"))
HANDLES = st.sampled_from(("h0", "h1", "h2"))
DRIVERS = st.sampled_from((DRIVER, "ebs.csi.aws.com"))
ATTACHMENTS = st.sampled_from(("at0", "at1", "at2"))
INLINE: tuple[Json, ...] = (
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"emptyDir": {}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},  # its claim is not there, or not its own
    {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}},  # cannot be counted
)
ASKED = (
    pod_with(*uses("c0"), name="one"),
    pod_with(*uses("c1", "c2", "c3"), name="three"),
    pod_with(INLINE[0], *uses("c3"), name="inline"),
)


class StorageUnderChange(RuleBasedStateMachine):
    """A small cluster in which everything that counting looks at changes, and one plugin."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.kept: NodeVolumeLimits = make(NodeVolumeLimits, self.state)
        self.guests: list[Pod] = []
        self.made = 0
        for name in ("a", "b", "c"):
            self.add_node(name, 2, DRIVER)
        self.put(storage_class(provisioner=DRIVER))
        for i in range(3):
            self.put(claim(f"c{i}", bound_to=f"v{i}"))
            self.put_volume(f"v{i}", f"h{i}", DRIVER)
        # At their limits from the start: few events are enough to make a difference.
        self.put(claim("c3"))
        self.put(attachment("at0", "v1", "c"))
        for node, used in (("a", ["c0", "c1"]), ("b", ["c2", "c3"]), ("c", ["c3"])):
            self.add_pod(node, used, [])

    def put(self, obj: ApiObject) -> None:
        """An object came or changed."""
        self.state.listers.of(type(obj)).put(obj)

    @rule(
        node=NAMES,
        claims=st.lists(CLAIMS, max_size=2),
        inline=st.lists(st.sampled_from(INLINE), max_size=1),
    )
    def add_pod(self, node: str, claims: list[str], inline: list[Json]) -> None:
        self.made += 1
        pod = pod_with(*uses(*claims), *inline, name=f"guest-{self.made}", node=node)
        self.guests.append(pod)
        self.state.add_pod(pod)

    @rule(index=st.integers(0, 50))
    def remove_pod(self, index: int) -> None:
        if self.guests:
            self.state.remove_pod(self.guests.pop(index % len(self.guests)))

    @rule(name=NAMES, limit=st.integers(0, 4), driver=DRIVERS)
    def add_node(self, name: str, limit: int, driver: str) -> None:
        if name not in self.state.nodes.row_of:
            self.state.add_node(make_node(name))
        self.put(csi_node(name, limit, driver=driver))

    @rule(name=NAMES)
    def remove_node(self, name: str) -> None:
        if name in self.state.nodes.row_of:
            self.state.remove_node(name)

    @rule(name=CLAIMS, bound_to=st.one_of(st.just(""), VOLUMES))
    def put_claim(self, name: str, bound_to: str) -> None:
        self.put(claim(name, bound_to=bound_to))

    @rule(name=CLAIMS)
    def remove_claim(self, name: str) -> None:
        self.state.listers.of(PersistentVolumeClaim).remove(claim(name))

    @rule(index=st.integers(0, 50), own=st.booleans())
    def put_claim_of_ephemeral_volume(self, index: int, own: bool) -> None:
        if not self.guests:
            return
        guest = self.guests[index % len(self.guests)]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": guest.name, "controller": True}
        metadata: Json = {"ownerReferences": [{**owner, "uid": guest.uid}]} if own else {}
        for place in range(len(guest.spec.volumes)):
            self.put(claim(f"{guest.name}-v{place}", metadata=metadata))

    @rule(name=VOLUMES, handle=HANDLES, driver=DRIVERS)
    def put_volume(self, name: str, handle: str, driver: str) -> None:
        self.put(volume(name, csi={"driver": driver, "volumeHandle": handle}))

    @rule(name=VOLUMES)
    def remove_volume(self, name: str) -> None:
        self.state.listers.of(PersistentVolume).remove(volume(name))

    @rule(driver=DRIVERS, gone=st.booleans())
    def change_class(self, driver: str, gone: bool) -> None:
        classes = self.state.listers.of(StorageClass)
        if gone:
            classes.remove(storage_class(SLOW))
        else:
            classes.put(storage_class(provisioner=driver))

    @rule(name=ATTACHMENTS, of=VOLUMES, node=NAMES, gone=st.booleans())
    def change_attachment(self, name: str, of: str, node: str, gone: bool) -> None:
        attached = attachment(name, of, node)
        known = self.state.listers.of(type(attached))
        if gone:
            known.remove(attached)
        else:
            known.put(attached)

    @rule()
    def change_more_than_is_remembered(self) -> None:
        """Then nothing kept can be told from what changed."""
        for _ in range(listers_module._LONGEST_LOG + 1):
            self.put(claim_c3)
            self.put(attachment_of_nobody)

    @invariant()
    def every_view_gets_the_answer_of_fresh_counting(self) -> None:
        nodes = NodeView(self.state)
        for view in (nodes, nodes.take(np.arange(0, len(nodes), 2)), *self.other_views(nodes)):
            for pod in ASKED:
                fresh: NodeVolumeLimits = make(NodeVolumeLimits, self.state)
                assert told(self.kept, pod, view) == told(fresh, pod, view)

    def other_views(self, nodes: NodeView) -> list[NodeView]:
        """Views without some pods, and with another."""
        placed = [
            (pod, row)
            for pod in self.guests
            if (row := nodes.row_of(pod.spec.node_name)) is not None
        ]
        if not placed:
            return []
        pod, row = placed[0]
        removed = {row: (pod,)}
        more = pod_with(*uses("c1", "c3"), name="nominated")
        return [
            nodes.changed({}, removed),
            nodes.what_if({row: (more,)}, removed),
            nodes.what_if({}, removed),
        ]


claim_c3 = claim("c3")
attachment_of_nobody = attachment("at9", "v9", "nowhere")


def told(plugin: NodeVolumeLimits, pod: Pod, nodes: NodeView) -> list[list[Reason]]:
    """The reasons for which each place is refused."""
    verdicts: Any = plugin.filter(pod, nodes, None)
    return [verdicts.reasons_of(place) for place in range(len(nodes))]


TestKeptVolumeCountsEqualFreshOnesAfterAnyEvents = StorageUnderChange.TestCase
TestKeptVolumeCountsEqualFreshOnesAfterAnyEvents.settings = effort(20, 20)
