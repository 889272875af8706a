"""Server-side apply: who owns which field, what conflicts, and what goes with its last owner."""

import json
from typing import Any

import pytest

from apiserver.serving import APPLY, MERGE, Answer, Client

CONFIGMAP = "/api/v1/namespaces/default/configmaps/c"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/d"


def configmap(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def applied(api: Client, who: str, body: dict[str, Any], force: bool = False) -> Answer:
    path = DEPLOYMENT if body["kind"] == "Deployment" else CONFIGMAP
    query = f"?fieldManager={who}{'&force=true' if force else ''}"
    return api.request("PATCH", path + query, json.dumps(body).encode(), APPLY)


def owners(answer: Answer) -> dict[str, Any]:
    entries = answer.body["metadata"]["managedFields"]
    return {entry["manager"]: entry["fieldsV1"] for entry in entries}


def test_fields_have_owners_and_go_with_the_last(api: Client) -> None:
    assert applied(api, "a", configmap(x="1", y="2")).code == 201
    both = applied(api, "b", configmap(x="1", z="3"))
    assert owners(both) == {
        "a": {"f:data": {"f:x": {}, "f:y": {}}},
        "b": {"f:data": {"f:x": {}, "f:z": {}}},
    }
    assert applied(api, "a", configmap(x="1")).body["data"] == {"x": "1", "z": "3"}
    assert applied(api, "a", configmap(w="4")).body["data"] == {"x": "1", "z": "3", "w": "4"}
    assert applied(api, "b", configmap(z="3")).body["data"] == {"z": "3", "w": "4"}


def test_conflicts_are_refused_unless_forced(api: Client) -> None:
    applied(api, "a", configmap(x="1", y="2"))
    refused = applied(api, "b", configmap(x="9"))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "a": .data.x'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.x"}
    ]
    two = applied(api, "b", configmap(x="9", y="9"))
    assert two.message == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .data.x\n- .data.y'
    )
    forced = applied(api, "b", configmap(x="9"), force=True)
    assert forced.body["data"] == {"x": "9", "y": "2"}
    assert owners(forced) == {"a": {"f:data": {"f:y": {}}}, "b": {"f:data": {"f:x": {}}}}


def test_an_update_takes_what_it_changes(api: Client) -> None:
    applied(api, "a", configmap(x="1", y="2"))
    path = f"{CONFIGMAP}?fieldManager=editor"
    assert set(owners(api.patch(path, {"data": {"x": "7"}}, MERGE))) == {"a", "editor"}
    refused = applied(api, "a", configmap(x="1", y="2"))
    assert 'conflict with "editor" using v1: .data.x' in refused.message


def test_what_was_never_applied_belongs_to_nobody_in_particular(api: Client) -> None:
    made = api.post(CONFIGMAP.rpartition("/")[0], configmap(x="1"))
    assert "managedFields" not in made.body["metadata"]
    refused = applied(api, "a", configmap(x="2"))
    assert 'conflict with "before-first-apply" using v1: .data.x' in refused.message
    assert applied(api, "a", configmap(x="1")).code == 200


def test_applying_the_same_again_changes_nothing(api: Client) -> None:
    applied(api, "a", configmap(x="1"))
    first = applied(api, "b", configmap(x="1", y="2"))
    applied(api, "a", configmap(x="1"))
    assert applied(api, "b", configmap(x="1", y="2")).version == first.version


def test_elements_of_lists_have_owners(api: Client) -> None:
    port = {"containerPort": 80}
    first = {"name": "c", "image": "i", "ports": [port]}
    applied(api, "a", deployment(first, {"name": "d", "image": "j"}, replicas=2))
    variable = {"name": "A", "value": "1"}
    applied(api, "b", deployment({"name": "c", "image": "i", "env": [variable]}))
    scale = f"{DEPLOYMENT}/scale?fieldManager=scaler"
    assert api.patch(scale, {"spec": {"replicas": 5}}, MERGE).code == 200
    refused = applied(api, "a", deployment({"name": "c", "image": "k"}, replicas=2))
    assert refused.message == (
        'Apply failed with 2 conflicts: conflicts with "b":\n'
        '- .spec.template.spec.containers[name="c"].image\n'
        'conflicts with "scaler" with subresource "scale" using apps/v1:\n- .spec.replicas'
    )
    after = applied(api, "a", deployment({"name": "c", "image": "i"})).body["spec"]
    (container,) = after["template"]["spec"]["containers"]
    assert "ports" not in container
    assert container["env"] == [variable]
    assert after["replicas"] == 5


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({**configmap(), "foo": 1}, ".foo: field not declared in schema"),
        (
            deployment({"name": "c", "imag": "i"}),
            '.spec.template.spec.containers[name="c"].imag: field not declared in schema',
        ),
    ],
)
def test_unknown_fields_are_refused(api: Client, body: dict[str, Any], why: str) -> None:
    answer = applied(api, "a", body)
    assert answer.code == 500
    assert answer.message.startswith("failed to create typed patch object (/")
    assert answer.message.endswith(why)


def test_an_applier_needs_a_name(api: Client) -> None:
    answer = api.request("PATCH", CONFIGMAP, json.dumps(configmap()).encode(), APPLY)
    assert (answer.code, answer.fields) == (422, ["fieldManager"])
    forced = api.patch(f"{CONFIGMAP}?force=true", {}, MERGE)
    assert (forced.code, forced.fields) == (422, ["force"])
