"""The text of an event as upstream writes it: cut to what the API takes, and formatted by Go.

kube-scheduler passes its failure message as a *format string* without arguments, so a percent sign
in it comes out as Go's complaint about the missing argument. Pure functions of text.
"""

import re

NOTE_LIMIT = 1024
_CUT = " ..."
_DIRECTIVE = re.compile(r"%[+\-# 0]*[0-9]*(?:\.[0-9]*)?(?P<verb>.)?", re.DOTALL)


def event_note(message: str) -> str:
    """The message as the note of an event."""
    return _as_format_string(_truncated(message))


def _truncated(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= NOTE_LIMIT:
        return message
    return encoded[: NOTE_LIMIT - len(_CUT)].decode(errors="replace") + _CUT


def _as_format_string(text: str) -> str:
    if "%" not in text:
        return text
    return _DIRECTIVE.sub(_complaint, text)


def _complaint(directive: re.Match[str]) -> str:
    verb = directive["verb"]
    if verb is None:
        return "%!(NOVERB)"
    return "%" if verb == "%" else f"%!{verb}(MISSING)"
