"""Names of resources and their units: which are counted in thousandths, which are scalars."""

from collections.abc import Mapping

from moorage.model.quantity import Quantity, clamp, parse_milli, whole

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

_NATIVE_DOMAIN = "kubernetes.io/"

ResourceList = Mapping[str, Quantity]
"""Resource name -> quantity, as the API writes it."""

Resources = dict[str, int]
"""Resource name -> integer in the scheduler's unit (thousandths of a CPU, otherwise whole)."""


def is_extended(name: str) -> bool:
    """A resource that some vendor advertises, such as `nvidia.com/gpu`."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")


def is_hugepages(name: str) -> bool:
    """A huge-page size, such as `hugepages-2Mi`."""
    return name.startswith("hugepages-")


def is_scalar(name: str) -> bool:
    """A resource the scheduler counts beside cpu, memory, ephemeral storage and pods."""
    return (
        is_extended(name)
        or is_hugepages(name)
        or _NATIVE_DOMAIN in name
        or name.startswith("attachable-volumes-")
    )


def is_pod_level(name: str) -> bool:
    """May the resource be requested for a whole pod (`spec.resources`)?"""
    return name in (CPU, MEMORY) or is_hugepages(name)


def to_milli(resources: ResourceList | None) -> Resources:
    """A resource list in exact thousandths; a bad quantity is reported with its resource."""
    result: Resources = {}
    for name, quantity in (resources or {}).items():
        try:
            result[name] = parse_milli(quantity)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return result


def in_scheduler_units(milli: Resources) -> Resources:
    """Thousandths turned into the unit each column is kept in; unknown names are dropped."""
    result: Resources = {}
    for name, value in milli.items():
        if name == CPU:
            result[name] = clamp(value)
        elif name in (MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name):
            result[name] = clamp(whole(value))
    return result
