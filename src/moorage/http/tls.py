"""The serving side of TLS: what the flags mean to OpenSSL, and the contexts to accept with.

Owns Go's names for versions, cipher suites and curves, the texts that refuse an unknown one, and
the choice of a certificate by the name that a client asks for. What Python's ssl module cannot do
is logged as a warning. A context is never changed once it is made: new certificates make a new one.
"""

import logging
import re
import ssl
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cryptography import x509

from moorage.config.field_errors import quoted
from moorage.errors import InputError
from moorage.http.certificates import Bundle, KeyPair, KeyPairSource, serving_pair
from moorage.http.options import ServingOptions
from moorage.kube.tls import as_file

log = logging.getLogger(__name__)

MIN_VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_TLS13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Known by name, but neither here nor upstream can one of these be switched off."""

PREFERRED_CIPHERS = {
    **dict.fromkeys(_TLS13, ""),
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
INSECURE_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}

_CURVES = {
    23: "prime256v1",
    24: "secp384r1",
    25: "secp521r1",
    29: "X25519",
    # Hybrids with ML-KEM: known to Go, out of reach for Python's ssl module.
    4587: "",
    4588: "",
    4589: "",
}
_CURVE_ORDER = (29, 23, 24, 25)
"""Which one is taken where only one can be: the first of these that is allowed."""
_LARGEST_CURVE = 0xFFFF
_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*|\*")
_ADDRESS = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What every context of the server has in common."""

    minimum: ssl.TLSVersion
    ciphers: str
    """An OpenSSL cipher string; empty leaves OpenSSL's own."""
    curve: str
    """The one curve for key exchange; empty leaves OpenSSL's own."""
    warnings: tuple[str, ...] = ()

    def apply(self, context: ssl.SSLContext) -> None:
        """Set these on a server's context."""
        with warnings.catch_warnings():
            # TLS 1.0 and 1.1 are deprecated in Python; whoever asks for them by name gets them.
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = self.minimum
        if self.ciphers:
            context.set_ciphers(self.ciphers)
        if self.curve:
            context.set_ecdh_curve(self.curve)
        context.set_alpn_protocols(["http/1.1"])


def tls_settings(options: ServingOptions) -> TlsSettings:
    """The flags, checked in upstream's order; `InputError` as upstream puts it."""
    notes: list[str] = []
    names = _cipher_names(options.cipher_suites, notes)
    curve = _curve(options.curve_preferences, notes)
    version = options.min_version or "VersionTLS12"
    minimum = MIN_VERSIONS.get(version)
    if minimum is None:
        raise InputError(f"unknown tls version {quoted(version)}")
    ciphers = ":".join(names)
    if options.cipher_suites and not names:
        # Only suites of TLS 1.3, or such as this OpenSSL has no more: then nothing below it.
        minimum = ssl.TLSVersion.TLSv1_3
    if minimum < ssl.TLSVersion.TLSv1_2:
        # OpenSSL's default security level refuses the old versions, whatever their suites.
        ciphers = f"{ciphers or 'DEFAULT'}:@SECLEVEL=0"
    return TlsSettings(minimum, ciphers, curve, tuple(notes))


def _cipher_names(suites: tuple[str, ...], notes: list[str]) -> list[str]:
    found: list[str] = []
    for suite in suites:
        name = PREFERRED_CIPHERS.get(suite)
        if name is None:
            name = INSECURE_CIPHERS.get(suite)
            if name is None:
                raise InputError(f"Cipher suite {suite} not supported or doesn't exist")
            notes.append(f"Use of insecure cipher '{suite}' detected.")
        if not name:
            continue
        if _offered(name):
            found.append(name)
        else:
            notes.append(f"{ssl.OPENSSL_VERSION} does not have the cipher suite {suite}")
    return found


def _offered(name: str) -> bool:
    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        probe.set_ciphers(name)
    except ssl.SSLError:
        return False
    return True


