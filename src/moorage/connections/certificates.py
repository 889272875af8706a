"""A certificate for a server that was given none, with an authority of its own.

Owns what stands in it, which is what kube-scheduler's has. Writes nothing down.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

_VALID = timedelta(days=365)
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class SelfSigned(NamedTuple):
    """A certificate with its key, and the authority that issued it; all PEM."""

    certificate: bytes
    key: bytes
    authority: bytes


def self_signed(name: str, hosts: Iterable[str]) -> SelfSigned:
    """A certificate of this name for host names and addresses."""
    now = datetime.now(UTC)
    stamp = int(now.timestamp())
    # RSA as upstream: a list of cipher suites for RSA must keep working with this certificate.
    authority_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    issuer = _name(f"{name}-ca@{stamp}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = _signed(
        _builder(issuer, issuer, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage("digital_signature", "key_encipherment", "key_cert_sign"), True)
        .add_extension(identifier, critical=False),
        authority_key,
    )
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    leaf = _signed(
        _builder(_name(f"{name}@{stamp}"), issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature", "key_encipherment"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(issued_by, critical=False)
        .add_extension(
            x509.SubjectAlternativeName(list(map(_general_name, dict.fromkeys(hosts)))), False
        ),
        authority_key,
    )
    form = serialization.PrivateFormat.TraditionalOpenSSL
    secret = key.private_bytes(Encoding.PEM, form, serialization.NoEncryption())
    return SelfSigned(leaf, secret, authority)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


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
    return x509.KeyUsage(**{use: use in allowed for use in _USES})


def _signed(builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
