"""Connections: trust, client certificates and proxies, over real TLS."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from kube.fake_api import FakeApi, JumpingTimer, run
from moorage.errors import KubeconfigError, UnreachableError
from moorage.kube.access import Access, ExecPlugin, Pem
from moorage.kube.client import KubeClient
from moorage.kube.proxies import proxy_for
from moorage.kube.requests import Request

ASK = Request("GET", "/whoami")


def _client(access: Access, timer: JumpingTimer | None = None) -> KubeClient:
    return KubeClient(access, timer=timer or JumpingTimer(), qps=0, env={"PATH": "/usr/bin:/bin"})


class Authority:
    """A certificate authority with a server that asks for client certificates."""

    def __init__(self) -> None:
        self.ca = trustme.CA()
        self.pem = self.ca.cert_pem.bytes()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert("localhost", "inner.example").configure_cert(self.context)

    def require_clients(self) -> None:
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.ca.configure_trust(self.context)

    def client(self, name: str) -> tuple[bytes, bytes]:
        issued = self.ca.issue_cert(common_name=name)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return chain, issued.private_key_pem.bytes()


async def _peer(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = [pair[0][1] for pair in certificate.get("subject", ()) if pair[0][0] == "commonName"]
    return web.json_response({"names": names})


async def _tls_server(authority: Authority) -> FakeApi:
    api = FakeApi()
    api.routes["GET /whoami"] = _peer
    await api.start(ssl=authority.context)
    return api


def test_custom_authority_and_server_name() -> None:
    async def scenario() -> None:
        authority = Authority()
        api = await _tls_server(authority)
        ca = Pem(data=authority.pem)
        for access in (
            Access(server=api.url, ca=ca),
            Access(server=api.url, ca=ca, tls_server_name="inner.example"),
            Access(server=api.url, insecure=True),
        ):
            async with _client(access) as client:
                await client.send(ASK)
        await api.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("ca", "name", "complaint"),
    [
        ("other", "", "its certificate is not trusted: "),
        ("none", "", "its certificate is not trusted: "),
        ("right", "wrong.example", "Hostname mismatch"),
    ],
)
def test_untrusted_servers_are_one_sentence(ca: str, name: str, complaint: str) -> None:
    async def scenario() -> None:
        authority = Authority()
        api = await _tls_server(authority)
        pems = {"other": Authority().pem, "none": b"", "right": authority.pem}
        access = Access(server=api.url, ca=Pem(data=pems[ca]), tls_server_name=name)
        async with _client(access) as client:
            with pytest.raises(UnreachableError) as caught:
                await client.send(ASK)
        assert complaint in str(caught.value)
        assert str(caught.value).startswith(f"the API server {api.url} cannot be reached: ")
        await api.stop()

    run(scenario())


def test_client_certificate_in_files_is_reloaded(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.require_clients()
        api = await _tls_server(authority)
        certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        timer = JumpingTimer()

        def issue(name: str) -> None:
            chain, secret = authority.client(name)
            certificate.write_bytes(chain)
            key.write_bytes(secret)

        issue("first")
        access = Access(
            server=api.url,
            ca=Pem(data=authority.pem),
            client_certificate=Pem(path=str(certificate)),
            client_key=Pem(path=str(key)),
        )
        async with _client(access, timer) as client:
            assert (await client.json(ASK))["names"] == ["first"]
            issue("second")
            timer.time += 61
            assert (await client.json(ASK))["names"] == ["second"]
        await api.stop()

    run(scenario())


def test_client_certificate_inline_and_from_a_plugin(tmp_path: Path) -> None:
    async def scenario() -> None:
        authority = Authority()
        authority.require_clients()
        api = await _tls_server(authority)
        chain, key = authority.client("jane")
        status = {"clientCertificateData": chain.decode(), "clientKeyData": key.decode()}
        version = "client.authentication.k8s.io/v1"
        answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        (tmp_path / "answer").write_text(json.dumps(answer))
        plugin = ExecPlugin("cat", version, args=(str(tmp_path / "answer"),))
        ca = Pem(data=authority.pem)
        for access in (
            Access(server=api.url, ca=ca, client_certificate=Pem(chain), client_key=Pem(key)),
            Access(server=api.url, ca=ca, exec_plugin=plugin),
        ):
            async with _client(access) as client:
                assert (await client.json(ASK))["names"] == ["jane"]
        await api.stop()

    run(scenario())


def test_unusable_certificates_are_one_sentence(tmp_path: Path) -> None:
    async def scenario() -> None:
        chain, _ = Authority().client("jane")
        _, key = Authority().client("other")
        for access, complaint in [
            (Access(server="https://localhost:1", ca=Pem(data=b"junk")), "holds no usable"),
            (Access(server="https://localhost:1", ca=Pem(path="/no/ca")), "/no/ca: No such file"),
            (
                Access(
                    server="https://localhost:1", client_certificate=Pem(chain), client_key=Pem(key)
                ),
                "the client certificate and key cannot be used",
            ),
        ]:
            async with _client(access) as client:
                with pytest.raises(KubeconfigError, match=complaint):
                    await client.send(ASK)

    run(scenario())


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://api:6443", {"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ("https://api:6443", {"https_proxy": "http://p"}, "http://p"),
        ("https://api:6443", {"HTTP_PROXY": "http://p"}, None),
        ("http://api", {"HTTP_PROXY": "http://p"}, "http://p"),
        ("https://localhost:1", {"HTTPS_PROXY": "p"}, None),
        ("https://127.0.0.1:1", {"HTTPS_PROXY": "p"}, None),
        ("https://a.b.c", {"HTTPS_PROXY": "p", "NO_PROXY": "b.c"}, None),
        ("https://b.c", {"HTTPS_PROXY": "p", "NO_PROXY": "x, b.c"}, None),
        ("https://b.c", {"HTTPS_PROXY": "p", "NO_PROXY": ".b.c"}, "http://p"),
        ("https://ab.c", {"HTTPS_PROXY": "p", "NO_PROXY": "b.c"}, "http://p"),
        ("https://10.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://10.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.1.2.3"}, None),
        ("https://a:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "a:443"}, "http://p"),
        ("https://a:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "a:6443"}, None),
        ("https://a", {"HTTPS_PROXY": "p", "NO_PROXY": "*"}, None),
    ],
)
def test_proxies_of_the_environment(url: str, env: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, env) == proxy


def test_proxy_url_of_kubeconfig_is_used() -> None:
    async def scenario() -> None:
        async with FakeApi() as proxy:
            seen: list[str] = []

            async def forward(request: web.BaseRequest) -> web.StreamResponse:
                seen.append(request.headers["Host"])
                return web.json_response({})

            proxy.routes["GET /whoami"] = forward
            access = Access(server="http://api.example:80", proxy_url=proxy.url)
            async with _client(access) as client:
                await client.send(ASK)
            assert seen == ["api.example:80"]

    run(scenario())
    with pytest.raises(KubeconfigError, match="only http and https proxies"):
        _client(Access(server="http://api", proxy_url="socks5://p"))


class TunnelProxy:
    """A proxy for tunnels, all of which lead to one port."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.1 200 Connection established") -> None:
        self._port = port
        self._answer = answer
        self.asked: list[bytes] = []

    @asynccontextmanager
    async def serving(self, context: ssl.SSLContext | None) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer + b"\r\n\r\n")
        if b" 200 " in self._answer:
            there, back = await asyncio.open_connection("localhost", self._port)
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        await writer.drain()
        writer.transport.abort()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(4096):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        return  # the other side hung up
    finally:
        sink.transport.abort()


