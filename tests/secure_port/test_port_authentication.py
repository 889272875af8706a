"""Who asks: proxies, client certificates, tokens, nobody; and where the authorities come from."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kube.fake_api import failure, run
from moorage.apiserver.authentication import ApiUser
from moorage.apiserver.server import ApiServer
from moorage.errors import InputError
from moorage.http import reviews as reviews_module
from moorage.http.application import build_application, current_user
from moorage.http.authentication import Authenticator, ClientCertificates, Proxies
from moorage.http.certificates import Bundle, ClientCertificate
from moorage.http.delegation import DelegatedAuthentication
from moorage.http.endpoints import Endpoints, NoObserver, Route
from moorage.http.options import AuthenticationOptions, RequestHeaderOptions
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient
from moorage.kube.resources import RESOURCES
from secure_port.port import Port, Reviews, client_context, open_port, write_kubeconfig

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"


async def _whoami(_: web.Request) -> web.Response:
    user = current_user()
    assert user is not None
    extra = {key: list(values) for key, values in user.extra.items()}
    return web.json_response(
        {"name": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    )


ENDPOINTS = Endpoints(extra=[Route("/whoami", _whoami)])


def _bundle(ca: trustme.CA) -> Bundle:
    bundle = Bundle("test")
    bundle.load(ca.cert_pem.bytes())
    return bundle


@asynccontextmanager
async def _port(authentication: DelegatedAuthentication) -> AsyncIterator[Port]:
    async with authentication, open_port(ENDPOINTS, authentication.authenticator) as port:
        yield port


async def _who(port: Port, **asked: Any) -> Any:
    status, body, _ = await port.ask("/whoami", **asked)
    return json.loads(body) if status == 200 else status


def test_a_client_certificate_names_user_and_groups() -> None:
    async def scenario() -> None:
        ca = trustme.CA()
        known = Authenticator(certificates=ClientCertificates(_bundle(ca)))
        async with open_port(ENDPOINTS, known) as port:
            found = await _who(port, context=client_context(ca, "jane", ["team"]))
            assert (found["name"], found["groups"]) == ("jane", ["team", "system:authenticated"])
            (ids,) = found["extra"].values()
            assert ids[0].startswith("X509SHA256=")
            assert len(ids[0]) == len("X509SHA256=") + 64
            nobody = await _who(port)
            assert (nobody["name"], nobody["groups"]) == (
                "system:anonymous",
                ["system:unauthenticated"],
            )

    run(scenario())


def test_a_certificate_of_an_intermediate_authority_leads_to_its_root() -> None:
    async def scenario() -> None:
        ca = trustme.CA()
        known = Authenticator(certificates=ClientCertificates(_bundle(ca)))
        async with open_port(ENDPOINTS, known) as port:
            inner = ca.create_child_ca().create_child_ca()
            assert (await _who(port, context=client_context(inner, "jane")))["name"] == "jane"

    run(scenario())


def test_a_certificate_of_an_unknown_authority_gets_no_connection() -> None:
    async def scenario() -> None:
        known = Authenticator(certificates=ClientCertificates(_bundle(trustme.CA())))
        async with open_port(ENDPOINTS, known) as port:
            with pytest.raises(aiohttp.ClientError):
                await _who(port, context=client_context(trustme.CA(), "jane"))

    run(scenario())


def test_without_authorities_no_certificate_is_asked_for_and_none_hinders() -> None:
    async def scenario() -> None:
        async with open_port(ENDPOINTS, Authenticator()) as port:
            found = await _who(port, context=client_context(trustme.CA(), "jane"))
            assert found["name"] == "system:anonymous"

    run(scenario())


def test_an_authority_that_was_taken_away_no_longer_counts_on_open_connections() -> None:
    async def scenario() -> None:
        old, new = trustme.CA(), trustme.CA()
        bundle = _bundle(old)
        known = Authenticator(certificates=ClientCertificates(bundle))
        connector = aiohttp.TCPConnector(ssl=client_context(old, "jane"))
        async with (
            open_port(ENDPOINTS, known) as port,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            async with session.get(port.url + "/whoami") as answer:
                assert (await answer.json())["name"] == "jane"
            bundle.load(new.cert_pem.bytes())
            async with session.get(port.url + "/whoami") as answer:
                assert answer.status == 401
            assert port.server.reload()
            assert (await _who(port, context=client_context(new, "joe")))["name"] == "joe"

    run(scenario())


PROXY_HEADERS = RequestHeaderOptions(
    username_headers=("X-Other", "X-Remote-User"),
    uid_headers=("X-Remote-Uid",),
    group_headers=("X-Remote-Group",),
    extra_headers_prefixes=("X-Remote-Extra-",),
    allowed_names=("front",),
)
NAMED = {
    "x-remote-user": "jane",
    "X-Remote-Uid": "u1",
    "X-Remote-Group": "a",
    "X-Remote-Extra-Acme.com%2Fscope": "s",
}


def test_a_trusted_proxy_names_the_user_in_headers() -> None:
    async def scenario() -> None:
        clients, front = trustme.CA(), trustme.CA()
        known = Authenticator(
            Proxies(_bundle(front), PROXY_HEADERS), ClientCertificates(_bundle(clients))
        )
        async with open_port(ENDPOINTS, known) as port:
            found = await _who(port, context=client_context(front, "front"), headers=NAMED)
            assert found == {
                "name": "jane",
                "uid": "u1",
                "groups": ["a", "system:authenticated"],
                "extra": {"acme.com/scope": ["s"]},
            }
            # Others may say what they want.
            assert (await _who(port, headers=NAMED))["name"] == "system:anonymous"
            joe = client_context(clients, "joe")
            assert (await _who(port, context=joe, headers=NAMED))["name"] == "joe"
            # A proxy of another name, or one that names nobody, is nobody we know.
            assert await _who(port, context=client_context(front, "back"), headers=NAMED) == 401
            assert await _who(port, context=client_context(front, "front")) == 401

    run(scenario())


def test_tokens_are_reviewed_once_within_their_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            reviews.users["good"] = {"username": "jane", "uid": "7", "groups": ["a"]}
            options = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), skip_lookup=True
            )
            async with _port(DelegatedAuthentication(options)) as port:
                reviews.gate.clear()
                asked = [asyncio.create_task(_who(port, token="good")) for _ in range(5)]
                while not reviews.asked:
                    await asyncio.sleep(0)
                reviews.gate.set()
                found = await asyncio.gather(*asked)
                assert {one["name"] for one in found} == {"jane"}
                assert found[0]["groups"] == ["a", "system:authenticated"]
                assert (await _who(port, token="good"))["uid"] == "7"
                assert len(reviews.asked) == 1
                # What is refused with a reason is asked again each time.
                assert await _who(port, token="bad") == 401
                assert await _who(port, token="bad") == 401
                assert len(reviews.asked) == 3

    run(scenario())


@pytest.mark.parametrize("header", ["Bearer ", "Bearer  good", "Basic Zm9v", "good"])
def test_other_authorization_headers_claim_nothing(header: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            options = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), skip_lookup=True
            )
            async with _port(DelegatedAuthentication(options)) as port:
                found = await _who(port, headers={"Authorization": header})
                assert found["name"] == "system:anonymous"
                assert reviews.asked == []

    run(scenario())


def test_a_review_is_repeated_when_the_server_is_in_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)

    async def trouble(_: web.BaseRequest) -> web.StreamResponse:
        return failure(500, "InternalError")

    async def scenario() -> None:
        async with Reviews() as reviews:
            reviews.users["good"] = {"username": "jane"}
            options = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), skip_lookup=True
            )
            authentication = DelegatedAuthentication(options)
            assert authentication.authenticator.tokens is not None
            authentication.authenticator.tokens._reviewer._sleep = no_wait
            async with _port(authentication) as port:
                reviews.api.faults.extend([trouble] * 4)
                assert (await _who(port, token="good"))["name"] == "jane"
                assert [0.5 * 1.5**n <= wait <= 0.6 * 1.5**n for n, wait in enumerate(waits)] == [
                    True
                ] * 4
                reviews.api.faults.extend([trouble] * 5)
                assert await _who(port, token="other") == 401
                assert len(reviews.asked) == 10

    run(scenario())


def test_an_unreachable_api_server_leaves_tokens_unproven(tmp_path: Path) -> None:
    async def scenario() -> None:
        kubeconfig = write_kubeconfig(tmp_path / "gone", "http://127.0.0.1:1")
        options = AuthenticationOptions(kubeconfig=kubeconfig)
        async with _port(DelegatedAuthentication(options)) as port:
            assert await _who(port, token="any") == 401
            assert (await _who(port))["name"] == "system:anonymous"

    run(scenario())


def test_the_embedded_api_server_reviews_tokens_and_tells_its_authorities(tmp_path: Path) -> None:
    async def scenario() -> None:
        tokens = {"boss": ApiUser("boss", "1", ("system:masters",))}
        server = ApiServer(tokens=tokens)
        await server.start()
        ca, front, later = trustme.CA(), trustme.CA(), trustme.CA()
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        data = {
            "client-ca-file": ca.cert_pem.bytes().decode(),
            "requestheader-client-ca-file": front.cert_pem.bytes().decode(),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-allowed-names": "[]",
        }
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": "kube-system"},
            "data": data,
        }
        maps = RESOURCES["ConfigMap"]
        try:
            async with KubeClient(user_access(str(kubeconfig))) as client:
                await client.create(maps, "kube-system", body)
                authentication = DelegatedAuthentication(
                    AuthenticationOptions(kubeconfig=str(kubeconfig))
                )
                changed = authentication.changed
                async with _port(authentication) as port:
                    assert (await _who(port, token="boss"))["name"] == "boss"
                    assert await _who(port, token="other") == 401
                    assert (await _who(port, context=client_context(ca, "jane")))["name"] == "jane"
                    proxy = client_context(front, "front")
                    assert (await _who(port, context=proxy, headers=NAMED))["name"] == "jane"
                    changed.clear()
                    data["client-ca-file"] = later.cert_pem.bytes().decode()
                    await client.update(maps, "kube-system", NAME, body)
                    await changed.wait()
                    port.server.reload()
                    joe = client_context(later, "joe")
                    assert (await _who(port, context=joe))["name"] == "joe"
        finally:
            await server.stop()

    run(scenario())


def test_a_failed_look_up_is_only_said_unless_it_must_succeed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            refused = web.json_response
            kubeconfig = reviews.kubeconfig(tmp_path)

            async def forbidden(_: web.BaseRequest) -> web.StreamResponse:
                return refused({"kind": "Status", "message": "no", "code": 403}, status=403)

            reviews.api.routes[f"GET {CONFIG_MAP}/{NAME}"] = forbidden
            async with DelegatedAuthentication(AuthenticationOptions(kubeconfig=kubeconfig)):
                pass
            told = "Error looking up in-cluster authentication configuration: no"
            assert told in caplog.messages
            strict = AuthenticationOptions(kubeconfig=kubeconfig, tolerate_lookup_failure=False)
            authentication = DelegatedAuthentication(strict)
            expected = "unable to load configmap based request-header-client-ca-file: no"
            with pytest.raises(InputError, match=expected):
                await authentication.start()
            await authentication.close()

    run(scenario())


def test_a_missing_configmap_is_no_failure(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Reviews() as reviews:
            strict = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), tolerate_lookup_failure=False
            )
            async with DelegatedAuthentication(strict):
                assert reviews.asked[0] == f"GET {CONFIG_MAP}/{NAME}"

    run(scenario())


def test_outside_a_cluster_and_without_a_kubeconfig_everybody_is_anonymous(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        authentication = DelegatedAuthentication(AuthenticationOptions(), env={})
        async with _port(authentication) as port:
            assert (await _who(port, token="any"))["name"] == "system:anonymous"

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert (
        "No authentication-kubeconfig provided in order to lookup client-ca-file in"
        f" configmap/{NAME} in kube-system, so client certificate authentication won't work."
    ) in caplog.messages


def test_authority_files_are_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        old, new = trustme.CA(), trustme.CA()
        file = tmp_path / "ca.crt"
        file.write_bytes(old.cert_pem.bytes())
        authentication = DelegatedAuthentication(
            AuthenticationOptions(client_ca_file=str(file)), env={}
        )
        async with _port(authentication) as port:
            assert (await _who(port, context=client_context(old, "jane")))["name"] == "jane"
            file.write_bytes(b"half written")
            authentication.reload_files()
            assert (await _who(port, context=client_context(old, "jane")))["name"] == "jane"
            file.write_bytes(new.cert_pem.bytes())
            authentication.reload_files()
            port.server.reload()
            assert (await _who(port, context=client_context(new, "joe")))["name"] == "joe"

    run(scenario())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            AuthenticationOptions(client_ca_file="nope"),
            "unable to load client CA provider: open nope: no such file or directory",
        ),
        (
            AuthenticationOptions(client_ca_file="bad"),
            'unable to load client CA provider: error loading CA bundle for "client-ca-bundle::bad"'
            ": data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            AuthenticationOptions(request_header=RequestHeaderOptions(client_ca_file="nope")),
            "unable to create request header authentication config: open nope: no such file or"
            " directory",
        ),
        (
            AuthenticationOptions(request_header=RequestHeaderOptions(client_ca_file="bad")),
            "unable to create request header authentication config: error loading CA bundle for"
            ' "request-header::bad": data does not contain any valid RSA or ECDSA certificates',
        ),
        (
            AuthenticationOptions(kubeconfig="nope"),
            "failed to get delegated authentication kubeconfig: failed to get delegated"
            " authentication kubeconfig: stat nope: no such file or directory",
        ),
    ],
)
def test_unusable_files_are_refused_as_upstream_refuses_them(
    options: AuthenticationOptions,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bad").write_text("garbage\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        DelegatedAuthentication(options, env={})
    assert str(caught.value) == expected


def test_whoever_holds_a_certificate_cannot_issue_more_with_it() -> None:
    ca = trustme.CA()
    bundle = _bundle(ca)
    issued = ca.issue_cert("holder@example.com", common_name="holder")
    holder = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "boss")]))
        .issuer_name(holder.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(holder.not_valid_before_utc)
        .not_valid_after(holder.not_valid_after_utc)
        .sign(key, hashes.SHA256())
    )
    assert bundle.vouches_for(ClientCertificate(holder))
    assert not bundle.vouches_for(ClientCertificate(forged, (holder,)))


def test_a_certificate_counts_only_within_its_time() -> None:
    ca = trustme.CA()
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    issued = ca.issue_cert("jane@example.com", common_name="jane", not_after=ends)
    jane = ClientCertificate(x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()))
    for moment, expected in ((ends - timedelta(days=1), True), (ends + timedelta(days=1), False)):
        bundle = Bundle("test", clock=lambda moment=moment: moment)  # type: ignore[misc]
        bundle.load(ca.cert_pem.bytes())
        assert bundle.vouches_for(jane) is expected


def test_build_application_says_that_nothing_guards_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        build_application(Endpoints(), None, None)
    assert caplog.messages == ["Authentication is disabled", "Authorization is disabled"]


@pytest.mark.parametrize(
    "header", [b"Authorization: Bearer \xff\xfe", b"X-Remote-User: \xff", b"User-Agent: \xff"]
)
def test_bytes_that_are_no_text_do_no_harm(
    header: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        front = trustme.CA()
        async with Reviews() as reviews:
            options = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), skip_lookup=True
            )
            authentication = DelegatedAuthentication(options)
            headers = RequestHeaderOptions(username_headers=("X-Remote-User",))
            authentication.authenticator.proxies = Proxies(_bundle(front), headers)
            async with _port(authentication) as port:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port.server.port, ssl=client_context(front, "front")
                )
                writer.write(b"GET /whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
                writer.write(header + b"\r\n\r\n")
                status = (await reader.read()).split()[1]
                assert status == (b"401" if header.startswith(b"A") else b"200")
                writer.close()
                await writer.wait_closed()

    with caplog.at_level(1):
        run(scenario())
    assert "panic" not in caplog.text


class _Listening(NoObserver):
    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def authenticated(self, result: str, user: str, seconds: float) -> None:
        self.heard.append((result, user))

    def token_cached(self, hit: bool, seconds: float) -> None:
        self.heard.append(("hit" if hit else "miss",))

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        self.heard.append((kind, code))

    def client_certificate(self, seconds_left: float) -> None:
        self.heard.append((seconds_left > 0,))


def test_the_observer_hears_how_users_were_recognised(tmp_path: Path) -> None:
    async def scenario() -> None:
        observer = _Listening()
        async with Reviews() as reviews:
            reviews.users["good"] = {"username": "jane"}
            options = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), skip_lookup=True
            )
            async with _port(DelegatedAuthentication(options, observer=observer)) as port:
                for token in ("good", "good", "bad", ""):
                    await _who(port, token=token)
                await reviews.api.stop()
                await _who(port, token="late")
        review = "TokenReview"
        assert observer.heard == [
            *((review, "201"), ("miss",), ("success", "jane")),
            *(("hit",), ("success", "jane")),
            *((review, "201"), ("miss",), ("error", "")),
            ("success", "system:anonymous"),
            *((review, "<error>"), ("miss",), ("error", "")),
        ]
        ca = trustme.CA()
        observer = _Listening()
        known = Authenticator(
            certificates=ClientCertificates(_bundle(ca), observer), observer=observer
        )
        async with open_port(ENDPOINTS, known) as port:
            await _who(port, context=client_context(ca, "jane"))
        assert observer.heard == [(True,), ("success", "jane")]

    run(scenario())


def test_a_review_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews_module, "TIMEOUT", 0.05)

    async def scenario() -> None:
        async with Reviews() as reviews:
            reviews.gate.clear()
            options = AuthenticationOptions(
                kubeconfig=reviews.kubeconfig(tmp_path), skip_lookup=True
            )
            async with _port(DelegatedAuthentication(options)) as port:
                assert await _who(port, token="any") == 401
                assert len(reviews.asked) == 1
            reviews.gate.set()

    run(scenario())
