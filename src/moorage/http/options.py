"""What the serving, authentication and authorisation flags say, as plain values.

Owns names, defaults and the checks that kube-scheduler makes on them before it reads any file.
Messages are kube-scheduler's. `app` fills the values in from the command line and the rest of this
package acts on them. Nothing here opens a file or a socket.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from moorage.config.feature_gates import FeatureGates
from moorage.connections.limits import SECURE, ConnectionLimits

EXPLAIN_PAGE = "/explain/"
EXPLAIN_ASSETS = "/explain/page"
EXPLAIN_PUBLIC_PATHS = (EXPLAIN_PAGE.rstrip("/"), EXPLAIN_PAGE, f"{EXPLAIN_ASSETS}/*")
"""To be answered to anybody, in the form of --authorization-always-allow-paths: a page that may not
be loaded cannot ask for a token."""

_LAST_PORT = 65535
_UID_GATE = "RemoteRequestHeaderUID"


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
    cert_dir: str = ""
    """Where `kube-scheduler.crt` and `.key` are read or made; empty makes them in memory."""
    cert_file: str = ""
    key_file: str = ""
    sni: tuple[SniCertificate, ...] = ()
    cipher_suites: tuple[str, ...] = ()
    min_version: str = ""
    curve_preferences: tuple[int, ...] = ()
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


def option_errors(
    serving: ServingOptions, authentication: AuthenticationOptions, gates: FeatureGates
) -> list[str]:
    """Everything that is wrong."""
    return [
        *_port_errors(serving.secure_port),
        *_header_errors(authentication.request_header, gates),
        *_connection_errors(serving.connections),
    ]


def header_warnings(options: RequestHeaderOptions) -> list[str]:
    """What works, but not with aggregated API servers."""
    expected = (
        ("--requestheader-username-headers", options.username_headers, "X-Remote-User header"),
        ("--requestheader-group-headers", options.group_headers, "X-Remote-Group header"),
        (
            "--requestheader-extra-headers-prefix",
            options.extra_headers_prefixes,
            "X-Remote-Extra- header prefix",
        ),
    )
    return [
        f"{flag} is set without specifying the standard {header} - API aggregation will not work"
        for flag, names, header in expected
        if names and not _has(names, header.split()[0])
    ]


def _port_errors(port: int) -> list[str]:
    # For too high a port upstream names a rule that does not apply here.
    if port > _LAST_PORT:
        return [
            f"--secure-port {port} must be between 1 and 65535, inclusive. "
            "It cannot be turned off with 0"
        ]
    if port < 0:
        return [
            f"--secure-port {port} must be between 0 and 65535, inclusive. "
            "0 for turning off secure port"
        ]
    return []


def _connection_errors(limits: ConnectionLimits) -> list[str]:
    values = (
        ("--max-connections", limits.total),
        ("--max-connections-per-address", limits.per_address),
    )
    return [f"{flag} {value} must be 1 or more" for flag, value in values if value < 1]


def _header_errors(options: RequestHeaderOptions, gates: FeatureGates) -> list[str]:
    errors = _blank_errors("requestheader-username-headers", options.username_headers)
    errors += _blank_errors("requestheader-group-headers", options.group_headers)
    errors += _blank_errors("requestheader-extra-headers-prefix", options.extra_headers_prefixes)
    errors += _blank_errors("requestheader-allowed-names", options.allowed_names)
    if not gates.enabled(_UID_GATE):
        if options.uid_headers:
            errors.append(
                f'--requestheader-uid-headers requires the "{_UID_GATE}" feature to be enabled'
            )
        return errors
    errors += _blank_errors("requestheader-uid-headers", options.uid_headers)
    if options.uid_headers and not _has(options.uid_headers, "X-Remote-Uid"):
        errors.append(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid "
            "header - API aggregation will not work"
        )
    return errors


def _blank_errors(flag: str, names: Iterable[str]) -> list[str]:
    return [] if all(name.strip() for name in names) else [f'empty value in "{flag}"']


def _has(names: Iterable[str], wanted: str) -> bool:
    return any(name.lower() == wanted.lower() for name in names)
