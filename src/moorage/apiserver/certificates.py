"""TLS: the context to serve with, and a certificate for those who bring none."""

import ssl
from pathlib import Path
from typing import NamedTuple

from moorage.private_files import as_file, write_privately


class Tls(NamedTuple):
    """A certificate with its key, and the authority that clients are to trust; all PEM."""

    certificate: bytes
    key: bytes
    authority: bytes


def tls_context(tls: Tls) -> ssl.SSLContext:
    """What the server listens with."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with as_file(tls.certificate.rstrip() + b"\n" + tls.key) as path:
        context.load_cert_chain(path)
    return context


def kept_certificate(folder: Path, host: str) -> Tls:
    """The certificate kept in a folder, made on first use: clients outlive a restart."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    if certificate.exists() and key.exists():
        key.chmod(0o600)
        pem = certificate.read_bytes()
        return Tls(pem, key.read_bytes(), pem)
    made = new_certificate(host)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, content in ((key, made.key), (certificate, made.certificate)):
        write_privately(path, content)
    return made


def new_certificate(host: str) -> Tls:
    """A certificate for loopback and `host`."""
    # Loaded here because only this path needs the library behind it.
    from moorage.connections.certificates import self_signed

    made = self_signed("moorage-apiserver", ("localhost", "127.0.0.1", "::1", host))
    chain = made.certificate + made.authority
    return Tls(chain, made.key, chain)
