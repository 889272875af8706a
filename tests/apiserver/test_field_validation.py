"""Fields that are unknown, given twice or of a wrong type, as kube-apiserver answers to them.

tests/e2e/test_bad_input.py asks both.
"""

import json
from typing import Any

import pytest

from apiserver.serving import PODS, Client, pod

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def deployment(**spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"metadata": {"name": "web"}, "spec": spec}


def test_strict_refuses_and_names_every_unknown_field(api: Client) -> None:
    body = deployment(replica=3)
    body["spec"]["template"]["spec"]["containers"][0]["imag"] = "x"
    answer = api.post(f"{DEPLOYMENTS}?fieldValidation=Strict", body)
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'unknown field "spec.template.spec.containers[0].imag", unknown field "spec.replica"'
    )
    assert api.get(DEPLOYMENTS).body["items"] == []


@pytest.mark.parametrize("directive", ["", "Warn", "Ignore"])
def test_unknown_fields_are_not_stored(api: Client, directive: str) -> None:
    body = deployment(replica=3, replicas=2)
    answer = api.post(f"{DEPLOYMENTS}?fieldValidation={directive}", body)
    assert answer.code == 201
    assert answer.warnings == (
        [] if directive == "Ignore" else ['299 - "unknown field \\"spec.replica\\""']
    )
    stored = api.get(f"{DEPLOYMENTS}/web").body["spec"]
    assert (stored["replicas"], "replica" in stored) == (2, False)


def test_no_other_directive_is_known(api: Client) -> None:
    answer = api.post(f"{DEPLOYMENTS}?fieldValidation=Maybe", deployment())
    assert (answer.code, answer.fields) == (422, ["fieldValidation"])


def test_keys_given_twice_count_as_mistakes(api: Client) -> None:
    text = b'{"metadata":{"name":"a","labels":{"x":"1","x":"2"}},"data":{"k":"1"},"data":{"k":"2"}}'
    answer = api.request("POST", f"{CONFIGMAPS}?fieldValidation=Strict", text)
    assert answer.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'duplicate field "metadata.labels.x", duplicate field "data"'
    )
    assert len(api.request("POST", CONFIGMAPS, text).warnings) == 2


def test_keys_given_twice_in_yaml(api: Client) -> None:
    text = b"metadata:\n  name: a\ndata:\n  k: one\n  k: two\n"
    answer = api.request("POST", f"{CONFIGMAPS}?fieldValidation=Strict", text, "application/yaml")
    assert answer.message.endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 5: key "k" already set in map'
    )
    answer = api.request("POST", CONFIGMAPS, text, "application/yaml")
    assert answer.warnings == ['299 - "line 5: key \\"k\\" already set in map"']


@pytest.mark.parametrize("patch", [(MERGE, {"foo": 1}), (STRATEGIC, {"foo": 1})])
def test_patches_are_validated_too(api: Client, patch: tuple[str, Any]) -> None:
    api.post(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    kind, body = patch
    answer = api.patch(f"{CONFIGMAPS}/a?fieldValidation=Strict", body, kind)
    assert (answer.code, answer.fields) == (422, ["patch"])
    assert answer.message.endswith(': strict decoding error: unknown field "foo"')
    answer = api.patch(f"{CONFIGMAPS}/a", body, kind)
    assert (answer.code, len(answer.warnings)) == (200, 1)
    assert "foo" not in api.get(f"{CONFIGMAPS}/a").body


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            {"replicas": "3"},
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            {"replicas": 1.5},
            "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        ({"paused": "no"}, "string into Go struct field DeploymentSpec.spec.paused of type bool"),
        (
            {"template": {"spec": {"volumes": [{"hostPath": "/x"}]}}},
            "string into Go struct field Volume.spec.template.spec.volumes.VolumeSource.hostPath "
            "of type v1.HostPathVolumeSource",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": True}}},
            "bool into Go struct field "
            "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else json.dumps(value)[:40],
)
def test_wrong_types_are_refused_in_gos_words(api: Client, spec: Any, complaint: str) -> None:
    answer = api.post(DEPLOYMENTS, deployment(**spec))
    assert answer.code == 400
    assert answer.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: '
        f"json: cannot unmarshal {complaint}"
    )


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        ("secrets", {"data": {"a": "not base64"}}, "illegal base64 data at input byte 3"),
        (
            "configmaps",
            {"metadata": {"name": "a", "creationTimestamp": "x"}},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
    ],
)
def test_values_that_cannot_be_read(api: Client, path: str, body: Any, complaint: str) -> None:
    answer = api.post(f"/api/v1/namespaces/default/{path}", {"metadata": {"name": "a"}, **body})
    assert (answer.code, answer.message.partition(": ")[2]) == (400, complaint)


def test_what_is_null_is_absent(api: Client) -> None:
    body = pod("a", restartPolicy=None, nodeSelector=None)
    assert api.post(f"{PODS}?fieldValidation=Strict", body).code == 201
