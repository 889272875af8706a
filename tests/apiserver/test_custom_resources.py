"""CustomResourceDefinitions, and the objects of the kinds that they define."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.serving import Client, served
from moorage.apiserver import ApiServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "berths.yaml"
DEFINITION: dict[str, Any] = next(yaml.safe_load_all(EXAMPLE.read_text()))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BERTHS = "/apis/harbour.example/v1/namespaces/default/berths"
MERGE = "application/merge-patch+json"


def berth(name: str, length: int = 100) -> dict[str, Any]:
    return {
        "apiVersion": "harbour.example/v1",
        "kind": "Berth",
        "metadata": {"name": name},
        "spec": {"node": "n1", "length": length},
    }


@pytest.fixture
def harbour(api: Client) -> Client:
    assert api.post(DEFINITIONS, copy.deepcopy(DEFINITION)).code == 201
    return api


def test_a_definition_is_established_at_once(harbour: Client) -> None:
    stored = harbour.get(f"{DEFINITIONS}/berths.harbour.example").body
    conditions = {one["type"]: one["status"] for one in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    listed = harbour.get("/apis/harbour.example/v1").body["resources"]
    assert [(one["name"], one["kind"]) for one in listed] == [
        ("berths", "Berth"),
        ("berths/status", "Berth"),
    ]
    groups = [group["name"] for group in harbour.get("/apis").body["groups"]]
    assert "harbour.example" in groups
    assert "apis/harbour.example/v1" in harbour.get("/openapi/v3").body["paths"]


def test_objects_are_made_read_changed_and_deleted(harbour: Client) -> None:
    made = harbour.post(BERTHS, berth("north"))
    assert (made.code, made.body["metadata"]["generation"]) == (201, 1)
    assert harbour.post(BERTHS, berth("north")).code == 409
    changed = harbour.patch(f"{BERTHS}/north", {"spec": {"length": 120}}, MERGE).body
    assert (changed["spec"], changed["metadata"]["generation"]) == (
        {"node": "n1", "length": 120},
        2,
    )
    # The status is a subresource: one write does not touch what is the other's.
    harbour.patch(f"{BERTHS}/north/status", {"status": {"ship": "a"}, "spec": {}}, MERGE)
    harbour.patch(f"{BERTHS}/north", {"status": {"ship": "b"}}, MERGE)
    (listed,) = harbour.get("/apis/harbour.example/v1/berths").body["items"]
    assert (listed["status"], listed["spec"]["length"]) == ({"ship": "a"}, 120)
    assert harbour.delete(f"{BERTHS}/north").code == 200
    assert harbour.get(f"{BERTHS}/north").code == 404


def test_every_version_shows_the_same_object(api: Client) -> None:
    definition = copy.deepcopy(DEFINITION)
    older = {**definition["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    definition["spec"]["versions"].append(older)
    api.post(DEFINITIONS, definition)
    old = BERTHS.replace("/v1/", "/v1beta1/")
    made = api.post(old, {**berth("north"), "apiVersion": "harbour.example/v1beta1"})
    assert made.body["apiVersion"] == "harbour.example/v1beta1"
    assert api.get(f"{BERTHS}/north").body["apiVersion"] == "harbour.example/v1"
    assert api.get(f"{BERTHS}/north").body["spec"] == made.body["spec"]


def test_a_kind_goes_with_its_definition_and_its_objects_with_it(harbour: Client) -> None:
    harbour.post(BERTHS, berth("north"))
    assert harbour.delete(f"{DEFINITIONS}/berths.harbour.example").code == 200
    assert harbour.get(BERTHS).code == 404
    assert harbour.get("/apis/harbour.example/v1").code == 404
    harbour.post(DEFINITIONS, copy.deepcopy(DEFINITION))
    assert harbour.get(BERTHS).body["items"] == []


def test_objects_go_with_their_namespace(harbour: Client) -> None:
    harbour.post("/api/v1/namespaces", {"metadata": {"name": "quay"}})
    harbour.post(BERTHS.replace("default", "quay"), berth("north"))
    harbour.delete("/api/v1/namespaces/quay")
    assert harbour.get("/apis/harbour.example/v1/berths").body["items"] == []


def test_kinds_and_objects_survive_a_restart(tmp_path: Path) -> None:
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        api.post(DEFINITIONS, copy.deepcopy(DEFINITION))
        api.post(BERTHS, berth("north"))
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        assert api.get(f"{BERTHS}/north").body["spec"]["length"] == 100


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": ""}, "spec.group"),
        ({"names": {"plural": "berths"}}, "spec.names.kind"),
        ({"scope": "Planet"}, "spec.scope"),
        ({"group": "other.example"}, "metadata.name"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [{"name": "v1", "served": True, "storage": False}]}, "spec.versions"),
    ],
)
def test_a_definition_that_means_nothing_is_refused(
    api: Client, change: dict[str, Any], field: str
) -> None:
    answer = api.post(DEFINITIONS, {**DEFINITION, "spec": {**DEFINITION["spec"], **change}})
    assert answer.code == 422
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}


SIZES = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "grade": {"type": "string", "enum": ["a", "b"]},
        "on": {"type": "boolean", "default": True},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "replicas": {"type": "integer"},
    },
}
PHASE = {"type": "object", "properties": {"phase": {"type": "string"}}}
THINGS: dict[str, Any] = {
    "metadata": {"name": "things.x.io"},
    "spec": {
        "group": "x.io",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": SIZES, "status": PHASE},
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".s.n",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.spec.any.list[?(@.type=="Ready")].status',
                    },
                    {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }
        ],
    },
}
THING = "/apis/x.io/v1/things"


def thing(**spec: Any) -> dict[str, Any]:
    name = {"name": "t"}
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": name, "spec": {"size": 1, **spec}}


@pytest.fixture
def things(api: Client) -> Client:
    assert api.post(DEFINITIONS, copy.deepcopy(THINGS)).code == 201
    return api


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"size": "x"}, 'size: Invalid value: "string": spec.size in body must be of type integer'),
        ({"size": 11}, "size: Invalid value: 11: spec.size in body should be less than or equal"),
        ({"name": "x"}, 'name: Invalid value: "x": spec.name in body should be at least 2 chars'),
        (
            {"name": "X1"},
            """name: Invalid value: "X1": spec.name in body should match '^[a-z]+$'""",
        ),
        ({"grade": "c"}, 'grade: Unsupported value: "c": supported values: "a", "b"'),
        ({"on": 1}, 'on: Invalid value: "integer": spec.on in body must be of type boolean'),
        ({"tags": ["a", 5]}, 'tags[1]: Invalid value: "integer": spec.tags[1] in body must be of'),
        ({"tags": ["a", "b", "c"]}, "tags: Too many: 3: must have at most 2 items"),
        ({"labels": {"a": 1}}, 'labels.a: Invalid value: "integer": spec.labels.a in body must be'),
        (
            {"port": True},
            'port: Invalid value: "boolean": spec.port in body must be of type integer,',
        ),
        ({"size": None}, "size: Required value"),
    ],
)
def test_objects_are_checked_by_their_schema(
    things: Client, spec: dict[str, Any], complaint: str
) -> None:
    answer = things.post(THING, thing(**spec))
    assert answer.code == 422
    assert answer.message.startswith(f'Thing.x.io "t" is invalid: spec.{complaint}')
    assert things.get(THING).body["items"] == []


def test_unknown_fields_are_pruned_and_defaults_filled_in(things: Client) -> None:
    body = thing(any={"kept": [1]}, lost={"a": 1})
    refused = things.post(f"{THING}?fieldValidation=Strict", body)
    assert refused.message.endswith('strict decoding error: unknown field "spec.lost"')
    made = things.post(THING, body)
    assert made.warnings == ['299 - "unknown field \\"spec.lost\\""']
    assert made.body["spec"] == {"size": 1, "any": {"kept": [1]}, "on": True}
    changed = things.patch(f"{THING}/t", {"spec": {"size": "x"}}, MERGE)
    assert (changed.code, changed.fields) == (422, ["spec.size"])
    changed = things.patch(f"{THING}/t/status", {"status": {"phase": 5}}, MERGE)
    assert (changed.code, changed.fields) == (422, ["status.phase"])


def test_columns_are_those_of_the_definition(things: Client) -> None:
    listed = [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]
    things.post(THING, thing(any={"list": listed}))
    table = things.get(THING, accept="application/json;as=Table;g=meta.k8s.io;v=v1").body
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Size", "Ready", "Since"]
    assert table["rows"][0]["cells"] == ["t", 1, "True", "0s"]


def test_a_custom_resource_is_scaled(things: Client) -> None:
    things.post(THING, thing(replicas=2))
    scale = things.get(f"{THING}/t/scale").body
    assert (scale["kind"], scale["spec"], scale["status"]["replicas"]) == (
        "Scale",
        {"replicas": 2},
        0,
    )
    assert things.patch(f"{THING}/t/scale", {"spec": {"replicas": 5}}, MERGE).code == 200
    assert things.get(f"{THING}/t").body["spec"]["replicas"] == 5
    refused = things.patch(f"{THING}/t/scale", {"spec": {"replicas": -1}}, MERGE)
    assert refused.fields == [".spec.replicas"]


def test_a_schema_is_part_of_openapi(things: Client) -> None:
    document = things.get("/openapi/v3/apis/x.io/v1").body
    schema = document["components"]["schemas"]["io.x.v1.Thing"]
    assert schema["properties"]["spec"]["properties"]["size"]["type"] == "integer"
    assert schema["properties"]["kind"] == {"type": "string"}
