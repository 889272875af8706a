"""Serving certificates with their keys: read, checked, or made.

Owns what is a usable pair and the texts for those that are not (which are Go's, so that an operator
finds the same line in the log). Knows nothing of servers; `tls_contexts` puts pairs to use.
"""

import ipaddress
import logging
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from moorage.config.field_errors import quoted
from moorage.errors import InputError
from moorage.http.options import ServingOptions

log = logging.getLogger(__name__)

_PAIR_NAME = "kube-scheduler"
_HOST = "localhost"
_VALID = timedelta(days=365)
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)


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
    made = self_signed(options.bind_address)
    log.info("Generated self-signed cert in-memory")
    return lambda: made


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
    ours = secret.public_key()
    theirs = leaf.public_key()
    if type(ours) is not type(theirs):
        raise InputError("tls: private key type does not match public key type")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if ours.public_bytes(*form) != theirs.public_bytes(*form):
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
    made = self_signed(bind_address)
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


def self_signed(bind_address: str) -> KeyPair:
    """A certificate for localhost and the address served on, with an authority of its own."""
    addresses = [ipaddress.ip_address("127.0.0.1")]
    bound = ipaddress.ip_address(bind_address or "0.0.0.0")
    if not bound.is_unspecified:
        addresses.append(bound)
    now = datetime.now(UTC)
    stamp = int(now.timestamp())
    # RSA as upstream: a list of cipher suites for RSA must keep working with this certificate.
    authority_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    issuer = _name(f"{_HOST}-ca@{stamp}")
    authority = _signed(
        _builder(issuer, issuer, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage("digital_signature", "key_encipherment", "key_cert_sign"), True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        ),
        authority_key,
    )
    names = [x509.DNSName(_HOST), *map(x509.IPAddress, dict.fromkeys(addresses))]
    leaf = _signed(
        _builder(_name(f"{_HOST}@{stamp}"), issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature", "key_encipherment"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False),
        authority_key,
    )
    secret = key.private_bytes(
        Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return KeyPair(leaf + authority, secret)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, now: datetime
) -> x509.CertificateBuilder:
    start = now - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _VALID)
    )


def _usage(*allowed: str) -> x509.KeyUsage:
    fields: Iterable[str] = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{field: field in allowed for field in fields})


def _signed(builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
