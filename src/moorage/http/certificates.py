"""Certificates: serving pairs that are read, checked or made, and authorities for clients.

Owns what is a usable pair or bundle, the texts for those that are not (which are Go's, so that an
operator finds the same line in the log), and the question whether a client's certificate leads to
an authority. The handshake has then already proved that the client has the key, and that the chain
is sound. Knows nothing of servers; `tls` puts all of it to use.
"""

import ipaddress
import logging
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from moorage.config.field_errors import quoted
from moorage.connections.certificates import self_signed
from moorage.errors import InputError
from moorage.http.options import ServingOptions

log = logging.getLogger(__name__)

_PAIR_NAME = "kube-scheduler"
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_MAX_DEPTH = 8

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A chain of certificates and the key of its first, as PEM."""

    certificate: bytes
    key: bytes

    def leaf(self) -> x509.Certificate:
        """The certificate that the key is for."""
        return x509.load_pem_x509_certificate(self.certificate)


class KeyPairSource:
    """Where a pair comes from; files are read again on every call, so that a new one is seen."""

    def __init__(self, purpose: str, cert_file: str, key_file: str) -> None:
        if not (cert_file and key_file):
            raise InputError("missing filename for serving cert")
        self.name = f"{purpose}::{cert_file}::{key_file}"
        self._files = (cert_file, key_file)
        self._known: tuple[tuple[bytes, bytes], KeyPair] | None = None

    def read(self) -> KeyPair:
        """The pair as it is in its files now; `InputError` if it is none."""
        certificate, key = (read_file(path) for path in self._files)
        if not (certificate and key):
            raise InputError(f"missing content for serving cert {quoted(self.name)}")
        # Checking a key takes long enough to be felt by a scheduler, comparing files does not.
        if self._known is None or self._known[0] != (certificate, key):
            self._known = (certificate, key), checked_pair(certificate, key)
        return self._known[1]


def serving_pair(options: ServingOptions) -> Callable[[], KeyPair]:
    """The default pair: that of the flags, that of --cert-dir (made if missing), or a new one.

    What is returned is called again to see whether the pair has changed.
    """
    if options.cert_file or options.key_file:
        return KeyPairSource("serving-cert", options.cert_file, options.key_file).read
    if options.cert_dir:
        files = [str(Path(options.cert_dir, _PAIR_NAME + end)) for end in (".crt", ".key")]
        _make_files(options.bind_address, *files)
        return KeyPairSource("serving-cert", *files).read
    made = new_pair(options.bind_address)
    log.info("Generated self-signed cert in-memory")
    return lambda: made


def new_pair(bind_address: str) -> KeyPair:
    """A pair for localhost and the address served on, if that is one."""
    bound = ipaddress.ip_address(bind_address or "0.0.0.0")
    more = () if bound.is_unspecified else (str(bound),)
    made = self_signed("localhost", ("localhost", "127.0.0.1", *more))
    return KeyPair(made.certificate + made.authority, made.key)


def read_file(path: str) -> bytes:
    """A file's content; `InputError` as Go would put it."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        call = "read" if isinstance(error, IsADirectoryError) else "open"
        raise InputError(f"{call} {path}: {system_reason(error)}") from None


def system_reason(error: OSError) -> str:
    """The system's word for an error, in small letters as Go has it."""
    return os.strerror(error.errno).lower() if error.errno else str(error)


def checked_pair(certificate: bytes, key: bytes) -> KeyPair:
    """A pair whose key belongs to its certificate; `InputError` otherwise."""
    chain = _blocks(certificate, "certificate", lambda kind: kind == "CERTIFICATE")
    try:
        leaf = x509.load_pem_x509_certificate(chain[0])
    except ValueError:
        raise InputError("x509: malformed certificate") from None
    block = _blocks(key, "key", lambda kind: kind.endswith("PRIVATE KEY"))[0]
    secret = _private_key(block)
    public_key = secret.public_key()
    certified_key = leaf.public_key()
    if type(public_key) is not type(certified_key):
        raise InputError("tls: private key type does not match public key type")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public_key.public_bytes(*form) != certified_key.public_bytes(*form):
        raise InputError("tls: private key does not match public key")
    return KeyPair(b"\n".join(chain) + b"\n", block + b"\n")


def _private_key(block: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(block, password=None)
    except (ValueError, TypeError):  # TypeError: it needs a pass phrase
        raise InputError("tls: failed to parse private key") from None


def _blocks(text: bytes, what: str, wanted: Callable[[str], bool]) -> list[bytes]:
    found = [(match[1].decode(), match[0]) for match in _BLOCK.finditer(text)]
    taken = [block for kind, block in found if wanted(kind)]
    if taken:
        return taken
    kinds = [kind for kind, _ in found]
    if not kinds:
        raise InputError(f"tls: failed to find any PEM data in {what} input")
    if what == "certificate" and len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        raise InputError(
            "tls: failed to find certificate PEM data in certificate input, but did find a"
            " private key; PEM inputs may have been switched"
        )
    if what == "key" and kinds == ["CERTIFICATE"]:
        raise InputError(
            "tls: found a certificate rather than a key in the PEM for the private key"
        )
    sought = (
        '"CERTIFICATE" PEM block'
        if what == "certificate"
        else ('PEM block with type ending in "PRIVATE KEY"')
    )
    raise InputError(
        f"tls: failed to find {sought} in {what} input after skipping PEM blocks of the following"
        f" types: [{' '.join(kinds)}]"
    )


def _make_files(bind_address: str, cert_file: str, key_file: str) -> None:
    there = [os.access(path, os.R_OK) for path in (cert_file, key_file)]
    if all(there):
        return
    if any(there):
        missing = key_file if there[0] else cert_file
        raise InputError(
            f"error creating self-signed certificates: error reading {missing}, certificate and key"
            " must be supplied as a pair"
        )
    made = new_pair(bind_address)
    _write(cert_file, made.certificate, 0o644)
    _write(key_file, made.key, 0o600)
    log.info("Generated self-signed cert (%s, %s)", cert_file, key_file)


def _write(path: str, content: bytes, mode: int) -> None:
    folder = Path(path).parent
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        # Go names the folder that was asked for and calls an obstacle what it is.
        reason = "not a directory" if isinstance(error, FileExistsError) else system_reason(error)
        raise InputError(
            f"error creating self-signed certificates: mkdir {folder}: {reason}"
        ) from None
    try:
        # A key must not be readable for others even for a moment, whatever was there before.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, mode)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.truncate(0)
            file.write(content)
    except OSError as error:
        raise InputError(
            f"error creating self-signed certificates: open {path}: {system_reason(error)}"
        ) from None


class ClientCertificate(NamedTuple):
    """What a client showed: its own certificate and whatever it sent along."""

    leaf: x509.Certificate
    others: tuple[x509.Certificate, ...] = ()


class Bundle:
    """The authorities of one purpose; empty until something is loaded, and then nobody is known."""

    def __init__(
        self, name: str, *, path: str = "", clock: Clock = lambda: datetime.now(UTC)
    ) -> None:
        self.name = name
        self._path = path
        self.certificates: tuple[x509.Certificate, ...] = ()
        self._content = b""
        self._clock = clock

    def __bool__(self) -> bool:
        return bool(self.certificates)

    def reload(self) -> bool:
        """Read the file again; True if there was something new in it."""
        return self.load(read_file(self._path))

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
