"""Reading request bodies in Kubernetes' protobuf form, for the few kinds that Go clients send so.

kube-scheduler writes bindings, events and leases in protobuf unless told otherwise, whatever it
reads. Answers are always JSON, which those clients accept. Only complete messages are listed:
a kind that is missing is refused with 415 rather than stored with fields lost.
Upstream: k8s.io/api v0.36.4 */generated.proto, apimachinery pkg/runtime/serializer/protobuf.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from moorage.apiserver.metadata import timestamp
from moorage.apiserver.statuses import Json, bad_request, unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class _Field(NamedTuple):
    name: str
    type: str
    repeated: bool


def _schema(text: str) -> dict[str, dict[int, _Field]]:
    """Lines of `Message: number name type, ...`; a star marks a repeated field."""
    messages: dict[str, dict[int, _Field]] = {}
    for line in text.strip().splitlines():
        message, _, rest = line.partition(":")
        fields = messages.setdefault(message.strip(), {})
        for item in filter(None, (part.strip() for part in rest.split(","))):
            number, name, kind = item.split()
            fields[int(number)] = _Field(name, kind.rstrip("*"), kind.endswith("*"))
    return messages


_MESSAGES = _schema("""
Unknown: 1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding string, 4 contentType string
TypeMeta: 1 apiVersion string, 2 kind string
ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 5 uid string
ObjectMeta: 6 resourceVersion string, 7 generation int, 8 creationTimestamp time
ObjectMeta: 9 deletionTimestamp time, 10 deletionGracePeriodSeconds int, 11 labels map
ObjectMeta: 12 annotations map, 13 ownerReferences OwnerReference*, 14 finalizers string*
OwnerReference: 1 kind string, 3 name string, 4 uid string, 5 apiVersion string
OwnerReference: 6 controller bool, 7 blockOwnerDeletion bool
DeleteOptions: 1 gracePeriodSeconds int, 2 preconditions Preconditions, 3 orphanDependents bool
DeleteOptions: 4 propagationPolicy string, 5 dryRun string*
Preconditions: 1 uid string, 2 resourceVersion string
ObjectReference: 1 kind string, 2 namespace string, 3 name string, 4 uid string
ObjectReference: 5 apiVersion string, 6 resourceVersion string, 7 fieldPath string
EventSource: 1 component string, 2 host string
EventSeries: 1 count int, 2 lastObservedTime micro
v1/Binding: 1 metadata ObjectMeta, 2 target ObjectReference
v1/Event: 1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason string
v1/Event: 4 message string, 5 source EventSource, 6 firstTimestamp time, 7 lastTimestamp time
v1/Event: 8 count int, 9 type string, 10 eventTime micro, 11 series EventSeries
v1/Event: 12 action string, 13 related ObjectReference, 14 reportingComponent string
v1/Event: 15 reportingInstance string
events.k8s.io/v1/Event: 1 metadata ObjectMeta, 2 eventTime micro, 3 series EventSeries
events.k8s.io/v1/Event: 4 reportingController string, 5 reportingInstance string
events.k8s.io/v1/Event: 6 action string, 7 reason string, 8 regarding ObjectReference
events.k8s.io/v1/Event: 9 related ObjectReference, 10 note string, 11 type string
events.k8s.io/v1/Event: 12 deprecatedSource EventSource, 13 deprecatedFirstTimestamp time
events.k8s.io/v1/Event: 14 deprecatedLastTimestamp time, 15 deprecatedCount int
LeaseSpec: 1 holderIdentity string, 2 leaseDurationSeconds int, 3 acquireTime micro
LeaseSpec: 4 renewTime micro, 5 leaseTransitions int, 6 strategy string, 7 preferredHolder string
coordination.k8s.io/v1/Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
policy/v1/Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
TokenReviewSpec: 1 token string, 2 audiences string*
authentication.k8s.io/v1/TokenReview: 1 metadata ObjectMeta, 2 spec TokenReviewSpec
ResourceAttributes: 1 namespace string, 2 verb string, 3 group string, 4 version string
ResourceAttributes: 5 resource string, 6 subresource string, 7 name string
NonResourceAttributes: 1 path string, 2 verb string
AccessSpec: 1 resourceAttributes ResourceAttributes, 3 user string, 4 groups string*, 6 uid string
AccessSpec: 2 nonResourceAttributes NonResourceAttributes
authorization.k8s.io/v1/SubjectAccessReview: 1 metadata ObjectMeta, 2 spec AccessSpec
""")


def decode_body(body: bytes) -> Json:
    """The object in a protobuf body, as JSON would have it."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope = _message("Unknown", body[len(_MAGIC) :])
        kind = envelope["typeMeta"].get("kind", "")
        api_version = envelope["typeMeta"].get("apiVersion", "")
        # Every group registers its own DeleteOptions; they are all the same.
        name = kind if kind == "DeleteOptions" else f"{api_version}/{kind}"
        if name not in _MESSAGES:
            raise unsupported_media_type(f"application/json ({kind} is not read as protobuf)")
        obj = _message(name, envelope.get("raw", b""))
    except (KeyError, IndexError, UnicodeDecodeError):
        raise bad_request("the body of the request is not complete protobuf") from None
    return {"kind": kind, "apiVersion": api_version, **obj}


def _message(name: str, data: bytes) -> Json:
    fields = _MESSAGES[name]
    result: Json = {}
    for number, value in _values(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.type == "map":
            pair = {n: v for n, v in _values(value) if isinstance(v, bytes)}
            entry = {pair.get(1, b"").decode(): pair.get(2, b"").decode()}
            result.setdefault(field.name, {}).update(entry)
            continue
        decoded = _value(field.type, value)
        if field.repeated:
            result.setdefault(field.name, []).append(decoded)
        elif decoded not in ("", None):
            # Go writes empty strings and zero times out in full; JSON leaves them out.
            result[field.name] = decoded
    return result


def _value(kind: str, value: Any) -> Any:
    match kind:
        case "string":
            return value.decode()
        case "bytes":
            return value
        case "bool":
            return bool(value)
        case "int":
            return value - 2**64 if value >= 2**63 else value
        case "time" | "micro":
            return _time(dict(_values(value)), micro=kind == "micro")
        case _:
            return _message(kind, value)


def _time(parts: dict[int, Any], *, micro: bool) -> str | None:
    seconds = _value("int", parts.get(1, 0))
    if seconds <= 0:
        return None
    if not micro:
        return timestamp(seconds)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=parts.get(2, 0) // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _values(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values of a message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
        elif wire == _LENGTH:
            size, position = _varint(data, position)
            if position + size > len(data):
                raise IndexError
            yield number, data[position : position + size]
            position += size
        elif wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        else:
            raise IndexError


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise IndexError
