r"""Text from objects, servers and the network, made safe to print.

A line break in a message could forge a log line, an escape sequence could command a terminal, and a
bidirectional override could show a name as another one. Owns which characters are spelled out
and how: as Go's `%q` does (`\n`, `\x1b`, `\u202e`); and how ages are shown. Must not print, nor
import anything of Moorage.
"""

SHORT_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def printable(text: str, keep: str = "") -> str:
    """The text with control and invisible characters spelled out, but for those in `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else escaped(char) for char in text)


def continued(text: str) -> str:
    """Lines that follow a log line, indented so that none can pass for a log line itself."""
    return "".join(f"\n\t{printable(line, keep=chr(9))}" for line in text.split("\n"))


def escaped(char: str) -> str:
    """How Go spells out a character that cannot be printed."""
    if char in SHORT_ESCAPES:
        return SHORT_ESCAPES[char]
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def human_duration(seconds: float) -> str:
    """A duration as kubectl shows ages: `45s`, `5m12s`, `3h`, `2d`."""
    total = int(seconds)
    if total < 0:
        return "0s" if total > -2 else "<invalid>"
    if total < 120:
        return f"{total}s"
    minutes, rest = divmod(total, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 2 * 365:
        return f"{days}d"
    years = days // 365
    return f"{years}y{days % 365}d" if years < 8 and days % 365 else f"{years}y"
