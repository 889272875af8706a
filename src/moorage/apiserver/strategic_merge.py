"""Strategic merge patch: a merge patch that knows which lists are really maps.

Which member is the key of a list comes from upstream's struct tags (`patchMergeKey`), kept here as
a table by field name. Also the merging part of server-side apply.
Upstream: apimachinery pkg/util/strategicpatch/patch.go.
"""

import copy
from collections import deque
from collections.abc import Hashable
from typing import Any

import msgspec

from moorage.apiserver.errors import Json, bad_request

# A list under this name is merged by this member; lists that are missing here are replaced.
# Of several candidates (container ports, service ports) the first that the items have counts.
_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("addresses", "conditions"), ("type",)),
    **dict.fromkeys(("containers", "ephemeralContainers", "initContainers", "env"), ("name",)),
    **dict.fromkeys(("hostAliases", "hostIPs", "podIPs"), ("ip",)),
    **dict.fromkeys(("imagePullSecrets", "secrets", "schedulingGates", "volumes"), ("name",)),
    **dict.fromkeys(("resourceClaimStatuses", "resourceClaims"), ("name",)),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port"),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
SETS = frozenset({"finalizers"})
"""Lists of plain values that are sets."""
# A volume has one source: naming another replaces it. Clients say so with $retainKeys.
_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_REMOVE = "$deleteFromPrimitiveList/"


def strategic_merge(document: Json, patch: Any) -> Json:
    """The document with the patch merged in."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch is an object")
    return _merge(document, patch)


def _merge(document: Json, patch: Json) -> Json:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return _plain_members(patch)
    if directive == "delete":
        return {}
    retained = _retained(patch)
    result = {
        name: value for name, value in document.items() if retained is None or name in retained
    }
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            present = result.get(name)
            result[name] = _merge(present if isinstance(present, dict) else {}, value)
        elif isinstance(value, list):
            result[name] = _merge_list(name, result.get(name), value)
        else:
            result[name] = value
    _remove_values(result, patch)
    _order_lists(result, patch, document)
    return result


def _retained(patch: Json) -> set[str] | None:
    names = patch.get(_RETAIN)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request(f"{_RETAIN} must be a list of names")
    return set(names)


def _merge_list(name: str, document: Any, patch: list[Any]) -> list[Any]:
    present = list(document) if isinstance(document, list) else []
    before = list(present)
    if name in SETS:
        found = {_hashable(item) for item in present}
        present += [item for item in patch if _hashable(item) not in found]
        return _in_order(name, present, patch, before)
    key = merge_key(name, patch)
    if key is None:
        return [_plain(item) for item in patch]
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_plain(item) for item in patch if item.get(_DIRECTIVE) != "replace"]
    places = {
        _hashable(item.get(key)): place
        for place, item in enumerate(present)
        if isinstance(item, dict)
    }
    removed: set[int] = set()
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        identity = _hashable(item[key])
        place = places.get(identity)
        if item.get(_DIRECTIVE) == "delete":
            if place is not None:
                removed.add(place)
        elif place is None:
            places[identity] = len(present)
            present.append(_merge({}, item))
        else:
            present[place] = _merge(present[place], item)
    left = [item for place, item in enumerate(present) if place not in removed]
    return _in_order(name, left, patch, before)


def merge_key(name: str, patch: list[Any]) -> str | None:
    """Which member tells the elements of a list under this name apart, if one does."""
    keys = _MERGE_KEYS.get(name, ())
    members = [item for item in patch if isinstance(item, dict)]
    if not keys or len(members) != len(patch):
        return None
    marked = [item for item in members if set(item) - {_DIRECTIVE}]
    return next((key for key in keys if any(key in item for item in marked)), keys[0])


def _remove_values(result: Json, patch: Json) -> None:
    for name, values in patch.items():
        if name.startswith(_REMOVE):
            field = name.removeprefix(_REMOVE)
            present = result.get(field) or []
            if not isinstance(values, list) or not isinstance(present, list):
                raise bad_request(f"{name} must be a list, and so must {field}")
            removed = {_hashable(item) for item in values}
            result[field] = [item for item in present if _hashable(item) not in removed]


def _order_lists(result: Json, patch: Json, document: Json) -> None:
    for name, wanted in patch.items():
        field = name.removeprefix(_ORDER)
        items, before = result.get(field), document.get(field) or []
        if name == field or not isinstance(wanted, list):
            continue
        if isinstance(items, list) and isinstance(before, list):
            result[field] = _in_order(field, items, wanted, before)


def _in_order(field: str, items: list[Any], wanted: list[Any], before: list[Any]) -> list[Any]:
    """What the client names is in its order; the rest comes after it, unless it was in front."""
    order, was = (
        {_identity(field, item): place for place, item in enumerate(some)}
        for some in (wanted, before)
    )
    known = [(order[one], item) for item in items if (one := _identity(field, item)) in order]
    named = [item for _, item in sorted(known, key=lambda pair: pair[0])]
    rest = deque(item for item in items if _identity(field, item) not in order)
    result = []
    for item in named:
        place = was.get(_identity(field, item), -1)
        while rest and was.get(_identity(field, rest[0]), place) < place:
            result.append(rest.popleft())
        result.append(item)
    return [*result, *rest]


def _identity(field: str, item: Any) -> Hashable:
    if isinstance(item, dict):
        item = next((item[key] for key in _MERGE_KEYS.get(field, ()) if key in item), None)
    return _hashable(item)


def _hashable(value: Any) -> Hashable:
    """A key for a JSON value in sets and maps: comparing item by item takes quadratic time."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted")


def _plain(value: Any) -> Any:
    """A patch's value as a document: without directives and nulls."""
    return _plain_members(value) if isinstance(value, dict) else copy.deepcopy(value)


def _plain_members(value: Json) -> Json:
    return {
        name: _plain(item)
        for name, item in value.items()
        if item is not None and not name.startswith("$")
    }
