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
