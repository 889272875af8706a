"""Extenders over real connections on loopback: each verb, and everything that can go wrong."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from moorage.config import KubeSchedulerConfiguration
from moorage.config.types import ExtenderConfig, ExtenderManagedResource, ExtenderTLSConfig
from moorage.errors import ConfigError, ExtenderError
from moorage.framework.extenders import FilterReply, MetaVictims
from moorage.framework.plugin import Candidate
from moorage.kube.decoding import ObjectReader
from moorage.kube.http_extender import HttpExtender, http_extenders, needs_source
from moorage.kube.resources import resource_for
from moorage.model.duration import Duration
from moorage.model.meta import ApiObject
from moorage.testing import make_node, make_pod

POD = make_pod("web", cpu="1", labels={"app": "web", "empty": ""})
NODES = [make_node("n1", labels={"disk": "ssd"}), make_node("n2")]


class Server:
    """Answers every verb alike and remembers what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answer: bytes | Callable[[Any], bytes] = b"{}"
        self.code = 200
        self.asked: list[tuple[str, Any]] = []
        self.connections = 0
        self.headers: list[dict[str, str]] = []
        self.keep_alive = True

    def extender(self, **fields: Any) -> HttpExtender:
        verbs = dict.fromkeys(("filter_verb", "prioritize_verb", "preempt_verb", "bind_verb"), "v")
        return HttpExtender(ExtenderConfig(**{"url_prefix": self.url, **verbs, **fields}))


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            running.connections += 1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            running.asked.append((self.path, body))
            running.headers.append(dict(self.headers))
            answer = running.answer(body) if callable(running.answer) else running.answer
            self.send_response(running.code)
            self.send_header("Content-Length", str(len(answer)))
            if not running.keep_alive:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Nothing: clients that hang up are part of the tests."""

    listener = Quiet(("127.0.0.1", 0), Handler)
    scheme = "http"
    if context is not None:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        scheme = "https"
    running = Server(f"{scheme}://127.0.0.1:{listener.server_port}")
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@contextmanager
def raw_server(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does with a connection what HTTP servers do not."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as request:
            # All of it: closing a socket with something unread would be a reset.
            while not (line := request.readline()).lower().startswith(b"content-length"):
                pass
            while request.readline().strip():
                pass
            request.read(int(line.split(b":")[1]))
            behave(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join()
        listener.close()


def error_of(extender: HttpExtender) -> str:
    with pytest.raises(ExtenderError) as caught:
        extender.filter(POD, NODES)
    extender.close()
    return str(caught.value)


# Verbs.


def test_filter_by_name(server: Server) -> None:
    server.answer = b'{"nodeNames": ["n2"], "failedNodes": {"n1": "loud"}, "error": ""}'
    extender = server.extender(node_cache_capable=True)
    assert extender.filter(POD, NODES) == FilterReply(("n2",), failed={"n1": "loud"})
    [(path, body)] = server.asked
    assert path == "/v"
    assert body["NodeNames"] == ["n1", "n2"]
    assert body["Nodes"] is None
    assert body["Pod"]["metadata"]["labels"] == {"app": "web", "empty": ""}
    assert server.headers[0]["Content-Type"] == "application/json"
    extender.close()


def test_filter_by_object(server: Server) -> None:
    server.answer = lambda body: json.dumps({"Nodes": body["Nodes"]}).encode()
    extender = server.extender()
    assert extender.filter(POD, NODES) == FilterReply(("n1", "n2"), as_objects=True)
    [(_, body)] = server.asked
    assert body["NodeNames"] is None
    first = body["Nodes"]["items"][0]
    assert first["metadata"]["labels"]["disk"] == "ssd"
    assert first["status"]["allocatable"]["cpu"] == "4"
    extender.close()


def test_names_count_only_where_names_were_agreed_upon(server: Server) -> None:
    server.answer = b'{"NodeNames": ["n1"]}'
    extender = server.extender()
    assert extender.filter(POD, NODES) == FilterReply()
    extender.close()
    server.answer = b'{"Nodes": {"items": [{"metadata": {"name": "n1"}}]}}'
    extender = server.extender(node_cache_capable=True)
    assert extender.filter(POD, NODES) == FilterReply(("n1",), as_objects=True)
    extender.close()


def test_prioritize(server: Server) -> None:
    server.answer = b'[{"Host": "n1", "Score": 3}, {"host": "n2"}, null]'
    extender = server.extender(weight=7)
    assert extender.weight == 7
    assert extender.prioritize(POD, NODES) == [("n1", 3), ("n2", 0), ("", 0)]
    for wrong in (b"{}", b"[3]", b'[{"Score": 1.5}]', b'[{"Score": 9223372036854775808}]', b"["):
        server.answer = wrong
        with pytest.raises(ExtenderError):
            extender.prioritize(POD, NODES)
    extender.close()


def test_preempt(server: Server) -> None:
    candidates = [Candidate("n1", (make_pod("victim", uid="u1"),), 2)]
    server.answer = (
        b'{"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}, '
        b'"n2": null}}'
    )
    by_uid = server.extender(node_cache_capable=True)
    whole = server.extender()
    expected = {"n1": MetaVictims(("u1",), 2), "n2": MetaVictims()}
    assert by_uid.preempt(POD, candidates) == expected
    assert whole.preempt(POD, candidates) == expected
    (_, first), (_, second) = server.asked
    assert first["NodeNameToVictims"] is None
    assert first["NodeNameToMetaVictims"] == {
        "n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}
    }
    assert second["NodeNameToMetaVictims"] is None
    assert second["NodeNameToVictims"]["n1"]["Pods"][0]["metadata"]["name"] == "victim"
    by_uid.close()
    whole.close()


def test_bind(server: Server) -> None:
    extender = server.extender()
    asyncio.run(extender.bind(POD, "n1"))
    assert server.asked[0][1] == {
        "PodName": "web",
        "PodNamespace": "default",
        "PodUID": POD.uid,
        "Node": "n1",
    }
    server.answer = b'{"Error": "not today"}'
    with pytest.raises(ExtenderError, match=r"^not today$"):
        asyncio.run(extender.bind(POD, "n1"))
    extender.close()


def test_several_pods_are_bound_at_once(server: Server) -> None:
    together = threading.Barrier(4)

    def answer(body: Any) -> bytes:
        together.wait(5)
        return b"{}"

    server.answer = answer
    extender = server.extender()

    async def bind_all() -> None:
        await asyncio.gather(*(extender.bind(make_pod(f"p{i}"), "n1") for i in range(4)))

    asyncio.run(bind_all())
    extender.close()


# What goes wrong.


def test_codes_other_than_200_are_errors(server: Server) -> None:
    for code in (201, 302, 404, 500):
        server.code = code
        url = f"{server.url}/v"
        text = f"failed v with extender at URL {url}, code {code}"
        assert error_of(server.extender(url_prefix=f"{server.url}//")) == text


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "EOF"),
        (b" \n", "EOF"),
        (b"{", "unexpected EOF"),
        (b'{"Error": "x', "unexpected EOF"),
        (b"<html>", "invalid character '<' looking for beginning of value"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b"\xff", "invalid character '\ufffd' looking for beginning of value"),
        (b'{"Error" 1}', "invalid character '1' after object key"),
        (b'{"Error": "x\n"}', "invalid character '\\n' in string literal"),
        (b'{"a": "}]\\"" "b"}', "invalid character '\"' after object key:value pair"),
        (b'["a" "b"]', "invalid character '\"' after array element"),
        (b"[" * 100_000, "exceeded max depth"),
        (b"[]", "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"),
        (
            b'{"NodeNames": "n1"}',
            "json: cannot unmarshal string into Go struct field "
            "ExtenderFilterResult.NodeNames of type []string",
        ),
        (b'{"Error": "its own words"}', "its own words"),
    ],
)
def test_nonsense_is_told_in_the_words_of_go(server: Server, answer: bytes, text: str) -> None:
    server.answer = answer
    assert error_of(server.extender()) == text


def test_what_follows_the_first_value_does_not_matter(server: Server) -> None:
    server.answer = b'{"Nodes": {"items": []}} and so on'
    extender = server.extender()
    assert extender.filter(POD, NODES) == FilterReply(as_objects=True)
    extender.close()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    extender = HttpExtender(ExtenderConfig(url_prefix=f"http://{address}", filter_verb="f"))
    text = f'Post "http://{address}/f": dial tcp {address}: connect: connection refused'
    assert error_of(extender) == text


def test_an_answer_that_takes_too_long(server: Server) -> None:
    go_on = threading.Event()
    server.answer = lambda body: b"{}" if go_on.wait(5) else b""
    started = time.monotonic()
    text = error_of(server.extender(http_timeout=Duration(200_000_000)))
    assert time.monotonic() - started < 2
    go_on.set()
    assert text == (
        f'Post "{server.url}/v": context deadline exceeded (Client.Timeout exceeded while '
        "awaiting headers)"
    )


def test_the_time_is_for_the_whole_answer_however_it_trickles() -> None:
    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(100):
                connection.sendall(b" ")
                time.sleep(0.05)
        except OSError:
            return

    with raw_server(trickle) as url:
        started = time.monotonic()
        config = ExtenderConfig(url_prefix=url, filter_verb="f", http_timeout=Duration(300_000_000))
        text = error_of(HttpExtender(config))
        assert time.monotonic() - started < 2
    assert text == (
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    )


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", 'Post "{url}/f": EOF'),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", "unexpected EOF"),
    ],
)
def test_a_server_that_hangs_up(said: bytes, text: str) -> None:
    with raw_server(lambda connection: connection.sendall(said)) as url:
        extender = HttpExtender(ExtenderConfig(url_prefix=url, filter_verb="f"))
        assert error_of(extender) == text.format(url=url)


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    answer = b'HTTP/1.0 200 OK\r\n\r\n{"Error": "old"}'
    with raw_server(lambda connection: connection.sendall(answer)) as url:
        assert error_of(HttpExtender(ExtenderConfig(url_prefix=url, filter_verb="f"))) == "old"


def test_other_schemes_are_refused() -> None:
    extender = HttpExtender(ExtenderConfig(url_prefix="ftp://x", filter_verb="f"))
    assert error_of(extender) == 'Post "ftp://x/f": unsupported protocol scheme "ftp"'


# Connections.


def test_connections_are_kept_and_reused(server: Server) -> None:
    extender = server.extender()
    for _ in range(3):
        extender.filter(POD, NODES)
    assert server.connections == 1
    server.keep_alive = False
    for _ in range(2):
        extender.filter(POD, NODES)
    assert server.connections == 2
    extender.close()


def test_a_kept_connection_that_was_closed_meanwhile_is_not_used() -> None:
    with serving() as first:
        extender = first.extender()
        extender.filter(POD, NODES)
        extender._client._idle[0].shutdown(socket.SHUT_RDWR)
        extender.filter(POD, NODES)
        assert first.connections == 2
        extender.close()


def test_a_proxy_is_used_for_hosts_that_are_not_here(server: Server) -> None:
    proxy = server.url.replace("http://", "http://user:secret@")
    config = ExtenderConfig(url_prefix="http://extender.example/x", filter_verb="f")
    extender = HttpExtender(config, {"HTTP_PROXY": proxy})
    extender.filter(POD, NODES)
    assert server.asked[0][0] == "http://extender.example/x/f"
    assert server.headers[0]["Host"] == "extender.example"
    assert server.headers[0]["Proxy-Authorization"] == "Basic dXNlcjpzZWNyZXQ="
    extender.close()


# TLS.


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_server(authority: trustme.CA) -> Iterator[Server]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "extender.example").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    with serving(context) as running:
        yield running


def test_certificates_are_checked(tls_server: Server, authority: trustme.CA) -> None:
    unknown = error_of(tls_server.extender())
    assert unknown == (
        f'Post "{tls_server.url}/v": tls: failed to verify certificate: x509: certificate '
        "signed by unknown authority"
    )
    ca = authority.cert_pem.bytes()
    client = authority.issue_cert("client.example")
    for tls in (
        {"ca_data": ca},
        {"ca_data": ca, "server_name": "extender.example"},
        {"insecure": True},
        {
            "ca_data": ca,
            "cert_data": client.cert_chain_pems[0].bytes(),
            "key_data": client.private_key_pem.bytes(),
        },
        {"insecure": True, "cert_data": b"without a key nobody looks at it"},
    ):
        extender = tls_server.extender(tls_config=ExtenderTLSConfig(**tls))
        assert extender.filter(POD, NODES) == FilterReply()
        extender.close()
    wrong_name = ExtenderTLSConfig(ca_data=ca, server_name="other.example")
    assert "tls: " in error_of(tls_server.extender(tls_config=wrong_name))


def test_https_switched_on_without_an_authority_checks_nothing(tls_server: Server) -> None:
    extender = tls_server.extender(enable_https=True)
    assert extender.filter(POD, NODES) == FilterReply()
    extender.close()


def test_certificates_that_cannot_be_used(authority: trustme.CA) -> None:
    ca = authority.cert_pem.bytes()
    for tls, text in (
        (
            ExtenderTLSConfig(insecure=True, ca_data=ca),
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (ExtenderTLSConfig(ca_file="/no/such/file"), "/no/such/file"),
        (ExtenderTLSConfig(cert_data=b"x", key_data=b"y"), "client certificate"),
    ):
        with pytest.raises(ConfigError, match=f"couldn't build extenders: .*{text}"):
            HttpExtender(ExtenderConfig(url_prefix="https://x", tls_config=tls))


# Configuration.


def test_extenders_that_may_fail_are_asked_last() -> None:
    config = KubeSchedulerConfiguration(
        extenders=(
            ExtenderConfig(url_prefix="http://a", ignorable=True),
            ExtenderConfig(url_prefix="http://b"),
            ExtenderConfig(url_prefix="http://c", ignorable=True),
            ExtenderConfig(url_prefix="http://d", filter_verb="f"),
        )
    )
    made = http_extenders(config)
    assert [one.name for one in made] == ["http://b", "http://d", "http://a", "http://c"]
    assert [one.filters for one in made] == [False, True, False, False]


def test_interest_is_a_matter_of_requests_and_limits() -> None:
    managed = (ExtenderManagedResource(name="example.com/d"),)
    extender = HttpExtender(ExtenderConfig(url_prefix="http://x", managed_resources=managed))
    using = {"resources": {"limits": {"example.com/d": "1"}}}
    assert extender.is_interested(make_pod(requests={"example.com/d": "1"}))
    assert extender.is_interested(make_pod(spec={"containers": [using]}))
    assert extender.is_interested(make_pod(spec={"initContainers": [using]}))
    assert not extender.is_interested(POD)
    assert HttpExtender(ExtenderConfig(url_prefix="http://x")).is_interested(POD)


# Objects as the API server sent them.


def read(kind: str, extenders: tuple[HttpExtender, ...], **fields: Any) -> ApiObject:
    document = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "x", "managedFields": [{}]},
        **fields,
    }
    reader = ObjectReader(resource_for(kind), needs_source(extenders))
    found = reader.read(json.dumps(document).encode())  # type: ignore[arg-type]
    assert isinstance(found, ApiObject)
    return found


def test_objects_are_sent_with_all_that_the_model_does_not_know(server: Server) -> None:
    extender = server.extender()
    node = read("Node", (extender,), spec={"podCIDR": "10.0.0.0/24"})
    pod = read("Pod", (extender,), spec={"dnsPolicy": "Default"})
    extender.filter(pod, [node])  # type: ignore[arg-type, list-item]
    [(_, body)] = server.asked
    assert body["Nodes"]["items"] == [
        {"metadata": {"name": "x", "managedFields": [{}]}, "spec": {"podCIDR": "10.0.0.0/24"}}
    ]
    assert body["Pod"] == {"metadata": {"name": "x"}, "spec": {"dnsPolicy": "Default"}}
    extender.close()


def test_objects_are_kept_only_for_those_who_ask_for_them() -> None:
    waiting, placed = make_pod("w"), make_pod("p", node_name="n1")
    node = make_node("n1")

    def kept(**fields: Any) -> list[ApiObject] | None:
        needed = needs_source([HttpExtender(ExtenderConfig(url_prefix="http://x", **fields))])
        return None if needed is None else [obj for obj in (waiting, placed, node) if needed(obj)]

    assert needs_source([]) is None
    assert kept(bind_verb="b") is None
    assert kept(filter_verb="f", node_cache_capable=True) == [waiting]
    assert kept(filter_verb="f") == [waiting, node]
    assert kept(preempt_verb="p") == [waiting, placed]
    assert kept(preempt_verb="p", node_cache_capable=True) == [waiting]
