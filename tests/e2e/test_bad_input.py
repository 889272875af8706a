"""Bad input gets kube-apiserver's status code and sentence, and nothing is stored.

The same requests go to the real API server and to Moorage's. Also compared: the columns of tables.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.client import Access, Json, wait_for
from e2e.cluster import ControlPlane
from e2e.embedded import embedded_server

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
# How much of a sentence is compared: uids and times of an object that is quoted differ.
_QUOTED = "Invalid value: "


class Answer(NamedTuple):
    """What a server says."""

    code: int
    reason: str
    message: str
    fields: list[str]
    warnings: list[str]


def ask(
    access: Access,
    method: str,
    path: str,
    body: Any = None,
    content_type: str = JSON,
    accept: str = JSON,
) -> tuple[int, Json, list[str]]:
    context = ssl.create_default_context(cafile=access.ca_file)
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = {"Authorization": f"Bearer {access.token}", "Accept": accept}
    headers["Content-Type"] = content_type
    url = access.server + path
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=context) as told:
            return told.status, json.load(told), told.headers.get_all("Warning") or []
    except urllib.error.HTTPError as refusal:
        text = refusal.read()
        body = json.loads(text) if text.startswith(b"{") else {"message": text.decode()}
        return refusal.code, body, refusal.headers.get_all("Warning") or []


@pytest.fixture(scope="module")
def both(
    server: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Access, Access]]:
    """The real server and ours."""
    with embedded_server(tmp_path_factory.mktemp("embedded")) as embedded:
        yield server.admin, embedded.admin


def answer(access: Access, *request: Any) -> Answer:
    code, body, warnings = ask(access, *request)
    causes = body.get("details", {}).get("causes", []) if body.get("kind") == "Status" else []
    message = str(body.get("message", "")) if code >= 300 else ""
    if message.startswith(' "" is invalid: patch: ' + _QUOTED + '"{'):
        message = message.rpartition('": ')[2]
    fields = [cause.get("field", "") for cause in causes]
    return Answer(code, str(body.get("reason", "")), message, fields, warnings)


def deployment(path: str = "", value: Any = None) -> Json:
    """A good Deployment, but for the value at one place."""
    labels = {"app": "web"}
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    made: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    *steps, last = path.split("/")
    place: Any = made
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    if path:
        place[last] = value
    return made


_CONTAINER = "spec/template/spec/containers/0"
_WRONG: list[tuple[str, Any]] = [
    ("spec/replicas", "3"),
    ("spec/replicas", 1.5),
    ("spec/replicas", 2**40),
    ("spec/paused", "yes"),
    ("spec/template/spec/containers", {}),
    ("spec/template/spec", []),
    ("spec/template/spec/restartPolicy", 5),
    ("metadata/labels", {"a": 5}),
    ("metadata/labels", []),
    ("metadata/name", 5),
    ("metadata/creationTimestamp", "x"),
    ("metadata/creationTimestamp", 5),
    ("spec/template/spec/nodeSelector", {"a": True}),
    ("spec", "x"),
    ("metadata", "x"),
    ("kind", "Foo"),
    ("apiVersion", "apps/v2"),
    ("spec/strategy", {"rollingUpdate": {"maxSurge": [1]}}),
    ("spec/template/spec/volumes", [{"name": "x", "hostPath": "y"}]),
    (f"{_CONTAINER}/resources", {"requests": {"cpu": "abc"}}),
    (f"{_CONTAINER}/resources", {"requests": {"cpu": [1]}}),
    (f"{_CONTAINER}/resources", {"requests": ["a"]}),
    (f"{_CONTAINER}/command", [5]),
    (f"{_CONTAINER}/ports", [{"containerPort": "x"}]),
    (f"{_CONTAINER}/livenessProbe", {"httpGet": {"port": True}}),
    (f"{_CONTAINER}/env", {"A": "b"}),
    (f"{_CONTAINER}/imag", "x"),
    ("spec/replica", 3),
    ("foo", {"a": [1]}),
]
_TWICE = '{"metadata":{"name":"a","labels":{"x":"1","x":"2"}},"data":{"k":"1"},"data":{"k":"2"}}'
_TWICE_YAML = "metadata:\n  name: a\ndata:\n  k: one\n  k: two\n"


def configmap(**metadata: Any) -> Json:
    return {"metadata": {"name": "a", **metadata}}


_REQUESTS: dict[str, tuple[Any, ...]] = {
    **{
        f"{path} {json.dumps(value)[:30]}": (
            "POST",
            f"{DEPLOYMENTS}?fieldValidation=Strict",
            deployment(path, value),
        )
        for path, value in _WRONG
    },
    **{
        f"unknown field, {directive or 'nothing said'}": (
            "POST",
            f"{DEPLOYMENTS}?dryRun=All&fieldValidation={directive}",
            deployment("spec/replica", 3),
        )
        for directive in ("", "Warn", "Ignore", "Strict", "Maybe")
    },
    "twice": (
        "POST",
        f"{CONFIGMAPS}?fieldValidation=Strict",
        _TWICE.replace('"data":{"k":"2"}', '"immutable":false'),
    ),
    "twice, warned": ("POST", f"{CONFIGMAPS}?dryRun=All", _TWICE),
    "twice in YAML": ("POST", f"{CONFIGMAPS}?fieldValidation=Strict", _TWICE_YAML, YAML),
    "twice in YAML, warned": ("POST", f"{CONFIGMAPS}?dryRun=All", _TWICE_YAML, YAML),
    "not base64": ("POST", SECRETS, {**configmap(), "data": {"a": "not base64!"}}),
    "base64 cut off": ("POST", SECRETS, {**configmap(), "data": {"a": "abc"}}),
    "data is a number": ("POST", CONFIGMAPS, {**configmap(), "data": {"a": 5}}),
    "key of data": ("POST", CONFIGMAPS, {**configmap(), "data": {"a b": "x"}}),
    "empty": ("POST", CONFIGMAPS, ""),
    "a list": ("POST", CONFIGMAPS, "[]"),
    "a text": ("POST", CONFIGMAPS, '"x"'),
    "cut off": ("POST", CONFIGMAPS, '{"metadata":{"name":"a"},'),
    "name": ("POST", CONFIGMAPS, configmap(name="A")),
    "no name": ("POST", CONFIGMAPS, {"metadata": {}}),
    "label": ("POST", CONFIGMAPS, configmap(labels={"a": "c d"})),
    "label key": ("POST", CONFIGMAPS, configmap(labels={"a b": "c"})),
    "annotation key": ("POST", CONFIGMAPS, configmap(annotations={"a b": "c"})),
    "namespace": ("POST", CONFIGMAPS, configmap(namespace="other")),
    "no such namespace": ("POST", CONFIGMAPS.replace("default", "nowhere"), configmap()),
    "another kind": ("POST", CONFIGMAPS, {"apiVersion": "v1", "kind": "Secret", **configmap()}),
    "no such object": ("PUT", f"{CONFIGMAPS}/a", configmap()),
    "another name": ("PUT", f"{CONFIGMAPS}/kube-root-ca.crt", configmap()),
    "method": ("POST", f"{CONFIGMAPS}/a", configmap()),
}
_PATCHES: dict[str, tuple[str, Any, str]] = {
    "unknown": ("Strict", {"foo": 1}, MERGE),
    "unknown, warned": ("", {"foo": 1}, MERGE),
    "unknown, strategic": ("Strict", {"foo": 1, "data": {"x": "y"}}, STRATEGIC),
    "unknown, strategic, ignored": ("Ignore", {"foo": 1}, STRATEGIC),
    "unknown, JSON": ("Strict", [{"op": "add", "path": "/foo", "value": 1}], JSON_PATCH),
    "twice": ("Strict", '{"data":{"a":"1","a":"2"}}', MERGE),
    "twice, strategic": ("Strict", '{"data":{"a":"1","a":"2"}}', STRATEGIC),
    "wrong type": ("", {"data": {"a": 5}}, MERGE),
    "another name": ("", {"metadata": {"name": "other"}}, MERGE),
    "no operation": ("", [{"op": "jump", "path": "/x"}], JSON_PATCH),
    "no such path": ("", [{"op": "remove", "path": "/x/y"}], JSON_PATCH),
    "cut off": ("", "{", MERGE),
    "a list": ("", "[]", MERGE),
    "media type": ("", "{}", "text/plain"),
}


@pytest.mark.parametrize("request_", _REQUESTS.values(), ids=list(_REQUESTS))
def test_a_request(both: tuple[Access, Access], request_: tuple[Any, ...]) -> None:
    real, ours = (answer(access, *request_) for access in both)
    assert ours == real
    assert real.code >= 400 or "dryRun" in request_[1]
    collection = request_[1].partition("?")[0]
    if ask(both[1], "GET", collection)[1].get("kind", "").endswith("List"):
        assert ask(both[1], "GET", collection)[1]["items"] == []


@pytest.mark.parametrize("patch", _PATCHES.values(), ids=list(_PATCHES))
def test_a_patch(both: tuple[Access, Access], patch: tuple[str, Any, str]) -> None:
    directive, body, content_type = patch
    answers = []
    for access in both:
        ask(access, "POST", CONFIGMAPS, {**configmap(name="kept"), "data": {"a": "b"}})
        path = f"{CONFIGMAPS}/kept?dryRun=All&fieldValidation={directive}"
        answers.append(answer(access, "PATCH", path, body, content_type))
        assert ask(access, "GET", f"{CONFIGMAPS}/kept")[1]["data"] == {"a": "b"}
        ask(access, "DELETE", f"{CONFIGMAPS}/kept")
    assert answers[1] == answers[0]


_SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
                "grade": {"type": "string", "enum": ["a", "b"]},
                "ratio": {"type": "number"},
                "on": {"type": "boolean", "default": True},
                "tags": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
            },
        }
    },
}
_THINGS = "/apis/x.io/v1/things"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SPECS: list[Json] = [
    *({"size": value} for value in ("x", 0, 11, 1.5)),
    *({"size": 1, "name": value} for value in ("A1", "abcdefgh", "a", 5)),
    {"size": 1, "grade": "c"},
    {"size": 1, "ratio": "x"},
    {"size": 1, "on": "x"},
    *({"size": 1, "tags": value} for value in ([], [1], "x")),
    {"size": 1, "labels": {"a": 1}},
    {"size": 1, "any": 5},
    {"size": 1, "port": True},
    {"size": 1, "foo": 1, "bar": 2},
    {},
]


def _definition(**version: Any) -> Json:
    """A good definition, but for parts of its version."""
    schema = {"openAPIV3Schema": _SCHEMA}
    made = {"name": "v1", "served": True, "storage": True, "schema": schema, **version}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [made]}
    return {"metadata": {"name": "things.x.io"}, "spec": spec}


def test_custom_resources(both: tuple[Access, Access]) -> None:
    wrong = [
        _definition(schema={}),
        _definition(schema={"openAPIV3Schema": {}}),
        _definition(schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}),
        _definition(schema={"openAPIV3Schema": {"type": "string"}}),
        _definition(name="V1"),
        _definition(additionalPrinterColumns=[{"name": "x", "type": "y", "jsonPath": "z"}]),
        {"metadata": {"name": "things.x.io"}},
        {**_definition(), "metadata": {"name": "other"}},
    ]
    for definition in wrong:
        real, ours = (answer(access, "POST", _DEFINITIONS, definition) for access in both)
        assert (ours, real.code) == (real, 422)
    for access in both:
        assert ask(access, "POST", _DEFINITIONS, _definition())[0] == 201
    # The real server needs a moment to serve it.
    wait_for("the kind", lambda: answer(both[0], "GET", "/apis/x.io/v1").code == 200 or None)
    wait_for("its objects", lambda: answer(both[0], "POST", _THINGS, {}).code == 400 or None)
    head = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}}
    bodies = [{**head, "spec": spec} for spec in _SPECS]
    bodies += [head, {"metadata": {"name": "t"}}, {**head, "kind": "Other"}]
    bodies += [{**head, "metadata": {"name": "t", "labels": {"a": 1}}}]
    for body in bodies:
        path = f"{_THINGS}?fieldValidation=Strict"
        real, ours = (answer(access, "POST", path, body) for access in both)
        assert ours == real
        assert real.code >= 400
    assert ask(both[1], "GET", _THINGS)[1]["items"] == []
    for access in both:
        ask(access, "DELETE", f"{_DEFINITIONS}/things.x.io")


# Who applies which data, and whether by force; `None` updates instead.
_APPLIED: list[tuple[str, dict[str, str], bool | None]] = [
    ("a", {"x": "1", "y": "2"}, False),
    ("b", {"x": "1", "z": "3"}, False),
    ("b", {"x": "9", "z": "3"}, False),
    ("b", {"x": "9", "y": "9"}, False),
    ("b", {"x": "9", "z": "3"}, True),
    ("a", {"x": "9"}, False),
    ("u", {"x": "7"}, None),
    ("a", {"x": "1"}, False),
    ("b", {}, False),
    ("a", {}, False),
]


def test_server_side_apply(both: tuple[Access, Access]) -> None:
    path = f"{CONFIGMAPS}/applied"
    for who, data, force in _APPLIED:
        seen = []
        for access in both:
            body = {"apiVersion": "v1", "kind": "ConfigMap", **configmap(name="applied")}
            query = f"?fieldManager={who}{'&force=true' if force else ''}"
            media = MERGE if force is None else "application/apply-patch+yaml"
            body = {"data": data} if force is None else {**body, "data": data}
            said = answer(access, "PATCH", path + query, body, media)
            stored = ask(access, "GET", path)[1]
            owned = [
                (one["manager"], one["operation"], one["fieldsV1"])
                for one in stored["metadata"]["managedFields"]
            ]
            seen.append((said, stored["data"], sorted(owned, key=str)))
        assert seen[1] == seen[0]
    for access in both:
        ask(access, "DELETE", path)


def test_tables_have_upstreams_columns(both: tuple[Access, Access]) -> None:
    def columns(access: Access, path: str) -> list[tuple[str, str, int]]:
        _, table, _ = ask(access, "GET", path, accept=TABLE)
        return [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]]

    _, groups, _ = ask(both[1], "GET", "/apis")
    prefixes = [
        "/api/v1",
        *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in groups["groups"]),
    ]
    compared = 0
    for prefix in prefixes:
        for resource in ask(both[1], "GET", prefix)[1]["resources"]:
            path = f"{prefix}/{resource['name']}"
            if "list" in resource["verbs"] and ask(both[0], "GET", path)[0] == 200:
                assert columns(both[1], path) == columns(both[0], path), path
                compared += 1
    assert compared > 40
