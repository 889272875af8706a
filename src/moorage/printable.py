r"""Text from objects, servers and the network, made safe to print.

A line break in a message could forge a log line, an escape sequence could command a terminal, and a
bidirectional override could show a name as another one. Owns which characters are spelled out
and how: as Go's `%q` does (`\n`, `\x1b`, `\u202e`). Must not print, nor import anything of
Moorage.
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
