"""Secrets taken out of what is logged or shown: passwords and tokens in URLs, bearer tokens, keys.

Code that puts a URL into a message calls `redacted_url`; log formatters call `redacted` on every
line, in case it was forgotten. Owns what counts as a secret in a text. Must not import anything of
Moorage.
"""

import re
from urllib.parse import urlsplit

MASK = "xxxxx"
"""What Go's `url.Redacted` puts in the place of a password."""

_PASSWORD = re.compile(r'(://[^\s/?#"<>\\@:]*):[^\s/?#"<>\\]*@')
_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|passw(?:or)?d|secret|signature|api[_-]?key|credential)[\w.-]*=)"
    r'[^&\s#"<>\\]+',
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
_KEY = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


def redacted(text: str) -> str:
    """A text without the secrets that can be recognised by their form."""
    if "@" in text:
        text = _PASSWORD.sub(rf"\1:{MASK}@", text)
    if "?" in text:
        text = _QUERY.sub(rf"\1{MASK}", text)
    if "earer" in text or "EARER" in text:
        text = _BEARER.sub(rf"\1{MASK}", text)
    if "PRIVATE KEY" in text:
        text = _KEY.sub(rf"\1{MASK}\2", text)
    return text


def redacted_url(url: str) -> str:
    """A URL as it may be shown; of a malformed one, anything before the last `@` may be secret."""
    whole = url if "://" in url else f"//{url}"
    try:
        parts = urlsplit(whole)
        _ = parts.port  # read only when it is asked for
    except ValueError:
        start, user, end = whole.partition("://")[0], *whole.rpartition("@")[::2]
        name = user.removeprefix(f"{start}://").removeprefix("//").partition(":")[0]
        shown = f"{start}://{name}:{MASK}@{end}" if user else whole
    else:
        user, at, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        shown = whole.replace(parts.netloc, f"{name}:{MASK}{at}{host}", 1) if colon else whole
    return redacted(shown if "://" in url else shown.rpartition("//")[2])
