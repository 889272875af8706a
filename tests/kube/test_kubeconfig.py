"""Kubeconfig files and service accounts: what becomes of them, and what is said of bad ones."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.errors import KubeconfigError
from moorage.kube.access import Access, ExecPlugin, ExecVariable, Impersonation, OidcProvider, Pem
from moorage.kube.access_discovery import in_cluster_access, scheduler_access, user_access
from moorage.kube.kubeconfig import Kubeconfig, default_paths


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _write(path: Path, **parts: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **parts}))
    return str(path)


def _simple(path: Path, cluster: dict[str, Any] | None = None, **user: Any) -> str:
    return _write(
        path,
        clusters=[{"name": "c", "cluster": {"server": "https://api:6443", **(cluster or {})}}],
        users=[{"name": "u", "user": user}],
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        **{"current-context": "x"},
    )


def _access(path: str) -> Access:
    return scheduler_access(path, env={})


def test_token_and_namespace(tmp_path: Path) -> None:
    access = _access(_simple(tmp_path / "config", token="secret"))
    assert access.server == "https://api:6443"
    assert access.token == "secret"
    assert access.namespace == "team"


def test_certificates_inline_and_in_files(tmp_path: Path) -> None:
    inline = _simple(
        tmp_path / "inline",
        {"certificate-authority-data": _encoded("CA")},
        **{"client-certificate-data": _encoded("CERT"), "client-key-data": _encoded("KEY")},
    )
    access = _access(inline)
    assert access.ca == Pem(data=b"CA")
    assert (access.client_certificate, access.client_key) == (Pem(data=b"CERT"), Pem(data=b"KEY"))
    files = _simple(
        tmp_path / "sub" / "files",
        {"certificate-authority": "ca.crt"},
        **{"client-certificate": "/abs/cert", "client-key": "../key"},
    )
    access = _access(files)
    assert access.ca.path == str(tmp_path / "sub" / "ca.crt")
    assert access.client_certificate.path == "/abs/cert"
    assert access.client_key.path == str(tmp_path / "sub" / "../key")


def test_everything_else_that_a_user_may_say(tmp_path: Path) -> None:
    path = _simple(
        tmp_path / "config",
        {
            "tls-server-name": "inner",
            "proxy-url": "http://proxy:3128",
            "extensions": [
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
            ],
        },
        tokenFile="token",
        username="jane",
        password="pw",
        exec={
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login",
            "args": ["--x"],
            "env": [{"name": "A", "value": "b"}],
            "provideClusterInfo": True,
            "interactiveMode": "Never",
            "installHint": "get it",
        },
        **{
            "as": "root",
            "as-uid": "0",
            "as-groups": ["g1", "g2"],
            "as-user-extra": {"reason": ["why"]},
        },
    )
    access = _access(path)
    assert access.token_file == str(tmp_path / "token")
    assert (access.username, access.password) == ("jane", "pw")
    assert (access.tls_server_name, access.proxy_url) == ("inner", "http://proxy:3128")
    assert access.impersonate == Impersonation("root", "0", ("g1", "g2"), (("reason", ("why",)),))
    assert access.exec_plugin == ExecPlugin(
        command=str(tmp_path / "login"),
        api_version="client.authentication.k8s.io/v1",
        args=("--x",),
        env=(ExecVariable("A", "b"),),
        provide_cluster_info=True,
        install_hint="get it",
        cluster_config={"audience": "a"},
    )


def test_oidc_provider(tmp_path: Path) -> None:
    config = {
        "idp-issuer-url": "https://idp/",
        "client-id": "me",
        "client-secret": "s",
        "id-token": "a.b.c",
        "refresh-token": "r",
        "idp-certificate-authority": "idp.crt",
    }
    path = _simple(tmp_path / "config", **{"auth-provider": {"name": "oidc", "config": config}})
    assert _access(path).oidc == OidcProvider(
        "https://idp", "me", "s", "a.b.c", "r", Pem(path=str(tmp_path / "idp.crt"))
    )


def test_the_first_file_wins(tmp_path: Path) -> None:
    first = _write(
        tmp_path / "first",
        clusters=[{"name": "c", "cluster": {"server": "https://first"}}],
    )
    second = _write(
        tmp_path / "second",
        clusters=[
            {"name": "c", "cluster": {"server": "https://second"}},
            {"name": "d", "cluster": {"server": "https://other"}},
        ],
        contexts=[
            {"name": "x", "context": {"cluster": "c"}},
            {"name": "y", "context": {"cluster": "d"}},
        ],
        **{"current-context": "x"},
    )
    env = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    assert user_access(env=env).server == "https://first"
    assert user_access(context="y", env=env).server == "https://other"
    assert Kubeconfig(default_paths(env), must_exist=False).contexts == ("x", "y")
    assert default_paths({"HOME": "/home/jane"}) == ("/home/jane/.kube/config",)


def test_master_replaces_the_server(tmp_path: Path) -> None:
    path = _simple(tmp_path / "config", token="t")
    access = scheduler_access(path, "https://elsewhere:1", env={})
    assert (access.server, access.token) == ("https://elsewhere:1", "t")
    assert scheduler_access("", "localhost:8080", env={}).server == "http://localhost:8080"


def test_service_account_of_the_pod(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster_access(env=env, service_account=tmp_path) is None
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("ca")
    access = scheduler_access(env=env, service_account=tmp_path)
    assert access.server == "https://[fd00::1]:443"
    assert access.token_file == str(tmp_path / "token")
    assert access.ca.path == str(tmp_path / "ca.crt")


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no configuration has been provided"):
        scheduler_access(env={}, service_account=tmp_path)
    with pytest.raises(KubeconfigError, match="no configuration has been provided"):
        user_access(env={"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (": {", "is not YAML"),
        ("[]", "is not a mapping"),
        ("", "no configuration has been provided"),
        ("clusters: {}\ncontexts: 3", "contexts must be a list"),
        ("contexts: [{context: {}}]", "an entry of contexts has no name"),
        ("contexts: [{name: x, context: {}}]", "current-context is not set"),
        ("current-context: x\nusers: [{name: u, user: {}}]", 'the context "x" does not exist'),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]",
            'the cluster "c" of the context "x" does not exist',
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {}}]",
            'the cluster "c" names no server',
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://a'}}]",
            'the user "u" of the context "x" does not exist',
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: 'ftp://a'}}]",
            "is not an http or https URL",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: 7}}]",
            'context "x": cluster must be a string, not the number 7',
        ),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError) as caught:
        _access(str(path))
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "server",
    ["https://a:99999", "https://a:abc", "https://a:-5", "https://[::1", "[::1", "https://:443"],
)
def test_servers_that_nobody_can_reach_are_one_sentence(tmp_path: Path, server: str) -> None:
    path = _simple(tmp_path / "config", {"server": server})
    with pytest.raises(KubeconfigError, match=f'"{re.escape(server)}" is not an http') as caught:
        _access(path)
    assert path in str(caught.value)
    with pytest.raises(KubeconfigError, match=f'the server "{re.escape(server)}" is not'):
        scheduler_access(master=server, env={})


@pytest.mark.parametrize(
    ("user", "complaint"),
    [
        ({"client-key": "k"}, "has no client-certificate"),
        ({"client-certificate-data": "!", "client-key": "k"}, "is not base64"),
        ({"as-groups": ["g"]}, "but no as"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "names no command"),
        ({"exec": {"command": "x", "apiVersion": "v7"}}, 'apiVersion "v7" is not'),
        ({"auth-provider": {"name": "gcp"}}, 'the auth provider "gcp" is not supported'),
        ({"auth-provider": {"name": "oidc"}}, "needs idp-issuer-url"),
    ],
)
def test_bad_users_are_one_sentence(tmp_path: Path, user: dict[str, Any], complaint: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        _access(_simple(tmp_path / "config", **user))
    assert complaint in str(caught.value)


def test_a_file_that_is_not_there_or_no_file_is_told_in_upstreams_words(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(KubeconfigError, match=f"^stat {missing}: no such file or directory$"):
        _access(str(missing))
    reason = f'error loading config file "{tmp_path}": read {tmp_path}: is a directory'
    with pytest.raises(KubeconfigError, match=f"^{reason}$"):
        _access(str(tmp_path))


def test_a_relative_exec_command_of_a_relative_file_is_not_looked_for_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"}
    _simple(tmp_path / "kc", exec=plugin)
    monkeypatch.chdir(tmp_path)
    found = _access("kc").exec_plugin
    assert found is not None
    assert found.command == str(tmp_path / "login")


def test_authority_and_insecure_exclude_each_other(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "x", "insecure-skip-tls-verify": True}
    with pytest.raises(KubeconfigError, match="insecure-skip-tls-verify is not allowed"):
        _access(_simple(tmp_path / "config", cluster))
