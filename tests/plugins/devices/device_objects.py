"""Claims, classes and slices for tests, with only what matters spelled out."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from moorage.cluster.listers import Listers
from moorage.config.args import DynamicResourcesArgs
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.framework.plugin import Handle
from moorage.model.decode import decode_object
from moorage.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.testing import make_pod

DRIVER = "gpu.example.com"
API_VERSION = "resource.k8s.io/v1"
Kind = TypeVar("Kind", bound=ApiObject)


def _made(kind: type[Kind], name: str, metadata: Json, **parts: Json) -> Kind:
    document = {
        "apiVersion": API_VERSION,
        "kind": kind.__name__,
        "metadata": {"name": name, "resourceVersion": "1", **metadata},
        **parts,
    }
    made = decode_object(document, "test object")
    assert isinstance(made, kind)
    return made


def device(name: str, /, **fields: object) -> Json:
    """A device; `attributes` and `capacity` may be written as plain values."""
    attributes = fields.pop("attributes", {})
    capacity = fields.pop("capacity", {})
    assert isinstance(attributes, dict)
    assert isinstance(capacity, dict)
    return {
        "name": name,
        "attributes": {key: _attribute(value) for key, value in attributes.items()},
        "capacity": {
            key: value if isinstance(value, dict) else {"value": value}
            for key, value in capacity.items()
        },
        **fields,
    }


def _attribute(value: object) -> Json:
    if isinstance(value, dict):
        return value
    return {{bool: "bool", int: "int", str: "string"}[type(value)]: value}


def slice_of(
    name: str,
    devices: Iterable[Json],
    *,
    node: str | None = None,
    pool: str | None = None,
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **spec: object,
) -> ResourceSlice:
    """A slice; of the pool `node` unless told otherwise."""
    return _made(
        ResourceSlice,
        name,
        {},
        spec={
            "driver": driver,
            "pool": {
                "name": pool or node or name,
                "generation": generation,
                "resourceSliceCount": count,
            },
            "nodeName": node,
            "devices": list(devices),
            **spec,
        },
    )


def device_class(name: str = "gpu", *selectors: str, **spec: object) -> DeviceClass:
    """A class."""
    return _made(DeviceClass, name, {}, spec={"selectors": cel(*selectors), **spec})


def cel(*expressions: str) -> list[Json]:
    """Selectors."""
    return [{"cel": {"expression": expression}} for expression in expressions]


def request(name: str = "r", *selectors: str, count: int = 1, **exactly: object) -> Json:
    """An exact request; `allocationMode="All"` asks for all."""
    return {
        "name": name,
        "exactly": {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": count,
            "selectors": cel(*selectors),
            **exactly,
        },
    }


def first_available(name: str, *subs: Json) -> Json:
    """A request with alternatives, each made by `request`."""
    return {
        "name": name,
        "firstAvailable": [{"name": sub["name"], **sub["exactly"]} for sub in subs],
    }


def claim(
    name: str = "claim",
    *requests: Json,
    constraints: Sequence[Json] = (),
    config: Sequence[Json] = (),
    status: Json | None = None,
    **metadata: object,
) -> ResourceClaim:
    """A claim in the default namespace."""
    return _made(
        ResourceClaim,
        name,
        {"namespace": "default", "uid": f"uid-{name}", **metadata},
        spec={
            "devices": {
                "requests": list(requests or (request(),)),
                "constraints": list(constraints),
                "config": list(config),
            }
        },
        status=status or {},
    )


def allocated(*devices: tuple[str, str], users: Sequence[str] = (), **allocation: object) -> Json:
    """A status with devices (pool, device) and users' uids."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": pool, "device": name} for pool, name in devices
    ]
    return {
        "allocation": {"devices": {"results": results}, **allocation},
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in users],
    }


def pod_with(*claims: str, name: str = "pod", **fields: object) -> Pod:
    """A pod that uses claims by name."""
    references = [{"name": f"c{i}", "resourceClaimName": c} for i, c in enumerate(claims)]
    return make_pod(name, spec={"resourceClaims": references, **fields})


def plugin(
    listers: Listers,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    args: DynamicResourcesArgs | None = None,
) -> DynamicResources:
    """The plugin over some objects."""
    return DynamicResources(args or DynamicResourcesArgs(), Handle(listers, gates))
