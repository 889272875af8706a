"""From JSON to objects: kinds, namespaces, nulls, and messages that name the field."""

import json
from typing import Any

import pytest

from moorage.errors import DecodeError
from moorage.model.decode import KINDS, UnknownKind, decode_json, decode_object
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.storage import CSINode


def pod(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, **fields}


def message(data: Any) -> str:
    with pytest.raises(DecodeError) as caught:
        decode_object(data, "here")
    return str(caught.value)


def test_mappings_and_bytes_give_the_same_object() -> None:
    data = pod(spec={"containers": [{"name": "a", "image": "i"}], "priority": 5})
    assert decode_object(data, "here") == decode_object(json.dumps(data).encode(), "here")
    assert decode_object(data, "here") == decode_json(Pod, json.dumps(data).encode())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_is_decoded_into_the_type_of_its_name(kind: str) -> None:
    known = KINDS[kind]
    for version in known.versions:
        api_version = f"{known.group}/{version}" if known.group else version
        data = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
        obj = decode_object(data, "here")
        assert type(obj) is known.struct
        assert obj.namespace == ("default" if known.namespaced else "")


def test_a_given_namespace_is_kept_and_that_of_a_cluster_wide_object_dropped() -> None:
    given = {"name": "x", "namespace": "team"}
    decoded = decode_object(pod(metadata=given), "here")
    assert isinstance(decoded, Pod)
    assert decoded.key == "team/x"
    node = decode_object({"apiVersion": "v1", "kind": "Node", "metadata": given}, "here")
    assert isinstance(node, Node)
    assert node.key == "x"


@pytest.mark.parametrize(
    ("kind", "api_version"),
    [
        ("Deployment", "apps/v1"),
        ("Service", "serving.knative.dev/v1"),
        ("Pod", "metrics.k8s.io/v1beta1"),
    ],
)
def test_kinds_of_no_interest_are_told_by_name(kind: str, api_version: str) -> None:
    data = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    assert decode_object(data, "here") == UnknownKind(kind, api_version)


def test_a_version_that_is_not_served_is_refused() -> None:
    data = {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "x"},
    }
    expected = "here: PodDisruptionBudget default/x: apiVersion policy/v1beta1 is not policy/v1"
    assert message(data) == expected


def test_members_of_a_list_get_their_kind_back() -> None:
    decoded = decode_json(Node, b'{"metadata": {"name": "n"}}')
    assert (decoded.kind, decoded.api_version) == ("Node", "v1")


@pytest.mark.parametrize("as_bytes", [False, True], ids=["mapping", "bytes"])
def test_null_means_absent(as_bytes: bool) -> None:
    data = pod(
        metadata={"name": "web", "creationTimestamp": None, "labels": None},
        spec={"containers": None, "affinity": None, "nodeName": None, "priority": None},
        status=None,
    )
    decoded = decode_object(json.dumps(data).encode() if as_bytes else data, "here")
    assert decoded == decode_object(pod(), "here")


def test_null_lists_that_go_writes_are_read_on_the_fast_path_too() -> None:
    data = {"metadata": {"name": "n"}, "spec": {"drivers": None}}
    assert decode_json(CSINode, json.dumps(data).encode()).spec.drivers == ()


def test_a_label_without_a_value_has_the_empty_one() -> None:
    data = pod(
        metadata={"name": "web", "labels": {"node-role.kubernetes.io/worker": None}},
        spec={"nodeSelector": {"node-role.kubernetes.io/worker": None}},
    )
    decoded = decode_object(data, "here")
    assert isinstance(decoded, Pod)
    assert decoded.labels == decoded.spec.node_selector == {"node-role.kubernetes.io/worker": ""}


