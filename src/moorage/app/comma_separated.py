"""One record of comma-separated values, as Go's CSV package reads and writes it.

Owns quoting, and the sentence about a quote in the wrong place.
"""

from collections.abc import Iterable

_BARE = 'bare " in non-quoted-field'
_OPEN = 'extraneous or missing " in quoted-field'


def read_record(text: str) -> tuple[str, ...]:
    """The fields of the first line with any; a `ValueError` says where a quote is wrong."""
    fields: list[str] = []
    position = len(text) - len(text.lstrip("\n"))
    if position == len(text):
        raise ValueError("EOF")
    while True:
        if text[position : position + 1] == '"':
            field, position = _quoted_field(text, position)
        else:
            end = _end(text, position)
            field = text[position:end]
            if '"' in field:
                raise _wrong(text, position + field.index('"'), _BARE)
            position = end
        fields.append(field)
        if text[position : position + 1] != ",":
            return tuple(fields)
        position += 1


def write_record(fields: Iterable[str]) -> str:
    """The fields with commas between them, quoted where they would be misread."""
    return ",".join(_written(field) for field in fields)


def _end(text: str, start: int) -> int:
    return min(
        (found for found in (text.find(mark, start) for mark in ",\n") if found >= 0),
        default=len(text),
    )


def _quoted_field(text: str, start: int) -> tuple[str, int]:
    field, position = "", start + 1
    while True:
        quote = text.find('"', position)
        if quote < 0:
            raise _wrong(text, len(text), _OPEN)
        field += text[position:quote]
        following = text[quote + 1 : quote + 2]
        if following in ("", ",", "\n"):
            return field, quote + 1
        if following != '"':
            raise _wrong(text, quote, _OPEN)
        field, position = field + '"', quote + 2


def _wrong(text: str, position: int, what: str) -> ValueError:
    first = len(text) - len(text.lstrip("\n")) + 1
    line = text.count("\n", 0, position) + 1
    column = len(text[text.rfind("\n", 0, position) + 1 : position].encode()) + 1
    record = f"record on line {first}; " if line != first else ""
    return ValueError(f"{record}parse error on line {line}, column {column}: {what}")


def _written(field: str) -> str:
    if field == "\\." or any(mark in field for mark in ',"\r\n') or field[:1] in (" ", "\t"):
        return '"' + field.replace('"', '""') + '"'
    return field
