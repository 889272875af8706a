"""The four kinds of patch."""

from typing import Any

import pytest

from apiserver.serving import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Client
from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.patching import json_patch
from moorage.apiserver.strategic_merge import strategic_merge
from moorage.model.meta import merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": None}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
    ],
)
def test_merge_patches(document: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(document, patch) == expected


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        ({"a": [1, 2]}, {"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": {"b/c": 1}}, {"op": "remove", "path": "/a/b~1c"}, {"a": {}}),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": 2}, {"a": 2}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
    ],
)
def test_json_patches(document: Any, operation: Any, expected: Any) -> None:
    assert json_patch(document, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "add", "path": "/missing/deep", "value": 1},
        {"op": "wish", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_json_patches_that_do_not_apply(operation: Any) -> None:
    with pytest.raises(ApiStatusError):
        json_patch({"a": 1}, [operation])


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param(
            {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "c"}]},
            {"containers": [{"name": "a", "image": "2"}, {"name": "c"}, {"name": "b"}]},
            id="lists are maps by key",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}, {"name": "d"}]},
            {"containers": [{"name": "b"}, {"name": "c"}]},
            {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]},
            id="what was in front stays there",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
            {
                "containers": [],
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            },
            {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]},
            id="what the client did not see keeps its place",
        ),
        pytest.param(
            {"conditions": [{"type": "A", "status": "True", "reason": "x"}]},
            {
                "conditions": [{"type": "A", "status": "False"}],
                "$setElementOrder/conditions": [{"type": "A"}],
            },
            {"conditions": [{"type": "A", "status": "False", "reason": "x"}]},
            id="conditions merge by type",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b"}]},
            id="an item is deleted by directive",
        ),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "z"}, {"$patch": "replace"}]},
            {"containers": [{"name": "z"}]},
            id="a list is replaced by directive",
        ),
        pytest.param(
            {"taints": [{"key": "a"}]},
            {"taints": [{"key": "b"}]},
            {"taints": [{"key": "b"}]},
            id="lists without a key are replaced",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["c", "b"]},
            id="sets of values",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {
                "containers": [{"name": "c"}],
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            },
            {"containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
            id="the order is the client's",
        ),
        pytest.param(
            {"volume": {"name": "v", "emptyDir": {}}},
            {"volume": {"$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}},
            {"volume": {"name": "v", "hostPath": {"path": "/"}}},
            id="retained keys",
        ),
        pytest.param(
            {"labels": {"a": "1", "b": "2"}},
            {"labels": {"$patch": "replace", "c": "3"}},
            {"labels": {"c": "3"}},
            id="a map is replaced by directive",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80}, {"containerPort": 81}]},
            {"ports": [{"containerPort": 80, "name": "http"}]},
            {"ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]},
            id="ports by container port",
        ),
    ],
)
def test_strategic_merge_patches(document: Any, patch: Any, expected: Any) -> None:
    assert strategic_merge(document, patch) == expected


def test_each_patch_type_works_over_http(api: Client) -> None:
    api.create_pod("a")
    path = f"{PODS}/a"
    api.patch(path, {"metadata": {"labels": {"m": "1"}}}, MERGE)
    api.patch(path, {"metadata": {"labels": {"s": "1"}}}, STRATEGIC)
    operation = {"op": "add", "path": "/metadata/labels/j", "value": "1"}
    api.patch(path, [operation], JSON_PATCH)
    text = b"metadata:\n  labels:\n    a: '1'\n"
    api.request("PATCH", f"{path}?fieldManager=me&force=true", text, APPLY)
    assert api.get(path).body["metadata"]["labels"] == dict.fromkeys("msja", "1")


def test_the_schedulers_status_patch(api: Client) -> None:
    uid = api.create_pod("a")["metadata"]["uid"]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"$setElementOrder/conditions": [{"type": "PodScheduled"}], "conditions": [condition]}
    body = {"metadata": {"uid": uid}, "status": status}
    patched = api.patch(f"{PODS}/a/status", body, STRATEGIC)
    assert patched.body["status"]["conditions"] == [condition]
    assert patched.body["status"]["phase"] == "Pending"


def test_a_patch_may_insist_on_a_version_or_uid(api: Client) -> None:
    api.create_pod("a")
    assert api.patch(f"{PODS}/a", {"metadata": {"resourceVersion": "1"}}).code == 409
    other = api.patch(f"{PODS}/a/status", {"metadata": {"uid": "another"}}, STRATEGIC)
    assert (other.code, other.reason) == (422, "Invalid")
    assert 'metadata.uid: Invalid value: "another": field is immutable' in other.message
    assert api.patch(f"{PODS}/missing", {}).code == 404


def test_apply_creates_what_is_missing(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps/c?fieldManager=me"
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\n"
    assert api.request("PATCH", path, body, APPLY).code == 201
    assert api.request("PATCH", path, body.replace(b"{a:", b"{b:"), APPLY).body["data"] == {
        "b": "1",
    }


def test_a_patch_that_is_no_patch(api: Client) -> None:
    api.create_pod("a")
    assert api.patch(f"{PODS}/a", [1], MERGE).code == 400
    assert api.patch(f"{PODS}/a", {"a": 1}, JSON_PATCH).code == 400
    assert api.patch(f"{PODS}/a", [1], STRATEGIC).code == 400
