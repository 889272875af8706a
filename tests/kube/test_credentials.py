"""Credentials that change while we run, over real HTTP and real TLS."""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from kube.fake_api import FakeApi, JumpingTimer, failure, run
from moorage.config.feature_gates import FeatureGates
from moorage.errors import ApiError, KubeconfigError
from moorage.kube.access import Access, ExecPlugin, Impersonation, OidcProvider
from moorage.kube.client import KubeClient
from moorage.kube.exec_plugin import ExecSource
from moorage.kube.requests import Request
from moorage.metrics.exporter import AllMetrics

ASK = Request("GET", "/whoami")
V1 = "client.authentication.k8s.io/v1"


async def _fine(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({})


class Guarded(FakeApi):
    """A server that lets in whoever has the right token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token
        self.routes["GET /whoami"] = self._check

    async def _check(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return failure(401, "Unauthorized")
        return web.json_response({})


def _client(access: Access, timer: JumpingTimer | None = None) -> KubeClient:
    return KubeClient(access, timer=timer or JumpingTimer(), qps=0, env={"PATH": "/usr/bin:/bin"})


def test_token_file_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = tmp_path / "token"
        file.write_text("one\n")
        timer = JumpingTimer()
        async with Guarded("one") as api:
            access = Access(server=api.url, token_file=str(file))
            async with _client(access, timer) as client:
                await client.send(ASK)
                file.write_text("two\n")
                await client.send(ASK)  # within the minute the old one is still used
                api.token = "two"
                await client.send(ASK)  # refused once, read again, accepted
                assert [h.get("Authorization") for h in api.headers] == [
                    "Bearer one",
                    "Bearer one",
                    "Bearer one",
                    "Bearer two",
                ]
                file.write_text("three")
                api.token = "three"
                timer.time += 61
                await client.send(ASK)  # after a minute without being refused first
                assert len(api.requests) == 5
                file.unlink()
                timer.time += 61
                await client.send(ASK)  # the last good one is kept
                api.token = "four"
                with pytest.raises(ApiError, match="does not accept the credentials"):
                    await client.send(ASK)

    run(scenario())


def test_missing_token_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        access = Access(server="http://localhost:1", token_file=str(tmp_path / "none"))
        async with _client(access) as client:
            with pytest.raises(KubeconfigError, match="No such file"):
                await client.send(ASK)

    run(scenario())


def test_static_credentials_and_impersonation() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.routes["GET /whoami"] = _fine
            access = Access(
                server=api.url,
                username="jane",
                password="pw",
                impersonate=Impersonation("root", "7", ("g1", "g2"), (("a/b", ("v",)),)),
            )
            async with _client(access) as client:
                await client.send(ASK)
            headers = api.headers[0]
            basic = base64.b64encode(b"jane:pw").decode()
            assert headers["Authorization"] == f"Basic {basic}"
            assert headers["Impersonate-User"] == "root"
            assert headers["Impersonate-Uid"] == "7"
            assert headers.getall("Impersonate-Group") == ["g1", "g2"]
            assert headers["Impersonate-Extra-a%2Fb"] == "v"

    run(scenario())


def _plugin(path: Path, answer: dict[str, Any] | str, **more: Any) -> ExecPlugin:
    """A program that counts its runs, keeps what it was told and prints `answer`."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    path.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib\n"
        f"here = pathlib.Path({str(path)!r})\n"
        "runs = here.with_suffix('.runs')\n"
        "count = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(count))\n"
        "here.with_suffix('.info').write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"print({text!r}.replace('COUNT', str(count)))\n"
    )
    path.chmod(0o755)
    return ExecPlugin(command=str(path), api_version=more.pop("api_version", V1), **more)


def _credential(api_version: str = V1, **status: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "ExecCredential", "status": status}


@pytest.mark.parametrize("version", [V1, V1 + "beta1"])
def test_exec_plugin_is_run_when_needed(tmp_path: Path, version: str) -> None:
    async def scenario() -> None:
        timer = JumpingTimer(1_700_000_000.0)
        expiry = "2023-11-14T22:23:20Z"  # ten minutes after the timer's start
        plugin = _plugin(
            tmp_path / "login",
            _credential(version, token="t-COUNT", expirationTimestamp=expiry),
            api_version=version,
            provide_cluster_info=True,
            cluster_config={"audience": "a"},
        )
        async with Guarded("t-1") as api:
            access = Access(server=api.url, exec_plugin=plugin, tls_server_name="inner")
            async with _client(access, timer) as client:
                await client.send(ASK)
                await client.send(ASK)
                assert (tmp_path / "login.runs").read_text() == "1"
                info = json.loads((tmp_path / "login.info").read_text())
                assert info == {
                    "apiVersion": version,
                    "kind": "ExecCredential",
                    "spec": {
                        "interactive": False,
                        "cluster": {
                            "server": api.url,
                            "tls-server-name": "inner",
                            "config": {"audience": "a"},
                        },
                    },
                }
                api.token = "t-2"
                timer.time += 599
                await client.send(ASK)  # not expired but refused: run once more
                assert (tmp_path / "login.runs").read_text() == "2"
                timer.time += 2
                api.token = "t-3"
                await client.send(ASK)  # expired
                assert (tmp_path / "login.runs").read_text() == "3"

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("no json", "did not print JSON"),
        ({"kind": "Pod"}, "did not print an ExecCredential"),
        (_credential("v2", token="t"), "answered in v2"),
        (_credential(), "neither a token nor"),
        (_credential(clientKeyData="k"), "not both"),
        (_credential(token="t", expirationTimestamp="soon"), "which is no time"),
    ],
)
def test_bad_plugins_are_one_sentence(tmp_path: Path, answer: Any, complaint: str) -> None:
    async def scenario() -> None:
        plugin = _plugin(tmp_path / "login", answer)
        access = Access(server="http://localhost:1", exec_plugin=plugin)
        async with _client(access) as client:
            with pytest.raises(KubeconfigError) as caught:
                await client.send(ASK)
        assert str(caught.value).startswith(f"the credential plugin {plugin.command} ")
        assert complaint in str(caught.value)

    run(scenario())


