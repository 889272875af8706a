"""Web pages of other origins cannot use a server that asks nobody for credentials."""

import contextlib
import http.client
import json
from urllib.parse import urlsplit

import pytest

from apiserver.serving import PODS, TIMEOUT, Client, Serving, pod

NODES = "/api/v1/nodes"
NODE = json.dumps({"metadata": {"name": "planted"}}).encode()
LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def send(
    serving: Serving, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, dict[str, str]]:
    place = urlsplit(serving.url).netloc
    headers = {name: value.replace("HOST", place) for name, value in headers.items()}
    with contextlib.closing(http.client.HTTPConnection(place, timeout=TIMEOUT)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"{}")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://web.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost:1"},
        {"Origin": "file://"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", **LINK},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_of_another_origin_is_refused(
    method: str, headers: dict[str, str], serving: Serving
) -> None:
    Client(serving.url).create_node("n1")
    path = NODES if method == "POST" else f"{NODES}/n1"
    for content_type in ({}, {"Content-Type": "application/json"}):
        code, status = send(serving, method, path, {**headers, **content_type}, NODE)
        assert (code, status["kind"], status["reason"]) == (403, "Status", "Forbidden")
    assert Client(serving.url).get(NODES).names == ["n1"]


def test_a_page_of_another_origin_cannot_read_but_a_link_may_lead_here(serving: Serving) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert send(serving, "GET", NODES, {**foreign, "Sec-Fetch-Mode": "cors"})[0] == 403
    assert send(serving, "GET", NODES, {"Origin": "https://web.example"})[0] == 403
    assert send(serving, "GET", NODES, {**foreign, **LINK})[0] == 200
    framed = {**foreign, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert send(serving, "GET", NODES, framed)[0] == 403
    assert send(serving, "OPTIONS", NODES, {"Origin": "https://web.example"})[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://HOST"},
        {"Origin": "http://HOST", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_programs_and_pages_of_the_same_origin_are_answered(
    headers: dict[str, str], serving: Serving
) -> None:
    json_type = {"Content-Type": "application/json"}
    assert send(serving, "POST", NODES, {**headers, **json_type}, NODE)[0] == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
    ],
    ids=str,
)
def test_a_write_needs_a_type_that_a_form_cannot_have(
    headers: dict[str, str], serving: Serving
) -> None:
    Client(serving.url).create_pod("a")
    for method, path, body in (
        ("POST", NODES, NODE),
        ("PUT", f"{NODES}/planted", NODE),
        ("PATCH", f"{PODS}/a", b"{}"),
        ("DELETE", f"{PODS}/a", b"{}"),
        ("POST", f"{PODS}/a/eviction", b""),
    ):
        code, status = send(serving, method, path, headers, body)
        assert (code, status["reason"]) == (415, "UnsupportedMediaType"), (method, path)
    assert Client(serving.url).get(PODS).names == ["a"]


def test_a_program_may_leave_the_type_out_as_the_python_client_does(serving: Serving) -> None:
    assert send(serving, "POST", NODES, {"User-Agent": "OpenAPI-Generator/37"}, NODE)[0] == 201


def test_a_deletion_without_a_body_needs_no_type(serving: Serving) -> None:
    api = Client(serving.url)
    api.post(PODS, pod("a"))
    assert send(serving, "DELETE", f"{PODS}/a", {})[0] == 200
    assert api.get(PODS).names == []
