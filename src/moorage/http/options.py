"""What the serving, authentication and authorisation flags say, as plain values.

Owns the names and the defaults; `app` fills them in from the command line and the rest of this
package acts on them. Nothing here opens a file or a socket.
"""

from dataclasses import dataclass

from moorage.connections.limits import SECURE, ConnectionLimits


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """One `--tls-sni-cert-key`: a pair of files and the host names they are for."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()
    """Host names, `*.example.com` among them; none means those in the certificate."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """Where and how the secure port is served."""

    bind_address: str = "0.0.0.0"
    secure_port: int = 10259
    """0 serves nothing at all."""
    disable_http2: bool = False
    cert_dir: str = ""
    """Where `kube-scheduler.crt` and `.key` are read or made; empty makes them in memory."""
    cert_file: str = ""
    key_file: str = ""
    sni: tuple[SniCertificate, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    min_version: str = ""
    curve_preferences: tuple[int, ...] = ()
    http2_max_streams_per_connection: int = 0
    permit_port_sharing: bool = False
    permit_address_sharing: bool = False
    connections: ConnectionLimits = SECURE


@dataclass(frozen=True, slots=True)
class RequestHeaderOptions:
    """Which proxies are believed when they name the user in headers."""

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_headers_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """Who asks."""

    kubeconfig: str = ""
    """Access for token reviews; empty uses the cluster the process runs in, if any."""
    token_cache_seconds: float = 10.0
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    client_ca_file: str = ""
    request_header: RequestHeaderOptions = RequestHeaderOptions()


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """Who may ask what."""

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    allowed_cache_seconds: float = 10.0
    denied_cache_seconds: float = 10.0
