"""TLS: the context to serve with, and a certificate for those who bring none."""

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from moorage.private_files import write_privately

_VALID_DAYS = 365


class Tls(NamedTuple):
    """A certificate with its key, and the authority that clients are to trust; all PEM."""

    certificate: bytes
    key: bytes
    authority: bytes


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What the server listens with."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        # The ssl module reads certificates from files only.
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(tls.certificate)
        key.touch(mode=0o600)
        key.write_bytes(tls.key)
        context.load_cert_chain(certificate, key)
    return context


def kept_certificate(folder: Path, host: str) -> Tls:
    """The certificate kept in a folder, made on first use: clients outlive a restart."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    if certificate.exists() and key.exists():
        key.chmod(0o600)
        pem = certificate.read_bytes()
        return Tls(pem, key.read_bytes(), pem)
    made = self_signed(host)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, content in ((key, made.key), (certificate, made.certificate)):
        write_privately(path, content)
    return made


def self_signed(host: str) -> Tls:
    """A certificate for loopback and `host`, which is its own authority."""
    # Loaded here because only this path needs it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "moorage-apiserver")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    for text in dict.fromkeys(("127.0.0.1", "::1", host)):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(text)))
        except ValueError:
            names.append(x509.DNSName(text))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Tls(pem, secret, pem)
