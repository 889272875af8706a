"""Whatever a request holds, the answer is a Status that says what is wrong with it: never a 500."""

import random
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from apiserver.serving import (
    APPLY,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    TIMEOUT,
    Answer,
    Client,
    Serving,
    pod,
)
from moorage.apiserver.resources import BY_PLURAL, ApiResource

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
RESOURCES = sorted(BY_PLURAL.values(), key=lambda row: (row.group, row.version, row.plural))
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "x" * 300,
    "\x00",
    [],
    [None],
    [[1]],
    {},
    {"": None},
    {"a": {"b": [1]}},
)
FIELDS = (
    "kind",
    "apiVersion",
    "metadata",
    "spec",
    "status",
    "data",
    "type",
    "value",
    "target",
    "deleteOptions",
    "subjects",
    "rules",
    "involvedObject",
    "regarding",
    "series",
    "provisioner",
    "preconditions",
    "gracePeriodSeconds",
    "propagationPolicy",
    "dryRun",
)
METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "creationTimestamp",
    "deletionTimestamp",
)
SPEC = (
    "containers",
    "initContainers",
    "volumes",
    "tolerations",
    "affinity",
    "schedulingGates",
    "topologySpreadConstraints",
    "resources",
    "nodeName",
    "priorityClassName",
    "replicas",
    "selector",
    "template",
    "strategy",
    "ports",
    "devices",
    "minAvailable",
    "capacity",
    "accessModes",
    "claimRef",
    "holderIdentity",
    "renewTime",
    "leaseDurationSeconds",
    "completions",
    "unschedulable",
    "taints",
    "token",
)


def path_of(resource: ApiResource, name: str = "") -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/default" if resource.namespaced else ""
    return f"{root}/{resource.version}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def is_refused_or_done(answer: Answer) -> bool:
    """Nobody asked for an object of the server's own faults."""
    if answer.code < 300:
        return True
    return 400 <= answer.code < 500 and answer.body.get("kind") == "Status"


def odd_objects(rng: random.Random, name: str) -> Iterator[dict[str, Any]]:
    for fields, within in ((FIELDS, None), (METADATA, "metadata"), (SPEC, "spec")):
        for field in fields:
            obj = pod(name)
            inner = obj if within is None else obj[within]
            inner[field] = rng.choice(ODD_VALUES)
            yield obj
    for field in SPEC:
        template = {"metadata": {}, "spec": {field: rng.choice(ODD_VALUES)}}
        yield {"metadata": {"name": name}, "spec": {"template": template, field: [{}, "x"]}}
        yield {"metadata": {"name": name}, "status": {field: rng.choice(ODD_VALUES)}}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda row: f"{row.plural}.{row.group}")
def test_odd_values_in_every_field_of_every_kind(resource: ApiResource, api: Client) -> None:
    rng = random.Random(f"{resource.plural}.{resource.group}")
    chosen = rng.sample(list(odd_objects(rng, "x")), 40)
    for number, obj in enumerate(chosen):
        requests = [("POST", path_of(resource), JSON)]
        if number % 3 == 0:
            requests += [
                ("PUT", path_of(resource, "x"), JSON),
                ("PATCH", path_of(resource, "x"), rng.choice((MERGE, STRATEGIC, APPLY))),
                ("DELETE", path_of(resource, "x"), JSON),
            ]
        for subresource in resource.subresources:
            if number % 7 == 0:
                path = f"{path_of(resource, 'x')}/{subresource}"
                requests += [("PUT", path, JSON), ("PATCH", path, MERGE), ("POST", path, JSON)]
        for method, path, content_type in requests:
            answer = api.request(method, path, obj, content_type)
            assert is_refused_or_done(answer), (method, path, obj, answer.body)
    if not resource.virtual:
        table = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
        for accept in ("", table):
            assert api.get(path_of(resource), accept).code == 200