def test_plugin_that_fails_or_is_missing(tmp_path: Path) -> None:
    metrics = AllMetrics(FeatureGates())

    async def scenario() -> None:
        script = tmp_path / "fails"
        script.write_text("#!/bin/sh\necho please log in >&2\nexit 3\n")
        script.chmod(0o755)
        for command, complaint in [
            (str(script), "failed with exit code 3: please log in"),
            ("/no/such/plugin", "cannot be run: No such file or directory; ask Bob"),
        ]:
            plugin = ExecPlugin(command=command, api_version=V1, install_hint="ask\nBob")
            access = Access(server="http://localhost:1", exec_plugin=plugin)
            async with KubeClient(access, env={}, observe=metrics.client) as client:
                with pytest.raises(KubeconfigError, match=complaint):
                    await client.send(ASK)

    run(scenario())
    told = metrics.render()[1].decode()
    calls = "rest_client_exec_plugin_call_total{call_status="
    assert f'{calls}"plugin_execution_error",code="3"}} 1' in told
    assert f'{calls}"plugin_not_found_error",code="1"}} 1' in told
    assert "\nrest_client_exec_plugin_ttl_seconds +Inf\n" in told
    assert "\nrest_client_exec_plugin_certificate_rotation_age_count 0\n" in told


def test_a_certificate_of_a_plugin_is_measured_until_it_is_rotated(tmp_path: Path) -> None:
    now = datetime(2024, 1, 1, 12, tzinfo=UTC)
    metrics = AllMetrics(FeatureGates(), clock=now.timestamp)
    authority = trustme.CA()

    def issued(hours: float) -> dict[str, Any]:
        leaf = authority.issue_cert(
            "me", not_before=now - timedelta(hours=2), not_after=now + timedelta(hours=hours)
        )
        data = {"clientCertificateData": leaf.cert_chain_pems[0].bytes().decode()}
        return _credential(clientKeyData=leaf.private_key_pem.bytes().decode(), **data)

    async def scenario() -> None:
        login = tmp_path / "login"
        access = Access(server="http://localhost:1")
        source = ExecSource(access, _plugin(login, issued(1)), observe=metrics.client)
        await source.fetch()
        _plugin(login, issued(3))
        await source.fetch()

    run(scenario())
    told = metrics.render()[1].decode()
    assert "\nrest_client_exec_plugin_ttl_seconds 10800\n" in told
    assert "\nrest_client_exec_plugin_certificate_rotation_age_sum 7200\n" in told


def _token(expires: float) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': expires})}.x"


def test_oidc_token_is_refreshed() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        old, new, newer = (_token(timer.time + t) for t in (100, 200, 400))
        async with Guarded(old) as api:
            answers = iter([new, newer])

            async def discovery(_: web.BaseRequest) -> web.StreamResponse:
                return web.json_response({"token_endpoint": f"{api.url}/token"})

            async def issue(request: web.BaseRequest) -> web.StreamResponse:
                form = await request.text()
                forms.append(form)
                return web.json_response({"id_token": next(answers), "refresh_token": "r2"})

            forms: list[str] = []
            api.routes["GET /.well-known/openid-configuration"] = discovery
            api.faults.clear()
            provider = OidcProvider(api.url, "me", "secret", old, "r1")
            api.routes["POST /token"] = issue
            async with _client(Access(server=api.url, oidc=provider), timer) as client:
                await client.send(ASK)
                assert not forms
                timer.time += 95  # within the leeway of its end
                api.token = new
                await client.send(ASK)
                assert forms == ["grant_type=refresh_token&refresh_token=r1&client_id=me"]
                timer.time += 100
                api.token = newer
                await client.send(ASK)
                assert "refresh_token=r2" in forms[1]

    run(scenario())


def test_oidc_without_refresh_token() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        provider = OidcProvider("http://localhost:1", "me", id_token=_token(timer.time - 1))
        access = Access(server="http://localhost:1", oidc=provider)
        async with _client(access, timer) as client:
            with pytest.raises(KubeconfigError, match="no refresh-token"):
                await client.send(ASK)

    run(scenario())