@pytest.mark.parametrize("secure", [False, True])
def test_a_server_with_tls_is_reached_through_a_tunnel(
    secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        authority, of_proxy = Authority(), Authority()
        (tmp_path / "ca.pem").write_bytes(of_proxy.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        api = await _tls_server(authority)
        proxy = TunnelProxy(int(api.url.rpartition(":")[2]))
        async with proxy.serving(of_proxy.context if secure else None) as port:
            scheme = "https" if secure else "http"
            access = Access(
                server="https://inner.example:6443",
                ca=Pem(data=authority.pem),
                proxy_url=f"{scheme}://user:s3cret@localhost:{port}",
            )
            async with _client(access) as client:
                for _ in range(2):
                    assert await client.json(ASK) == {"names": []}
                async with client.stream(ASK) as read:
                    assert await read()
        head = proxy.asked[0]
        assert head.startswith(
            b"CONNECT inner.example:6443 HTTP/1.1\r\nHost: inner.example:6443\r\n"
        )
        assert b"Proxy-Authorization: Basic dXNlcjpzM2NyZXQ=\r\n" in head
        assert len(proxy.asked) == 2, "one connection for short requests, one for the stream"
        await api.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 407 Who are you?", "the proxy answered 407 Who are you?"),
        (b"220 mail.example", "of its proxy: its answer is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK", "its certificate is not trusted"),
    ],
)
def test_a_tunnel_that_leads_nowhere_is_one_sentence(answer: bytes, complaint: str) -> None:
    async def scenario() -> None:
        api = await _tls_server(Authority())
        proxy = TunnelProxy(int(api.url.rpartition(":")[2]), answer)
        async with proxy.serving(None) as port:
            access = Access(server="https://api.example", proxy_url=f"localhost:{port}")
            async with _client(access) as client:
                with pytest.raises(UnreachableError, match=re.escape(complaint)) as caught:
                    await client.send(ASK)
                assert not caught.value.maybe_applied
        await api.stop()

    run(scenario())


@pytest.mark.parametrize("proxy", ["p:99999", "http://p:abc", "http://[::1"])
def test_a_proxy_that_nobody_can_reach_is_one_sentence(proxy: str) -> None:
    with pytest.raises(KubeconfigError, match=f"the proxy {re.escape(proxy)} is not a URL: "):
        proxy_for("https://api", {"HTTPS_PROXY": proxy})
