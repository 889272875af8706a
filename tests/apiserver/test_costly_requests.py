"""A small request cannot keep the server busy: the time is that of the bytes that were sent.

Processor time is measured, not the clock on the wall, so that a busy machine changes nothing.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from apiserver.serving import APPLY, JSON_PATCH, PODS, STRATEGIC, Client, pod
from moorage.apiserver.errors import MAX_OBJECT_BYTES, ApiStatusError
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.selection import parse_labels
from moorage.apiserver.strategic_merge import strategic_merge
from moorage.apiserver.updates import check_update

YAML = "application/yaml"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
SECONDS = 4.0
MANY = 20_000


def processor_time(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def laughs(levels: int, first: str, repeated: str) -> bytes:
    """Each line has the one before ten times over."""
    lines = [f"a0: &a0 {first}"]
    for level in range(1, levels):
        before = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {repeated.replace('ITEMS', before)}")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(laughs(9, "[x]", "[ITEMS]"), id="aliases"),
        pytest.param(laughs(9, "{x: y, z: y}", "{<<: [ITEMS]}"), id="merge keys"),
        pytest.param(laughs(5, "x" * 10_000, "[ITEMS]"), id="a long text"),
    ],
)
@pytest.mark.parametrize(("method", "content_type"), [("POST", YAML), ("PATCH", APPLY)])
def test_yaml_that_grows_by_its_aliases_is_refused(
    method: str, content_type: str, body: bytes, api: Client
) -> None:
    path = CONFIGMAPS if method == "POST" else f"{CONFIGMAPS}/a?fieldManager=a"
    answers = []
    took = processor_time(lambda: answers.append(api.request(method, path, body, content_type)))
    assert answers[0].code == 400
    assert "yaml: document contains excessive aliasing" in answers[0].message
    assert took < SECONDS


def test_yaml_beyond_the_limit_once_written_out_is_too_large(api: Client) -> None:
    body = b"a: &a " + b"x" * 100_000 + b"\nb: [" + b", ".join([b"*a"] * 100) + b"]"
    answer = api.request("POST", CONFIGMAPS, body, YAML)
    assert (answer.code, answer.message) == (413, "Request entity too large: limit is 3145728")


def test_aliases_of_ordinary_yaml_are_read_and_not_shared(api: Client) -> None:
    body = (
        b"metadata: {name: a}\nspec:\n  containers:\n"
        b"  - {name: m, image: i, resources: &r {limits: {cpu: 1}}}\n"
        b"  - {name: k, image: i, resources: *r}\n"
    )
    answer = api.request("POST", PODS, body, YAML)
    assert answer.code == 201, answer.body
    assert [c["resources"]["requests"] for c in answer.body["spec"]["containers"]] == [
        {"cpu": 1}
    ] * 2


def test_copies_of_a_json_patch_are_limited(api: Client) -> None:
    api.post(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"x": "y" * 1000}})
    patch = [{"op": "copy", "from": "/data", "path": f"/data{n}"} for n in range(2)]
    patch += [{"op": "copy", "from": "", "path": f"/more{n}"} for n in range(40)]
    answers = []
    took = processor_time(lambda: answers.append(api.patch(f"{CONFIGMAPS}/a", patch, JSON_PATCH)))
    assert answers[0].code == 422
    assert "the accumulated size increase of copy is" in answers[0].message
    assert answers[0].message.endswith("exceeding the limit 3145728")
    assert took < SECONDS


def test_operations_of_a_json_patch_are_limited(api: Client) -> None:
    api.post(CONFIGMAPS, {"metadata": {"name": "a"}})
    patch = [{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001
    answer = api.patch(f"{CONFIGMAPS}/a", patch, JSON_PATCH)
    assert (answer.code, answer.message) == (
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
        "got 10001",
    )
    assert api.patch(f"{CONFIGMAPS}/a", patch[:-1], JSON_PATCH).code == 200


def test_insertions_into_a_long_list_are_limited(api: Client) -> None:
    api.post(REVISIONS, {"metadata": {"name": "a"}, "data": {"list": [1] * 1_000_000}})
    patch = [{"op": "add", "path": "/data/list/0", "value": 1}] * 9_000
    answer = api.patch(f"{REVISIONS}/a", patch, JSON_PATCH)
    assert answer.code == 413
    assert "too often in a long list" in answer.message


def test_a_json_patch_cannot_nest_deeper_than_a_body(api: Client) -> None:
    api.post(REVISIONS, {"metadata": {"name": "a"}, "data": {"x": {}}})
    add, move, back = (
        {"op": "add", "path": "/data/y", "value": {}},
        {"op": "move", "from": "/data/x", "path": "/data/y/x"},
        {"op": "move", "from": "/data/y", "path": "/data/x"},
    )
    for levels in (150, 300, 3000):
        answer = api.patch(f"{REVISIONS}/a", [add, move, back] * levels, JSON_PATCH)
        assert answer.code == (200 if levels == 150 else 400), answer.body
    assert answer.message == "the object is nested more than 200 levels deep"


def test_patches_do_not_add_up_to_an_object_without_end(api: Client) -> None:
    api.post(CONFIGMAPS, {"metadata": {"name": "a"}})
    text = "x" * (MAX_OBJECT_BYTES // 3)
    codes = [api.patch(f"{CONFIGMAPS}/a", {"data": {f"k{n}": text}}).code for n in range(4)]
    assert codes == [200, 200, 413, 413]
    assert api.patch(f"{CONFIGMAPS}/a", {"data": {"k0": None}}).code == 200


@pytest.mark.parametrize(
    ("document", "patch"),
    [
        pytest.param(
            {"finalizers": [f"a{n}" for n in range(MANY)]},
            {"finalizers": [f"b{n}" for n in range(MANY)]},
            id="a set",
        ),
        pytest.param(
            {"finalizers": [f"a{n}" for n in range(MANY)]},
            {"$deleteFromPrimitiveList/finalizers": [f"b{n}" for n in range(MANY)]},
            id="removals",
        ),
        pytest.param(
            {f"a{n}": n for n in range(MANY)},
            {"$retainKeys": [f"b{n}" for n in range(MANY)]},
            id="keys to retain",
        ),
        pytest.param(
            {"containers": [{"name": f"a{n}"} for n in range(MANY)]},
            {
                "containers": [{"name": f"b{n}"} for n in range(MANY)],
                "$setElementOrder/containers": [{"name": f"b{n}"} for n in range(MANY)],
            },
            id="a list by keys",
        ),
    ],
)
def test_strategic_merges_of_long_lists_take_linear_time(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert processor_time(lambda: strategic_merge(document, patch)) < SECONDS


def test_many_tolerations_are_compared_in_linear_time() -> None:
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(MANY)]
    old = {"metadata": {"name": "a"}, "spec": {"tolerations": tolerations}}
    new: dict[str, Any] = {
        "metadata": {"name": "a"},
        "spec": {"tolerations": [{**t, "tolerationSeconds": 5} for t in reversed(tolerations)]},
    }
    pods = BY_PLURAL["", "v1", "pods"]
    assert processor_time(lambda: check_update(pods, new, old)) < SECONDS
    new["spec"]["tolerations"].pop()
    with pytest.raises(ApiStatusError, match="existing toleration"):
        check_update(pods, new, old)


@pytest.mark.parametrize("text", ["a" + " " * 30_000 + "x", "!" + " " * 30_000, "a in " * 9000])
def test_a_selector_is_read_in_linear_time(text: str) -> None:
    def read() -> None:
        with pytest.raises(ApiStatusError):
            parse_labels(text)

    assert processor_time(read) < SECONDS


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists"}] * MANY}, id="tolerations"
        ),
        pytest.param(
            {"containers": [{"name": f"c{n}", "image": "i"} for n in range(MANY)]}, id="containers"
        ),
        pytest.param({"volumes": [{"name": f"v{n}"} for n in range(MANY)]}, id="volumes"),
        pytest.param({"schedulingGates": [{"name": f"g{n}"} for n in range(MANY)]}, id="gates"),
    ],
)
def test_a_pod_with_long_lists_is_stored_or_refused_in_linear_time(
    spec: dict[str, Any], api: Client
) -> None:
    def write() -> None:
        api.post(PODS, pod("a", **spec))
        api.patch(f"{PODS}/a", {"spec": spec}, STRATEGIC)

    assert processor_time(write) < 3 * SECONDS


def test_owners_in_a_long_chain_and_in_a_circle_can_be_deleted(api: Client) -> None:
    uid = ""
    for number in range(600):
        metadata: dict[str, Any] = {"name": f"c{number}"}
        if uid:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid}
            metadata["ownerReferences"] = [owner]
        uid = api.post(CONFIGMAPS, {"metadata": metadata}).body["metadata"]["uid"]
    last = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c599", "uid": uid}
    api.patch(f"{CONFIGMAPS}/c0", {"metadata": {"ownerReferences": [last]}})
    assert api.delete(f"{CONFIGMAPS}/c0").code == 200
    assert api.get(CONFIGMAPS).names == []


def test_the_limits_leave_room_for_the_largest_object_a_body_can_hold(api: Client) -> None:
    body = {"metadata": {"name": "a"}, "data": {"x": "y" * (3 * 2**20 - 1000)}}
    assert len(json.dumps(body)) < 3 * 2**20
    assert api.post(CONFIGMAPS, body).code == 201
    assert api.delete(f"{CONFIGMAPS}/a").code == 200
