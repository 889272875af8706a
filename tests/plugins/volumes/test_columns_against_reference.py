"""Volumes found for all nodes at once are those found node by node, whatever the objects."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from moorage.cluster.listers import Lister
from moorage.cluster.view import NodeView
from moorage.config.args import UtilizationShapePoint
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Pod
from moorage.model.quantity import parse_milli
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.plugins.volume_binding.assume_cache import VolumeCache
from moorage.plugins.volume_binding.claims import DelayedClaim, PodClaims
from moorage.plugins.volume_binding.scoring import Curve, score
from moorage.plugins.volume_binding.search import VolumeSearch
from moorage.testing import cluster, make_node
from plugins.volumes.judging import ask, make
from plugins.volumes.storage_objects import (
    DRIVER,
    HOSTNAME,
    SLOW,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    on_nodes,
    pod_with,
    storage_class,
    uses,
    volume,
)
from reference.resources import Shape
from reference.volumes import Storage, match_node, over_limit, score_storage

NAMES = ("a", "b", "c", "d")
DISKS = ("x", "x", "y", "z")
NODES = tuple(
    make_node(name, labels={"disk": disk}) for name, disk in zip(NAMES, DISKS, strict=True)
)
SIZES = ("1Gi", "2Gi", "3Gi")
CLASSES = (SLOW, "other")
MODES = (["ReadWriteOnce"], ["ReadOnlyMany"], ["ReadWriteOnce", "ReadOnlyMany"])
EBS = "ebs.csi.aws.com"

profile = settings(deadline=None, database=None, derandomize=True, max_examples=150)


@st.composite
def claims(draw: DrawFn, name: str) -> PersistentVolumeClaim:
    spec: Json = {"storageClassName": draw(st.sampled_from(CLASSES))}
    if draw(st.booleans()):
        spec["accessModes"] = draw(st.sampled_from(MODES))
    if draw(st.integers(0, 5)) == 0:
        spec["selector"] = {"matchLabels": {"team": "blue"}}
    if draw(st.integers(0, 5)) == 0:
        spec["volumeMode"] = "Block"
    return claim(name, draw(st.sampled_from((None, *SIZES))), **spec)


@st.composite
def affinities(draw: DrawFn) -> Json | None:
    """All nodes, one host, some hosts, a label, or two alternatives."""
    kind = draw(st.integers(0, 4))
    hosts = draw(st.lists(st.sampled_from((*NAMES, "unknown")), min_size=1, max_size=2))
    if kind == 0:
        return None
    if kind == 1:
        return on_nodes(hosts[0])
    if kind == 2:
        return on_nodes(*hosts)
    if kind == 3:
        return on_nodes(draw(st.sampled_from("xyz")), key="disk")
    term: Json = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["x"]}]}
    fields: Json = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    both: Json = {**term, **fields}
    other = on_nodes(hosts[0], key=HOSTNAME)["required"]["nodeSelectorTerms"][0]
    return {"required": {"nodeSelectorTerms": [both, other]}}


@st.composite
def volumes(draw: DrawFn, name: str, index: int, claim_names: Sequence[str]) -> PersistentVolume:
    spec: Json = {"storageClassName": draw(st.sampled_from(CLASSES))}
    affinity = draw(affinities())
    if affinity is not None:
        spec["nodeAffinity"] = affinity
    if draw(st.booleans()):
        spec["accessModes"] = draw(st.sampled_from(MODES))
    if draw(st.integers(0, 5)) == 0:
        spec["volumeMode"] = "Block"
    ref: Json | None = None
    if draw(st.integers(0, 3)) == 0:
        ref = {"namespace": "default", "name": draw(st.sampled_from((*claim_names, "foreign")))}
        if draw(st.booleans()):
            ref["uid"] = f"uid-{draw(st.sampled_from((ref['name'], 'somebody')))}"
    # Upstream lists volumes in no order, so equal sizes would have no right answer.
    size = f"{draw(st.integers(0, 3)) * 1024 + index}Mi"
    return volume(
        name,
        size,
        claim_ref=ref,
        labels=draw(st.sampled_from(({}, {"team": "blue"}))),
        phase=draw(st.sampled_from(("Available", "Available", "Available", "Bound"))),
        **spec,
    )


@profile
@given(st.data())
def test_static_binding_is_that_of_node_by_node_matching(data: st.DataObject) -> None:
    names = [f"c{i}" for i in range(data.draw(st.integers(1, 3)))]
    wanted = [data.draw(claims(name)) for name in names]
    count = data.draw(st.integers(0, 8))
    offered = [data.draw(volumes(f"v{i}", i, names)) for i in range(count)]
    state = cluster(NODES, [], offered)
    lister: Lister[PersistentVolume] = state.listers.of(PersistentVolume)
    delayed = tuple(DelayedClaim(one, storage_class(one.storage_class)) for one in wanted)
    search = VolumeSearch(
        PodClaims(delayed=delayed), NodeView(state), VolumeCache(lister), state.listers
    )
    for place, node in enumerate(NODES):
        expected = match_node(node, wanted, offered)
        found = search.bindings(place)
        assert [(b.claim.name, b.volume.name) for b in found] == [e for e in expected if e[1]]
        missing = any(volume_name is None for _, volume_name in expected)
        assert bool(search.verdicts.bits[place]) is missing
        assert len({b.volume.name for b in found}) == len(found), "a volume is used once"


SHAPES = (((0, 10), (100, 0)), ((0, 0), (40, 7), (60, 3), (100, 10)), ((50, 4),))
"""(utilisation in percent, score from 0 to 10) points; the first is the default."""


def curve(shape: Shape) -> Curve:
    return Curve([UtilizationShapePoint(utilization, score) for utilization, score in shape])


def bytes_of(milli: int | None) -> int:
    return -(-(milli or 0) // 1000)


@profile
@given(st.data())
def test_storage_is_scored_as_it_is_node_by_node(data: st.DataObject) -> None:
    names = [f"c{i}" for i in range(data.draw(st.integers(1, 3)))]
    wanted = [data.draw(claims(name)) for name in names]
    offered = [data.draw(volumes(f"v{i}", i, names)) for i in range(data.draw(st.integers(0, 6)))]
    rooms = [
        capacity(str(i), data.draw(st.sampled_from((*SIZES, "9Gi"))), disk)
        for i, disk in enumerate(data.draw(st.lists(st.sampled_from("xyz"), max_size=4)))
    ]
    driver = csi_driver(storageCapacity=data.draw(st.booleans()))
    nodes = [
        make_node(node.name, labels=dict(node.labels), zone=node.labels["disk"]) for node in NODES
    ]
    state = cluster(nodes, [], [*offered, *rooms, driver])
    delayed = tuple(
        DelayedClaim(one, storage_class(one.storage_class, provisioner=DRIVER)) for one in wanted
    )
    cache = VolumeCache(state.listers.of(PersistentVolume))
    search = VolumeSearch(PodClaims(delayed=delayed), NodeView(state), cache, state.listers)
    shape = data.draw(st.sampled_from(SHAPES))
    scores = score(search, len(NODES), curve(shape))
    for place in np.flatnonzero(~search.verdicts.rejected).tolist():
        existing = [
            (
                one.volume.spec.storage_class_name,
                bytes_of(one.claim.milli_request),
                bytes_of(one.volume.milli_capacity),
            )
            for one in search.bindings(place)
        ]
        on_demand = [
            (
                one.claim.storage_class,
                bytes_of(one.claim.milli_request),
                bytes_of(parse_milli(one.capacity.capacity or 0)),
            )
            for one in search.provisions(place)
            if one.capacity is not None
        ]
        assert scores[place] == score_storage(existing, on_demand, shape)


@profile
@given(st.data())
def test_part_of_the_nodes_get_the_same_volumes_as_all_of_them(data: st.DataObject) -> None:
    """Reserve looks at one node again; it must find what Filter found."""
    wanted = [data.draw(claims("c0")), data.draw(claims("c1"))]
    offered = [data.draw(volumes(f"v{i}", i, ["c0", "c1"])) for i in range(6)]
    state = cluster(NODES, [], offered)
    cache = VolumeCache(state.listers.of(PersistentVolume))
    delayed = tuple(DelayedClaim(one, storage_class(one.storage_class)) for one in wanted)
    nodes, asked = NodeView(state), PodClaims(delayed=delayed)
    whole = VolumeSearch(asked, nodes, cache, state.listers)
    for place in range(len(NODES)):
        alone = VolumeSearch(asked, nodes.take(np.array([place])), cache, state.listers)
        assert alone.bindings(0) == whole.bindings(place)
        assert alone.verdicts.bits[0] == whole.verdicts.bits[place]


def _stored(index: int) -> list[ApiObject]:
    """Claim c0, c2, ... is bound; the odd ones will be provisioned for."""
    name = f"c{index}"
    if index % 2:
        return [claim(name)]
    source = {"driver": DRIVER, "volumeHandle": f"h{index // 4}"}
    return [claim(name, bound_to=f"pv{index}"), volume(f"pv{index}", csi=source)]


@st.composite
def pods(draw: DrawFn, name: str, node: str = "") -> Pod:
    picked = draw(st.lists(st.integers(0, 9), max_size=3))
    disks = draw(st.lists(st.integers(0, 3), max_size=1))
    inline = [{"awsElasticBlockStore": {"volumeID": f"vol-{disk}"}} for disk in disks]
    return pod_with(*uses(*(f"c{i}" for i in picked)), *inline, name=name, node=node)


@profile
@given(st.data())
def test_a_node_is_full_exactly_when_counting_says_so(data: st.DataObject) -> None:
    """The upper bound that spares counting must never let a full node pass."""
    objects = [obj for index in range(8) for obj in _stored(index)]
    limits = [
        csi_node(
            name, data.draw(st.integers(0, 5)), driver=data.draw(st.sampled_from((DRIVER, EBS)))
        )
        for name in NAMES
    ]
    slow = storage_class(provisioner=DRIVER)
    guests = [
        data.draw(pods(f"g{i}", data.draw(st.sampled_from(NAMES))))
        for i in range(data.draw(st.integers(0, 8)))
    ]
    state = cluster(NODES, guests, [*objects, *limits, slow])
    plugin = make(NodeVolumeLimits, state)
    attached: list[VolumeAttachment] = []
    for step in range(3):
        if step == 1 and guests:
            state.remove_pod(guests.pop(0))
        if step == 2:
            index = 2 * data.draw(st.integers(0, 3))
            attached.append(attachment("va", f"pv{index}", data.draw(st.sampled_from(NAMES))))
            state.listers.of(VolumeAttachment).put(attached[0])
        claims_there = [obj for obj in objects if isinstance(obj, PersistentVolumeClaim)]
        volumes_there = [obj for obj in objects if isinstance(obj, PersistentVolume)]
        storage = Storage(claims_there, volumes_there, [slow], attached)
        picked = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=3))
        pod = pod_with(*uses(*(f"c{i}" for i in picked)))
        expected = {
            known.name
            for known in limits
            if over_limit(
                pod, [g for g in guests if g.spec.node_name == known.name], known, storage
            )
        }
        answer = ask(plugin, pod, state)
        assert isinstance(answer, dict)
        assert set(answer) == expected
