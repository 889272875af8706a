"""A password in the address of a server, a proxy or an extender is in no message."""

import asyncio
from pathlib import Path

import pytest

from moorage.app.merged_config import log_or_write_config
from moorage.config import load_config, shown_config
from moorage.config.types import ExtenderConfig
from moorage.errors import ConfigError, ExtenderError, KubeconfigError, MoorageError
from moorage.kube.access import Access, OidcProvider, Pem
from moorage.kube.client import KubeClient
from moorage.kube.http_extender import HttpExtender
from moorage.kube.kubeconfig import server_url
from moorage.kube.proxies import usable_proxy
from moorage.kube.requests import Request
from moorage.model.pod import Pod
from moorage.redaction import redacted_url

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host:6443", "https://host:6443"),
        ("https://user@host", "https://user@host"),
        ("https://user:s3cret@host:6443/a@b", "https://user:xxxxx@host:6443/a@b"),
        ("https://user:s3@cret@host", "https://user:xxxxx@host"),
        ("https://user:s3/cret@host", "https://user:xxxxx@host"),
        ("https://user:s3cret@[::1", "https://user:xxxxx@[::1"),
        ("user:s3cret@host:80", "user:xxxxx@host:80"),
        ("host:80", "host:80"),
        ("https://host?token=s3cret", "https://host?token=xxxxx"),
        ("", ""),
    ],
)
def test_a_url_is_shown_as_go_redacts_it(url: str, shown: str) -> None:
    assert redacted_url(url) == shown


@pytest.mark.parametrize(
    "url", ["https://user:s3cret@[::1", "ftp://user:s3cret@h", "https://u:s3cret/s3cret@h"]
)
def test_a_wrong_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(KubeconfigError) as of_server:
        server_url(url, tls=True)
    with pytest.raises(KubeconfigError) as of_proxy:
        usable_proxy(url)
    assert SECRET not in f"{of_server.value} {of_proxy.value}"


def test_a_server_that_cannot_be_reached_is_named_without_its_password() -> None:
    async def ask(proxy: str) -> str:
        access = Access(server="http://user:s3cret@127.0.0.1:1", proxy_url=proxy)
        async with KubeClient(access) as client:
            with pytest.raises(MoorageError) as caught:
                await client.send(Request("GET", "/api"))
        return str(caught.value)

    for proxy in ("", "http://user:s3cret@127.0.0.1:1"):
        message = asyncio.run(ask(proxy))
        assert SECRET not in message
        assert "http://user:xxxxx@127.0.0.1:1" in message


def test_an_access_does_not_show_its_credentials() -> None:
    access = Access(
        server="https://user:s3cret@host",
        source="a file",
        token="s3cret",
        password="s3cret",
        client_key=Pem(data=b"s3cret"),
        oidc=OidcProvider("https://issuer", "id", client_secret="s3cret"),
    )
    assert SECRET not in repr(access)
    assert SECRET not in str([access])


def test_an_extender_is_named_without_its_password() -> None:
    extender = HttpExtender(
        ExtenderConfig(url_prefix="http://user:s3cret@127.0.0.1:1/x", filter_verb="filter"), env={}
    )
    assert extender.name == "http://user:xxxxx@127.0.0.1:1/x"
    with pytest.raises(ExtenderError) as caught:
        extender.filter(Pod(), ())
    assert SECRET not in str(caught.value)
    assert "user:xxxxx@" in str(caught.value)


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://user:s3cret@host/x
  filterVerb: filter
  tlsConfig: {keyData: czNjcmV0}
"""


def test_a_wrong_address_of_an_extender_is_refused_without_its_password() -> None:
    text = CONFIG.replace("@host", ":s3cret/s3cret@host")
    with pytest.raises(ConfigError) as caught:
        load_config(text.encode(), "scheduler.yaml")
    assert SECRET not in str(caught.value)


def test_the_configuration_is_shown_without_passwords_and_keys() -> None:
    (extender,) = shown_config(load_config(CONFIG.encode(), "scheduler.yaml"))["extenders"]
    assert extender["urlPrefix"] == "https://user:xxxxx@host/x"
    assert extender["tlsConfig"] == {"keyData": "xxxxx"}


def test_the_configuration_is_written_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.yaml"
    path.write_text("older")
    path.chmod(0o644)
    config = load_config(CONFIG.encode(), "scheduler.yaml")
    log_or_write_config(config, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_config(path.read_bytes(), "out.yaml").extenders == config.extenders
