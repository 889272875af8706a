"""The TLS flags as OpenSSL understands them: versions, cipher suites and curves.

Owns Go's names for these things and the texts that refuse an unknown one. Makes no context and
opens no file; what Python's ssl module cannot do is said in the warnings returned here.
"""

import ssl
import warnings
from dataclasses import dataclass

from moorage.config.field_errors import quoted
from moorage.errors import InputError
from moorage.http.options import ServingOptions

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
    """The flags, checked in upstream's order; `InputError` in upstream's words."""
    said: list[str] = []
    names = _cipher_names(options.cipher_suites, said)
    curve = _curve(options.curve_preferences, said)
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
    return TlsSettings(minimum, ciphers, curve, tuple(said))


def _cipher_names(suites: tuple[str, ...], said: list[str]) -> list[str]:
    found: list[str] = []
    for suite in suites:
        name = PREFERRED_CIPHERS.get(suite)
        if name is None:
            name = INSECURE_CIPHERS.get(suite)
            if name is None:
                raise InputError(f"Cipher suite {suite} not supported or doesn't exist")
            said.append(f"Use of insecure cipher '{suite}' detected.")
        if not name:
            continue
        if _offered(name):
            found.append(name)
        else:
            said.append(f"{ssl.OPENSSL_VERSION} does not have the cipher suite {suite}")
    return found


def _offered(name: str) -> bool:
    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        probe.set_ciphers(name)
    except ssl.SSLError:
        return False
    return True


def _curve(preferences: tuple[int, ...], said: list[str]) -> str:
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
        said.append(
            f"Python's ssl module takes one curve: of --tls-curve-preferences only {usable[0]}"
            " is used"
        )
    return _CURVES[usable[0]]
