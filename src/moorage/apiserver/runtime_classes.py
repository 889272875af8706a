"""What a pod takes from its RuntimeClass: overhead, a node selector and tolerations.

Called by `admission` for a new pod; reads no store.
Upstream: kubernetes@v1.37.1 plugin/pkg/admission/runtimeclass, pkg/util/tolerations.
"""

import msgspec

from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import ApiStatusError, Json, forbidden
from moorage.model.quantity import parse_milli


class _Overhead(msgspec.Struct, rename="camel"):
    pod_fixed: dict[str, str | int] = {}


class _Scheduling(msgspec.Struct, rename="camel"):
    node_selector: dict[str, str] = {}
    tolerations: list[Json] = []


class RuntimeClass(msgspec.Struct):
    """What of a RuntimeClass pods take over."""

    overhead: _Overhead | None = None
    scheduling: _Scheduling | None = None


def take_over(pod: Json, found: RuntimeClass | None) -> None:
    """Fill a new pod in from the class that it names; without a class it may have no overhead."""
    name, spec = pod["metadata"].get("name", ""), pod["spec"]
    if found is None or found.overhead is None:
        if spec.get("overhead") is not None:
            raise _rejected(
                name, "Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
    else:
        given, fixed = spec.get("overhead"), found.overhead.pod_fixed
        if given and _amounts(given) != _amounts(fixed):
            raise _rejected(name, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = fixed
    if found is not None and found.scheduling is not None:
        spec["nodeSelector"] = _selector(name, spec.get("nodeSelector") or {}, found.scheduling)
        every = [*mappings(spec.get("tolerations")), *found.scheduling.tolerations]
        spec["tolerations"] = _without_redundant(every)


def not_found(pod: Json, wanted: str) -> ApiStatusError:
    """The pod names a class that there is not."""
    return _rejected(pod["metadata"].get("name", ""), f'RuntimeClass "{wanted}" not found')


def _rejected(name: str, why: str) -> ApiStatusError:
    return forbidden("pods", "", name, f"pod rejected: {why}")


def _amounts(resources: dict[str, str | int]) -> dict[str, int]:
    return {name: parse_milli(str(amount)) for name, amount in resources.items()}


def _selector(pod: str, own: dict[str, str], scheduling: _Scheduling) -> dict[str, str]:
    for key, value in scheduling.node_selector.items():
        if own.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
            raise forbidden("pods", "", pod, why)
    return {**own, **scheduling.node_selector}


def _without_redundant(every: list[Json]) -> list[Json]:
    """The tolerations that no other one includes; of equal ones the first."""
    kept: list[Json] = []
    for index, one in enumerate(every):
        later = (other for other in every[index + 1 :] if other != one)
        if not any(_includes(other, one) for other in (*kept, *later)):
            kept.append(one)
    return kept


def _includes(wide: Json, narrow: Json) -> bool:
    """Does `wide` tolerate all that `narrow` does?"""
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    if narrow.get("key", "") != wide.get("key", "") and not (exists and not wide.get("key")):
        return False
    if wide.get("effect") and narrow.get("effect") != wide["effect"]:
        return False
    asked, longest = (one.get("tolerationSeconds") for one in (narrow, wide))
    lasts_longer = longest is not None and (asked is None or asked > longest)
    if wide.get("effect") == "NoExecute" and lasts_longer:
        return False
    if exists:
        return True
    equal = narrow.get("operator") == "Equal" and wide.get("operator", "") in ("", "Equal")
    return equal and narrow.get("value", "") == wide.get("value", "")
