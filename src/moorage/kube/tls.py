"""TLS contexts from certificates that are inline or in files.

Owns loading and the sentence for what cannot be loaded; decides no policy beyond that of Go's
client: system roots unless an authority is named, host names checked unless that is switched off.
"""

import ssl
from pathlib import Path

from moorage.errors import KubeconfigError
from moorage.kube.access import Pem
from moorage.private_files import as_file


def client_context(
    authority: Pem,
    certificate: Pem = Pem(),  # noqa: B008 - frozen, so one for all calls is right
    key: Pem = Pem(),  # noqa: B008
    *,
    insecure: bool = False,
) -> ssl.SSLContext:
    """A context for connecting to a server."""
    context = ssl.create_default_context(cadata=_authorities(authority))
    # Clusters' own authorities often lack the extensions that strict checking asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _load_chain(context, _read(certificate), _read(key))
    return context


def stamp(*parts: Pem) -> tuple[object, ...]:
    """A value that changes when one of the parts does, also inside its file."""
    return tuple((part.data, part.path, _file_stamp(part.path)) for part in parts)


def _file_stamp(path: str) -> tuple[int, int] | None:
    if not path:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(part: Pem) -> bytes:
    if part.data or not part.path:
        return part.data
    try:
        return Path(part.path).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{part.path}: {error.strerror or error}") from None


def _authorities(authority: Pem) -> str | None:
    if not authority:
        return None
    text = _read(authority)
    try:
        probe = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        probe.load_verify_locations(cadata=text.decode("ascii"))
    except (ssl.SSLError, ValueError):
        where = authority.path or "certificate-authority-data"
        raise KubeconfigError(f"{where} holds no usable certificate authority") from None
    return text.decode("ascii")


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with as_file(certificate.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            raise KubeconfigError(
                f"the client certificate and key cannot be used: {reason}"
            ) from None
