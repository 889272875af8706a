"""Bodies that Go clients send as protobuf."""

import pytest

from apiserver.serving import PODS, Client
from moorage.apiserver.errors import ApiStatusError
from moorage.apiserver.protobuf import MEDIA_TYPE, decode_body
from moorage.apiserver.resources import RESOURCES


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value % 2**64)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    identity = message((1, api_version), (2, kind))
    return b"k8s\x00" + message((1, identity), (2, raw), (3, ""), (4, ""))


def test_a_binding_as_kube_scheduler_sends_it(api: Client) -> None:
    api.create_pod("a")
    metadata = message((1, "a"), (3, "default"), (8, b""))
    raw = message((1, metadata), (2, message((1, "Node"), (3, "n1"))))
    path = f"{PODS}/a/binding"
    assert api.request("POST", path, body("v1", "Binding", raw), MEDIA_TYPE).code == 201
    assert api.get(f"{PODS}/a").body["spec"]["nodeName"] == "n1"


def test_empty_values_count_only_where_go_has_pointers() -> None:
    container = message((1, "c"), (2, "i"), (6, message((2, 0), (3, 80), (4, "TCP"))))
    spec = message((2, container), (4, 0), (11, 0), (25, 0), (10, ""))
    pod = decode_body(body("v1", "Pod", message((1, message((1, "a"))), (2, spec))))
    assert pod["spec"] == {
        "containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}
        ],
        "terminationGracePeriodSeconds": 0,
        "priority": 0,
    }


def test_maps_quantities_times_and_inlined_members() -> None:
    limit = message((1, "cpu"), (2, message((1, "500m"))))
    container = message((1, "c"), (8, message((1, limit))))
    volume = message((1, "v"), (2, message((2, message((1, "Memory"))))))
    label = message((1, "app"), (2, "web"))
    metadata = message((1, "a"), (8, message((1, 1_700_000_000))), (11, label))
    spec = message((1, volume), (2, container))
    pod = decode_body(body("v1", "Pod", message((1, metadata), (2, spec))))
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}


def test_times_of_leases_have_microseconds() -> None:
    moment = message((1, 1_700_000_000), (2, 123_456_789))
    raw = message((2, message((1, "me"), (2, 15), (4, moment))))
    lease = decode_body(body("coordination.k8s.io/v1", "Lease", raw))
    assert lease["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2023-11-14T22:13:20.123456Z",
    }


def test_every_kind_can_be_read() -> None:
    for row in RESOURCES:
        if row.group == "apiextensions.k8s.io":
            continue  # nobody but Go's own client for it writes it so
        decoded = decode_body(body(row.api_version, row.kind, b""))
        assert decoded == {"kind": row.kind, "apiVersion": row.api_version}
    assert decode_body(body("v1", "DeleteOptions", message((1, 0))))["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{}", 400),
        (b"k8s\x00", 400),
        (b"k8s\x00\xff\xff", 400),
        (body("v1", "Pod", b"")[:-3], 400),
        (body("v1", "Pod", b"\x0a\x50abc"), 400),
        (body("example.com/v1", "Thing", b""), 415),
        (body("apiextensions.k8s.io/v1", "CustomResourceDefinition", b""), 415),
    ],
)
def test_bodies_that_cannot_be_read(data: bytes, code: int) -> None:
    with pytest.raises(ApiStatusError) as caught:
        decode_body(data)
    assert caught.value.code == code