def nested(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * levels + "1" + closing * levels


def protobuf(kind: str, raw: bytes, version: str = "v1") -> bytes:
    identity = field(1, version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, identity) + field(2, raw)


def field(number: int, raw: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param(JSON, nested(300), id="nested JSON"),
        pytest.param(JSON, nested(5000), id="deeply nested JSON"),
        pytest.param(JSON, "[" * 100_000, id="open brackets"),
        pytest.param(YAML, nested(300, "[", "]"), id="nested YAML"),
        pytest.param(YAML, "- " * 50_000 + "a", id="nested YAML in block style"),
        pytest.param(YAML, "a: &a [*a]", id="a YAML anchor in itself"),
        pytest.param(YAML, "a: *b", id="an unknown YAML anchor"),
        pytest.param(YAML, "? [a]\n: b", id="a list as a key"),
        pytest.param(YAML, "\x07", id="a control character"),
        pytest.param(JSON, b'{"a": "\xff"}', id="JSON that is not UTF-8"),
        pytest.param(YAML, b'a: "\xff"', id="YAML that is not UTF-8"),
        pytest.param(JSON, '{"a": "\\ud800"}', id="half a character"),
        pytest.param(YAML, 'a: "\\ud800"', id="half a character in YAML"),
        pytest.param(JSON, "1e999", id="a number too large"),
        pytest.param(JSON, "[]", id="a list"),
        pytest.param(YAML, "hello", id="a word"),
        pytest.param(PROTOBUF, b"", id="no protobuf"),
        pytest.param(PROTOBUF, b"k8s\x00", id="empty protobuf"),
        pytest.param(PROTOBUF, b"k8s\x00\x0a\xff\xff\xff\xff\x7f", id="a length bomb"),
        pytest.param(PROTOBUF, b"k8s\x00" + b"\xff" * 30, id="an endless varint"),
        pytest.param(PROTOBUF, b"k8s\x00\x08\x01", id="a number for the identity"),
        pytest.param(PROTOBUF, protobuf("Pod", b"\x08\x01"), id="a number for metadata"),
        pytest.param(PROTOBUF, protobuf("Pod", field(1, b"\x0a\x01\xff")), id="bytes for text"),
        pytest.param(
            PROTOBUF,
            protobuf("Pod", field(1, field(8, b"\x08" + varint(2**62)))),
            id="a time beyond all calendars",
        ),
        pytest.param(
            PROTOBUF,
            protobuf("ControllerRevision", field(2, field(1, nested(5000).encode())), "apps/v1"),
            id="nested JSON inside protobuf",
        ),
    ],
)
def test_a_body_that_makes_no_sense_is_a_bad_request(
    content_type: str, body: str | bytes, api: Client
) -> None:
    data = body.encode() if isinstance(body, str) else body
    for method, path in (("POST", PODS), ("PUT", f"{PODS}/a"), ("DELETE", f"{PODS}/a")):
        answer = api.request(method, path, data, content_type)
        if data:
            assert (answer.code, answer.reason) == (400, "BadRequest"), answer.body


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, JSON_PATCH, APPLY])
@pytest.mark.parametrize(
    "body",
    [
        nested(300),
        nested(5000),
        "",
        "{",
        "1",
        "null",
        "[1]",
        '[{"op": "add"}]',
        '[{"op": "add", "path": "a", "value": 1}]',
        '[{"op": "remove", "path": "/spec/containers/\u00b2"}]',
        '[{"op": "replace", "path": "", "value": 5}]',
        '[{"op": "add", "path": "/metadata", "value": null}]',
        '[{"op": "add", "path": "/metadata/labels", "value": 7}]',
        '{"$retainKeys": 7}',
        '{"metadata": {"$deleteFromPrimitiveList/finalizers": 7}}',
        '{"spec": {"containers": [{"name": {"a": 1}}]}}',
        '{"spec": {"$setElementOrder/containers": [{"name": []}]}}',
        '{"spec": {"containers": [{"$patch": "replace"}, 7]}}',
        '{"metadata": 7}',
        '{"metadata": null}',
        '{"kind": ["Pod"]}',
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(
    content_type: str, body: str, serving: Serving
) -> None:
    api = Client(serving.url)
    before = api.create_pod("a")
    for path in (f"{PODS}/a", f"{PODS}/a/status"):
        answer = api.request("PATCH", path, body.encode(), content_type)
        assert is_refused_or_done(answer), answer.body
    assert api.get(f"{PODS}/a").body["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=-5",
        "limit=99999999999999999999",
        "limit=%FF",
        "limit=1_0",
        "limit=1&continue=e30",
        "continue=eyJpZCI6LTEsInN0YXJ0IjotMX0",
        "continue=%FF%FE",
        "watch=1&timeoutSeconds=" + "9" * 400,
        "watch=1&timeoutSeconds=" + "9" * 5000,
        "watch=1&resourceVersion=x",
        "resourceVersion=" + "9" * 18,
        "resourceVersion=-1&resourceVersionMatch=Exact",
        "labelSelector=a%20in%20(",
        "labelSelector=%FF%00",
        "labelSelector=a" + "%20" * 2000 + "x",
        "fieldSelector=a%5C",
        "fieldSelector=%3D%3D%3D",
        "=&&&=;;%",
    ],
)
def test_odd_parameters(query: str, api: Client) -> None:
    api.create_pod("a")
    for method, path in (("GET", PODS), ("DELETE", f"{PODS}")):
        answer = api.request(method, f"{path}?{query}")
        # 410 and 504 are what kube-apiserver answers to versions of the past and the future.
        assert is_refused_or_done(answer) or answer.code == 504, answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/pods/..",
        "/api/v1/namespaces/../../../etc/passwd",
        "/api/v1/namespaces/default/pods/%2e%2e%2f%2e%2e",
        "/api/v1/namespaces/default/pods/%00",
        "/api/v1/namespaces/default/pods/%FF",
        "/api/v1/namespaces/%E2%98%83/pods/x",
        "/api/v1//pods/a",
        "/openapi/v3/../../journal",
        "/openapi/v3/apis/%2e%2e",
        "/apis/%FF/v1",
        "//",
        "/api/v1/pods/" + "x" * 5000,
    ],
)
def test_odd_paths_lead_nowhere(path: str, api: Client) -> None:
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
        answer = api.request(method, path, {} if method == "PUT" else None)
        refused = 400 <= answer.code < 500 and answer.body["kind"] == "Status"
        assert refused or (path == "//" and method == "GET"), (method, answer.body)


