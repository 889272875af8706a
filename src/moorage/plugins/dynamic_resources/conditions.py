"""Binding conditions: devices that must report ready before a pod is bound.

Owns when a claim is ready, has failed, or has waited too long. Times are passed in.
"""

from datetime import datetime

from moorage.model.devices import (
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    ResourceClaim,
)

BINDING_FAILED = "device binding failed"
BINDING_TIMEOUT = "device binding timeout"


class BindingFailedError(Exception):
    """A device reported that it cannot be prepared."""


def has_conditions(claim: ResourceClaim) -> bool:
    """Must anything be waited for?"""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def is_ready(claim: ResourceClaim) -> bool:
    """Do all devices report ready? Raises `BindingFailedError` if one has failed."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        for condition in status.conditions:
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                raise BindingFailedError(
                    f"{BINDING_FAILED}: claim={claim.name}, reason={condition.reason}, "
                    f'message="{condition.message}"'
                )
        met = {condition.type for condition in status.conditions if condition.status == "True"}
        if not met.issuperset(result.binding_conditions):
            return False
    return True


def timed_out(claim: ResourceClaim, now: float, limit: float) -> bool:
    """Has a claim with conditions been allocated for longer than `limit` seconds?"""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if not has_conditions(claim):
        return False
    try:
        allocated = datetime.fromisoformat(allocation.allocation_timestamp).timestamp()
    except ValueError:
        return False
    return allocated + limit < now


def _status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    return next(
        (
            status
            for status in claim.status.devices
            if (status.driver, status.pool, status.device) == wanted
        ),
        None,
    )
