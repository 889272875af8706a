"""The serving side of TLS: what the flags mean to OpenSSL, and the contexts to accept with.

Owns Go's names (`tls.yaml` has those of suites and curves), the texts that refuse an unknown one,
and the choice of a certificate by the name that a client asks for. What Python's ssl module cannot
do is logged as a warning. A context is never changed once it is made: new certificates make a new
one.
"""

import logging
import re
import ssl
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import msgspec
from cryptography import x509

from moorage.config.field_errors import quoted
from moorage.errors import InputError
from moorage.http.certificates import Bundle, KeyPair, KeyPairSource, serving_pair
from moorage.http.options import ServingOptions
from moorage.private_files import as_file
from moorage.tables import read_table

log = logging.getLogger(__name__)

MIN_VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_LARGEST_CURVE = 0xFFFF
_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*|\*")
_ADDRESS = re.compile(r"[0-9.]+")


class _Names(msgspec.Struct, forbid_unknown_fields=True):
    tls13: frozenset[str]
    preferred: dict[str, str]
    insecure: dict[str, str]
    curves: dict[int, str]
    unusable_curves: frozenset[int]


@cache
def _names() -> _Names:
    """Read when it is needed: few ask for suites or curves."""
    return read_table("moorage.http", "tls.yaml", _Names)


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
    known, found = _names(), []
    for suite in suites:
        if suite in known.tls13:
            continue
        name = known.preferred.get(suite)
        if name is None:
            name = known.insecure.get(suite)
            if name is None:
                raise InputError(f"Cipher suite {suite} not supported or doesn't exist")
            notes.append(f"Use of insecure cipher '{suite}' detected.")
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
    if not preferences:
        return ""
    known, seen = _names(), set[int]()
    for number in preferences:
        if not 0 < number <= _LARGEST_CURVE:
            raise InputError(
                f"curve preference {number} is out of range (must be 1-{_LARGEST_CURVE})"
            )
        if number in seen:
            raise InputError(f"duplicate curve preference {number}")
        seen.add(number)
        if number not in known.curves and number not in known.unusable_curves:
            raise InputError(
                f"curve preference {number} is not supported by the current Go version"
            )
    usable = [number for number in known.curves if number in seen]
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
    return known.curves[usable[0]]


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
