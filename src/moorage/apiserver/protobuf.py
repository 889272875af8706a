"""Reading request bodies in Kubernetes' protobuf form.

Go clients (kube-scheduler, kubectl's typed commands) send what they write as protobuf, whatever
they accept to read. Answers are always JSON, which they accept. A kind that is missing in
`messages` is refused with 415, and so are definitions of custom resources, whose schemas have
their own way into protobuf. Upstream: apimachinery pkg/runtime/serializer/protobuf.
"""

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from moorage.apiserver.errors import Json, bad_request, too_deep, unsupported_media_type
from moorage.apiserver.messages import (
    INT32,
    INT64,
    MAP,
    META,
    POINTER,
    REPEATED,
    Field,
    message_name,
    messages,
)
from moorage.apiserver.metadata import timestamp

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
# What the readers below raise for a field that is missing, cut off or of another type;
# OSError is for times beyond the calendar.
_MALFORMED = (
    KeyError,
    IndexError,
    AttributeError,
    TypeError,
    ValueError,
    OSError,
    OverflowError,
    struct.error,
)


@lru_cache(maxsize=1)
def _schema() -> dict[str, dict[int, Field]]:
    """The fields of every message by their numbers."""
    return {
        name: {field.number: field for field in message.fields}
        for name, message in messages().items()
    }


def decode_body(body: bytes) -> Json:
    """The object in a protobuf body, as JSON would have it."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope = dict(_values(body[len(_MAGIC) :]))
        identity = dict(_values(envelope[1]))
        api_version, kind = identity.get(1, b"").decode(), identity.get(2, b"").decode()
        group, _, version = api_version.rpartition("/")
        # Every group registers its own DeleteOptions; they are all the same.
        options = kind == "DeleteOptions"
        name = META + kind if options else message_name(group, version, kind)
        if name not in _schema() or name.startswith("apiextensions."):
            raise unsupported_media_type(f"application/json ({kind} is not read as protobuf)")
        obj = _message(name, envelope.get(2, b""))
    except RecursionError:
        raise too_deep() from None
    except _MALFORMED:
        raise bad_request("the body of the request is not complete protobuf") from None
    return {"kind": kind, "apiVersion": api_version, **obj}


def _message(name: str, data: bytes) -> Json:
    fields = _schema()[name]
    result: Json = {}
    for number, raw in _values(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.form == MAP:
            pair = dict(_values(raw))
            entry = _value(field.type, pair.get(2, b""))
            result.setdefault(field.name, {})[pair.get(1, b"").decode()] = entry
            continue
        if field.form == REPEATED and field.type in (INT32, INT64) and isinstance(raw, bytes):
            result.setdefault(field.name, []).extend(_packed(raw))
            continue
        value = _value(field.type, raw)
        if field.form == REPEATED:
            result.setdefault(field.name, []).append(value)
        elif not field.name:
            result.update(value)
        elif value is not None and (field.form == POINTER or value not in ("", 0, False)):
            # Go writes plain empty values out in full; JSON leaves them out.
            result[field.name] = value
    return result


def _value(kind: str, raw: Any) -> Any:
    reader = _READERS.get(kind)
    return _message(kind, raw) if reader is None else reader(raw)


def _packed(raw: bytes) -> Iterator[int]:
    position = 0
    while position < len(raw):
        value, position = _varint(raw, position)
        yield _integer(value)


def _integer(raw: int) -> int:
    return raw - 2**64 if raw >= 2**63 else raw


def _text(raw: bytes) -> str:
    return raw.decode()


def _quantity(raw: bytes) -> str:
    return str(dict(_values(raw)).get(1, b"0").decode())


def _raw_json(raw: bytes) -> Any:
    return msgspec.json.decode(dict(_values(raw)).get(1, b"null"))


def _strings(raw: bytes) -> list[str]:
    return [value.decode() for _, value in _values(raw)]


def _integer_or_string(raw: bytes) -> int | str:
    parts = dict(_values(raw))
    return parts.get(3, b"").decode() if parts.get(1) else _integer(parts.get(2, 0))


def _time(raw: bytes) -> str | None:
    seconds = _integer(dict(_values(raw)).get(1, 0))
    return timestamp(seconds) if seconds > 0 else None


def _micro_time(raw: bytes) -> str | None:
    parts = dict(_values(raw))
    seconds = _integer(parts.get(1, 0))
    if seconds <= 0:
        return None
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=parts.get(2, 0) // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_READERS: dict[str, Callable[[Any], Any]] = {
    "s": _text,
    "i": _integer,
    "l": _integer,
    "b": bool,
    "y": lambda raw: base64.b64encode(raw).decode(),
    "d": lambda raw: struct.unpack("<d", raw)[0],
    "q": _quantity,
    "IntOrString": _integer_or_string,
    "RawExtension": _raw_json,
    "ExtraValue": _strings,
    "Time": _time,
    "MicroTime": _micro_time,
    f"{META}Time": _time,
    f"{META}MicroTime": _micro_time,
}


def _values(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values of a message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _LENGTH:
            size, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise IndexError
        if position + size > len(data):
            raise IndexError
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift > 63:
            raise IndexError
