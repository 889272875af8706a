"""How to reach an API server and as whom: plain values, whatever file they came from.

Filled by `kubeconfig` and `access_discovery`; acted upon by `transport` (TLS, proxies) and
`credentials` (tokens, plugins). Reads no file and opens no connection.
"""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from moorage.redaction import redacted_url


class Pem(msgspec.Struct, frozen=True):
    """Certificates or a key: inline, or in a file that may be replaced while we run."""

    data: bytes = b""
    path: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.path)


class ExecVariable(msgspec.Struct, frozen=True):
    """A variable of a program's environment."""

    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A program that hands out credentials (`client.authentication.k8s.io`)."""

    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    provide_cluster_info: bool = False
    install_hint: str = ""
    cluster_config: Any = None
    """The cluster's extension `client.authentication.k8s.io/exec`, handed to the program."""


class OidcProvider(msgspec.Struct, frozen=True):
    """An identity token and what is needed to refresh it."""

    issuer_url: str
    client_id: str
    client_secret: str = ""
    id_token: str = ""
    refresh_token: str = ""
    ca: Pem = Pem()


class Impersonation(msgspec.Struct, frozen=True):
    """As whom requests are to be treated."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Access(msgspec.Struct, frozen=True):
    """One server and one user of it; `source` is how messages call the place it came from."""

    server: str
    source: str = ""
    namespace: str = "default"
    ca: Pem = Pem()
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    client_certificate: Pem = Pem()
    client_key: Pem = Pem()
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec_plugin: ExecPlugin | None = None
    oidc: OidcProvider | None = None
    impersonate: Impersonation = Impersonation()

    @property
    def address(self) -> str:
        """The server as messages name it: without a password."""
        return redacted_url(self.server)

    def __repr__(self) -> str:
        # The other fields hold credentials, which no message may show by accident.
        return f"Access(server={self.address!r}, source={self.source!r})"


def url_problem(url: str) -> str:
    """Why nothing can be reached at a URL: a port out of range, a bracket that is missing, ..."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # read only when it is asked for
    except ValueError as error:
        # Python quotes what it stumbled over, which may be a part of a password.
        return "it is malformed" if "@" in url else str(error)
    return "" if parts.hostname else "it names no host"