def test_keys_that_yaml_took_for_numbers_are_strings_again() -> None:
    decoded = decode_object(
        pod(metadata={"name": "web", "labels": {2: "a", True: "b", 1.5: "c"}}), "here"
    )
    assert isinstance(decoded, Pod)
    assert decoded.labels == {"2": "a", "true": "b", "1.5": "c"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(
            pod(spec={"containers": [{"ports": [{"hostPort": "80"}]}]}),
            "Pod default/web: spec.containers[0].ports[0].hostPort must be an integer, "
            'not the string "80"',
            id="string for an integer",
        ),
        pytest.param(
            pod(metadata={"name": "web", "labels": {"app": "x", "version": 1.0}}),
            "Pod default/web: metadata.labels[version] must be a string, "
            "not the number 1.0; put it in quotes",
            id="number for a label",
        ),
        pytest.param(
            pod(metadata={"name": "web", "labels": {"enabled": True}}),
            "Pod default/web: metadata.labels[enabled] must be a string, "
            "not true; put it in quotes",
            id="boolean for a label",
        ),
        pytest.param(
            pod(spec={"containers": {"name": "a"}}),
            "Pod default/web: spec.containers must be a list, not a mapping",
            id="mapping for a list",
        ),
        pytest.param(
            pod(spec={"containers": [{"resources": {"requests": {"cpu": ["1"]}}}]}),
            "Pod default/web: spec.containers[0].resources.requests[cpu] must be "
            "a quantity such as 100m or 2Gi, not a list",
            id="list for a quantity",
        ),
        pytest.param(
            pod(spec={"hostNetwork": "yes"}),
            'Pod default/web: spec.hostNetwork must be true or false, not the string "yes"',
            id="string for a boolean",
        ),
        pytest.param(
            pod(spec={"containers": [None]}),
            "Pod default/web: spec.containers[0] must be a mapping, not nothing",
            id="null in a list",
        ),
        pytest.param(
            pod(spec="x" * 50),
            f'Pod default/web: spec must be a mapping, not the string "{"x" * 40}..."',
            id="long string",
        ),
        pytest.param(
            pod(metadata={"generateName": "web-", "labels": {"a": 1}}),
            "Pod default/web-: metadata.labels[a] must be a string, "
            "not the number 1; put it in quotes",
            id="object without a name",
        ),
        pytest.param(
            pod(metadata=[]), "Pod: metadata must be a mapping, not a list", id="no metadata"
        ),
        pytest.param(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": "s"},
                "spec": {"devices": [{"capacity": {"a": {"value": 1}, "b": {"value": []}}}]},
            },
            "ResourceSlice s: spec.devices[0].capacity[b].value must be "
            "a quantity such as 100m or 2Gi, not a list",
            id="inside a map of mappings",
        ),
        pytest.param({"kind": "Pod"}, "apiVersion is missing; an object needs it", id="version"),
        pytest.param({"apiVersion": "v1"}, "kind is missing; an object needs it", id="kind"),
        pytest.param(
            {"apiVersion": "v1", "kind": 3}, "kind must be a string, not the number 3", id="3"
        ),
        pytest.param(
            b"[1]",
            "an object is a mapping with apiVersion and kind, not a list",
            id="JSON that is no object",
        ),
    ],
)
def test_a_wrong_type_is_explained_in_one_sentence(data: Any, text: str) -> None:
    assert message(data) == f"here: {text}"


def test_broken_json_is_refused() -> None:
    assert message(b'{"kind": ').startswith("here: this is not JSON: ")
    with pytest.raises(DecodeError, match=r"^here: this is not JSON"):
        decode_json(Pod, b"{", "here")


def test_the_fast_path_explains_itself_as_well() -> None:
    data = json.dumps(pod(spec={"priority": "high"})).encode()
    with pytest.raises(DecodeError) as caught:
        decode_json(Pod, data, "watch")
    expected = 'watch: Pod default/web: spec.priority must be an integer, not the string "high"'
    assert str(caught.value) == expected


def test_fields_of_no_interest_are_skipped() -> None:
    assert decode_object(pod(spec={"dnsPolicy": "Default"}), "here") == decode_object(pod(), "here")