def exchange(serving: Serving, request: bytes) -> bytes:
    """What the server answers to bytes that no client library sends."""
    place = urlsplit(serving.url)
    with socket.create_connection((place.hostname, place.port), TIMEOUT) as connection:
        connection.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        answer = b""
        while data := connection.recv(65536):
            answer += data
    return answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(
            b"POST /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            id="a chunk of no size",
        ),
        pytest.param(
            b"GET /api/v1/nodes/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
            id="raw bytes in the path",
        ),
        pytest.param(
            b"GET /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nAccept: \xff\xfe\r\n\r\n",
            id="raw bytes in a header",
        ),
        pytest.param(
            b"POST /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: \xff\r\n"
            b"Content-Length: 2\r\n\r\n{}",
            id="raw bytes for a content type",
        ),
        pytest.param(
            b"POST /api/v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
            id="no gzip",
        ),
        pytest.param(
            b"GET /api/v1/nodes?" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            id="a very long query",
        ),
    ],
)
def test_a_request_that_breaks_the_protocol(request_bytes: bytes, serving: Serving) -> None:
    answer = exchange(serving, request_bytes)
    assert answer.split(b" ", 2)[1][:1] in (b"2", b"4"), answer[:500]
    assert b"Traceback" not in answer
    assert Client(serving.url).get("/api/v1/nodes").code == 200


def test_a_body_beyond_the_limit_is_too_large(api: Client) -> None:
    answer = api.request("POST", PODS, b" " * (3 * 2**20 + 1), JSON)
    assert (answer.code, answer.message) == (
        413,
        "Request entity too large: limit is 3145728",
    )


def test_a_request_line_beyond_the_limit_leaves_no_traceback(
    api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = api.get(f"{PODS}?labelSelector={'a,' * 30_000}")
    assert answer.code == 400
    assert not [record for record in caplog.records if record.exc_info]
