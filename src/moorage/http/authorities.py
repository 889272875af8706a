"""Certificate authorities for clients: bundles that may change, and for whom they vouch.

Owns the reading of bundles and the question whether a client's certificate leads to one of them.
The handshake has then already proved that the client has the key, and that the chain is sound.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from moorage.config.field_errors import quoted
from moorage.errors import InputError
from moorage.http.key_pairs import read_file

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_MAX_DEPTH = 8

Clock = Callable[[], datetime]


class ClientCertificate(NamedTuple):
    """What a client showed: its own certificate and whatever it sent along."""

    leaf: x509.Certificate
    others: tuple[x509.Certificate, ...] = ()


class Bundle:
    """The authorities of one purpose; empty until something is loaded, and then nobody is known."""

    def __init__(self, name: str, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.name = name
        self.certificates: tuple[x509.Certificate, ...] = ()
        self._content = b""
        self._clock = clock

    def __bool__(self) -> bool:
        return bool(self.certificates)

    def load(self, content: bytes) -> bool:
        """Take over a PEM bundle; True if it is a new one, `InputError` if it is none."""
        if not content:
            raise InputError(f"missing content for CA bundle {quoted(self.name)}")
        if content == self._content:
            return False
        self.certificates = self._parsed(content)
        self._content = content
        return True

    def vouches_for(self, client: ClientCertificate) -> bool:
        """Does the certificate lead to one of these authorities, at this time?"""
        now = self._clock()
        return _valid(client.leaf, now) and self._reached(client.leaf, client.others, now, 0)

    def der(self) -> bytes:
        """All certificates, as OpenSSL takes them."""
        return b"".join(found.public_bytes(Encoding.DER) for found in self.certificates)

    def _parsed(self, content: bytes) -> tuple[x509.Certificate, ...]:
        try:
            found = [x509.load_pem_x509_certificate(text) for text in _CERTIFICATE.findall(content)]
            reason = "data does not contain any valid RSA or ECDSA certificates"
        except ValueError:
            found, reason = [], "x509: malformed certificate"
        if not found:
            raise InputError(f"error loading CA bundle for {quoted(self.name)}: {reason}")
        return tuple(found)

    def _reached(
        self,
        certificate: x509.Certificate,
        others: Sequence[x509.Certificate],
        now: datetime,
        depth: int,
    ) -> bool:
        if certificate in self.certificates:
            return True
        if any(_issued(certificate, root, now) for root in self.certificates):
            return True
        return depth < _MAX_DEPTH and any(
            _is_authority(other)
            and _issued(certificate, other, now)
            and self._reached(other, others, now, depth + 1)
            for other in others
        )


class BundleFile:
    """A bundle that is kept equal to a file."""

    def __init__(self, purpose: str, path: str) -> None:
        self.bundle = Bundle(f"{purpose}::{path}")
        self._path = path
        self.reload()

    def reload(self) -> bool:
        """Read the file again; True if there was something new in it."""
        return self.bundle.load(read_file(self._path))


def _valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _issued(certificate: x509.Certificate, issuer: x509.Certificate, now: datetime) -> bool:
    if certificate.issuer != issuer.subject or not _valid(issuer, now):
        return False
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _is_authority(certificate: x509.Certificate) -> bool:
    """May it issue certificates? Else whoever holds one could make more."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return found.value.ca