def _curve(preferences: tuple[int, ...], notes: list[str]) -> str:
    seen: set[int] = set()
    for number in preferences:
        if not 0 < number <= _LARGEST_CURVE:
            raise InputError(
                f"curve preference {number} is out of range (must be 1-{_LARGEST_CURVE})"
            )
        if number in seen:
            raise InputError(f"duplicate curve preference {number}")
        seen.add(number)
        if number not in _CURVES:
            raise InputError(
                f"curve preference {number} is not supported by the current Go version"
            )
    if not seen:
        return ""
    usable = [number for number in _CURVE_ORDER if number in seen]
    if not usable:
        raise InputError(
            "--tls-curve-preferences: Python's ssl module can use only 23, 24, 25 and 29;"
            " name at least one of them"
        )
    if len(seen) > 1:
        notes.append(
            f"Python's ssl module takes one curve: of --tls-curve-preferences only {usable[0]}"
            " is used"
        )
    return _CURVES[usable[0]]


class ServingTls:
    """The certificates, authorities and settings of a server, and the contexts made of them."""

    def __init__(self, options: ServingOptions) -> None:
        self._options = options
        self._pair = serving_pair(options)
        self._named: list[tuple[Callable[[], KeyPair], tuple[str, ...]]] = []
        self._settings: TlsSettings | None = None
        self._served: Material | None = None

    def load(self) -> None:
        """Read everything that the flags name; `InputError` for what cannot be used."""
        self._pair()
        self._settings = tls_settings(self._options)
        for entry in self._options.sni:
            try:
                source = KeyPairSource("sni-serving-cert", entry.cert_file, entry.key_file)
                source.read()
            except InputError as error:
                raise InputError(f"failed to load SNI cert and key: {error}") from None
            self._named.append((source.read, entry.names))
        for warning in self._settings.warnings:
            log.warning("%s", warning)

    def renewed(self, bundles: Sequence[Bundle]) -> ssl.SSLContext | None:
        """A context of the certificates and authorities as they are now; None if it is the last."""
        assert self._settings is not None, "load it first"
        named = tuple(NamedPair(read(), names) for read, names in self._named)
        current = Material(self._pair(), named, b"".join(bundle.der() for bundle in bundles))
        if current == self._served:
            return None
        context = server_context(self._settings, current)
        self._served = current
        return context


class NamedPair(NamedTuple):
    """A pair for certain host names; without names it is for those in its certificate."""

    pair: KeyPair
    names: tuple[str, ...]


class Material(NamedTuple):
    """All that a context is made of and that may change while we run."""

    pair: KeyPair
    named: tuple[NamedPair, ...]
    authorities: bytes


def server_context(settings: TlsSettings, parts: Material) -> ssl.SSLContext:
    """What to listen with."""
    main = _context(settings, parts.pair, parts.authorities)
    by_name = _contexts_by_name(settings, parts)
    if by_name:

        def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            chosen = _chosen(by_name, name)
            if chosen is not None:
                connection.context = chosen

        main.sni_callback = choose
    return main


def _contexts_by_name(settings: TlsSettings, parts: Material) -> dict[str, ssl.SSLContext]:
    explicit: dict[str, ssl.SSLContext] = {}
    extracted: dict[str, ssl.SSLContext] = {}
    for pair, names in parts.named:
        made = _context(settings, pair, parts.authorities)
        contexts, listed = (explicit, names) if names else (extracted, _names_of(pair.leaf()))
        for name in listed:
            contexts.setdefault(name.lower(), made)  # of two pairs for one name the first wins
    return extracted | explicit


def _names_of(certificate: x509.Certificate) -> list[str]:
    names = [
        str(found.value)
        for found in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[-1:]
        if _DOMAIN.fullmatch(str(found.value)) and not _ADDRESS.fullmatch(str(found.value))
    ]
    try:
        more = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return names
    return [*names, *more.value.get_values_for_type(x509.DNSName)]


def _chosen(by_name: dict[str, ssl.SSLContext], name: str | None) -> ssl.SSLContext | None:
    if not name:
        return None
    wanted = name.lower().rstrip(".")
    _, dot, rest = wanted.partition(".")
    return by_name.get(wanted) or by_name.get(f"*{dot}{rest}")


def _context(settings: TlsSettings, pair: KeyPair, authorities: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.apply(context)
    with as_file(pair.certificate + pair.key) as path:
        context.load_cert_chain(path)
    if authorities:
        # Optional: a client without a certificate may still have a token, or be anonymous.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=authorities)
        # As in Go, every certificate of a bundle is an anchor, also one that another one issued.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
