"""From key pairs, authorities and settings to the ssl contexts that connections are accepted with.

Owns the choice of a certificate by the name that a client asks for. A context is never changed once
it is made: whoever wants new certificates makes a new one.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from cryptography import x509

from moorage.http.authorities import Bundle
from moorage.http.key_pairs import KeyPair
from moorage.http.tls_settings import TlsSettings

_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*|\*")
_ADDRESS = re.compile(r"[0-9.]+")


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


def material(pair: KeyPair, named: Sequence[NamedPair], bundles: Sequence[Bundle]) -> Material:
    """The parts as they are now; two of these are equal if a context would be."""
    return Material(pair, tuple(named), b"".join(bundle.der() for bundle in bundles))


def _contexts_by_name(settings: TlsSettings, parts: Material) -> dict[str, ssl.SSLContext]:
    explicit: dict[str, ssl.SSLContext] = {}
    extracted: dict[str, ssl.SSLContext] = {}
    for pair, names in parts.named:
        made = _context(settings, pair, parts.authorities)
        kept, listed = (explicit, names) if names else (extracted, _names_of(pair.leaf()))
        for name in listed:
            kept.setdefault(name.lower(), made)  # of two pairs for one name the first wins
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
    with _as_file(pair.certificate + pair.key) as path:
        context.load_cert_chain(path)
    if authorities:
        # Optional: a client without a certificate may still have a token, or be anonymous.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=authorities)
        # As in Go, every certificate of a bundle is an anchor, also one that another one issued.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """The ssl module reads certificates from files only; on Linux this one is in memory."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("moorage-tls")
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    with tempfile.NamedTemporaryFile(prefix="moorage-") as file:  # created with mode 0600
        file.write(content)
        file.flush()
        yield file.name
