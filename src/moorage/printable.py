r"""Text from objects, servers and the network, made safe to print.

A line break in a message could forge a log line, an escape sequence could command a terminal, and a
bidirectional override could show a name as another one. Owns which characters are spelled out
and how: as Go's `%q` does (`\n`, `\x1b`, `\u202e`); and how numbers and ages are
shown. Must not print, nor import anything of Moorage.
"""

import math
from decimal import Decimal

# The powers of ten that Go's shortest format writes without an exponent.
_NO_EXPONENT = range(-4, 6)
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


def go_float(value: float) -> str:
    """A number as Go's shortest format has it: `1`, `0.001`, `1.5e+06`, `+Inf`."""
    value = float(value)  # an int will do wherever a float is asked for
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if value.is_integer() and abs(value) < 10**_NO_EXPONENT.stop:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "only finite numbers come here"
    power = len(digits) - 1 + exponent
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    if power not in _NO_EXPONENT:
        fraction = f".{text[1:]}" if text[1:] else ""
        return f"{minus}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    text = text.ljust(power + 1, "0")
    fraction = f".{text[power + 1 :]}" if text[power + 1 :] else ""
    return f"{minus}{text[: power + 1]}{fraction}"


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
