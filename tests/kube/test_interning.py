"""Equal parts of objects are kept once, and no object says anything else for it."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube import interning
from moorage.kube.decoding import ObjectReader
from moorage.kube.interning import InternedParts
from moorage.kube.resources import RESOURCES
from moorage.model.decode import decode_json
from moorage.model.node import Node
from moorage.model.pod import Pod

Json = dict[str, Any]


def _pod(name: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "labels": {"app": "web"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}],
        },
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}], **spec},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def _read(reader: ObjectReader, body: Json) -> Any:
    return reader.read(msgspec.Raw(msgspec.json.encode(body)))


def test_replicas_have_their_parts_in_common() -> None:
    reader = ObjectReader(RESOURCES["Pod"])
    first, second = (_read(reader, _pod(name)) for name in ("a", "b"))
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.status.conditions is second.status.conditions
    assert first.metadata.namespace is second.metadata.namespace
    assert first.metadata is not second.metadata


def test_nodes_have_their_images_in_common() -> None:
    reader = ObjectReader(RESOURCES["Node"])
    images = [{"names": ["i:1"], "sizeBytes": 5}, {"names": ["j:1"], "sizeBytes": 6}]
    first = _read(reader, {"metadata": {"name": "a"}, "status": {"images": images}})
    second = _read(reader, {"metadata": {"name": "b"}, "status": {"images": images[1:]}})
    assert first.status.images[1] is second.status.images[0]


def test_a_bound_pod_has_the_very_name_of_its_node() -> None:
    node = _read(ObjectReader(RESOURCES["Node"]), {"metadata": {"name": "node-17.example"}})
    bound = _pod("a", nodeName="node-17.example")
    pod = _read(ObjectReader(RESOURCES["Pod"]), bound)
    assert pod.spec.node_name is node.metadata.name


def test_the_memory_of_parts_is_bounded_by_their_bytes() -> None:
    parts = InternedParts()
    for number in range(200):
        labels = {"n": str(number), "long": "x" * 20_000}
        body = _pod("a") | {"metadata": {"name": "a", "labels": labels}}
        parts.share(decode_json(Pod, msgspec.json.encode(body)))
    assert len(parts) * 20_000 <= 2 * interning.PART_BYTES


def test_parts_that_are_met_again_and_again_are_shared_amid_many_others() -> None:
    parts = InternedParts()
    first = _decoded({"app": "web"})
    parts.share(first)
    for number in range(5_000):
        parts.share(_decoded({"n": str(number), "long": "x" * 500}))
        again = _decoded({"app": "web"})
        parts.share(again)
        assert again.metadata.labels is first.metadata.labels


def _decoded(labels: dict[str, str]) -> Pod:
    body = {"metadata": {"name": "a", "labels": labels}, "spec": {}}
    return decode_json(Pod, msgspec.json.encode(body))


_labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "x", "y"]), max_size=2)
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("cd"), "image": st.sampled_from("ij")},
        optional={"resources": st.just({"requests": {"cpu": "1"}})},
    ),
    max_size=2,
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": _containers,
        "initContainers": _containers,
        "nodeSelector": _labels,
        "nodeName": st.sampled_from(["", "n1", "n2"]),
        "overhead": st.just({"cpu": "1"}),
        "tolerations": st.lists(st.just({"operator": "Exists"}), max_size=1),
    },
)
_pods = st.builds(
    lambda labels, annotations, spec: {
        "metadata": {"name": "p", "labels": labels, "annotations": annotations},
        "spec": spec,
    },
    _labels,
    _labels,
    _specs,
)


@given(st.lists(_pods, max_size=12))
def test_shared_pods_equal_pods_of_their_own(bodies: list[Json]) -> None:
    parts = InternedParts()
    for body in bodies:
        data = msgspec.json.encode(body)
        pod = decode_json(Pod, data)
        parts.share(pod)
        assert pod == decode_json(Pod, data)


@given(
    st.lists(st.dictionaries(st.sampled_from(["cpu", "pods"]), st.sampled_from("12")), max_size=9)
)
def test_shared_nodes_equal_nodes_of_their_own(amounts: list[dict[str, str]]) -> None:
    parts = InternedParts()
    for amount in amounts:
        images = [{"names": [name], "sizeBytes": 1} for name in amount]
        status = {"capacity": amount, "allocatable": amount, "images": images}
        data = msgspec.json.encode({"metadata": {"name": "n"}, "status": status})
        node = decode_json(Node, data)
        parts.share(node)
        assert node == decode_json(Node, data)
