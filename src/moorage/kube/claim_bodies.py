"""Claims as JSON for the API: without empty fields, which some validation would stumble over.

What the driver is told (`config`) goes through untouched, as empty values may mean something to it.
"""

from typing import Any

import msgspec

from moorage.model.devices import AllocationResult, ResourceClaim, ResourceClaimStatus
from moorage.model.meta import Json


def claim_body(claim: ResourceClaim) -> Json:
    """A claim to be created."""
    meta = claim.metadata
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _pruned(
            {
                "generateName": meta.generate_name,
                "name": meta.name,
                "namespace": meta.namespace,
                "annotations": meta.annotations,
                "ownerReferences": msgspec.to_builtins(meta.owner_references),
            }
        ),
        "spec": _pruned(_plain(claim.spec)),
    }


def status_body(status: ResourceClaimStatus) -> Json:
    """A merge patch for a claim's status; None removes a field."""
    body: Json = {
        "allocation": None if status.allocation is None else _allocation(status.allocation),
        "reservedFor": _pruned(msgspec.to_builtins(status.reserved_for)) or None,
    }
    if status.allocation is None:
        body["devices"] = None
    return body


def _allocation(allocation: AllocationResult) -> Json:
    body: Json = {
        "devices": {"results": _pruned(msgspec.to_builtins(allocation.devices.results))},
    }
    if allocation.devices.config:
        body["devices"]["config"] = _plain(allocation.devices.config)
    if allocation.node_selector is not None:
        body["nodeSelector"] = _pruned(msgspec.to_builtins(allocation.node_selector))
    if allocation.allocation_timestamp is not None:
        body["allocationTimestamp"] = allocation.allocation_timestamp
    return body


def _plain(value: Any) -> Any:
    """Dictionaries and lists; what was read as bytes is written as bytes."""
    return msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _pruned(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", [], {}, ())}
    if isinstance(value, list | tuple):
        return [_pruned(part) for part in value]
    return value
