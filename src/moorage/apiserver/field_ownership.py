"""Server-side apply: who owns which field, what conflicts, and what goes with its last owner.

An object has owners once it was applied; what it has before then belongs to `before-first-apply`.
From then on updates own what they change. Lists are merged by the keys of `strategic_merge`,
whatever the kind.
Upstream: structured-merge-diff merge/update.go, apimachinery pkg/util/managedfields.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from moorage.apiserver.errors import ApiStatusError, Json
from moorage.apiserver.strategic_merge import SETS, merge_key, strategic_merge

_FIRST = "before-first-apply"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_APPLY, _UPDATE = "Apply", "Update"
# What nobody owns: the identity of an object, and what the server keeps.
_NOBODYS = frozenset({"apiVersion", "kind"})
_SERVERS = frozenset(
    {
        *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "selfLink"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
        "managedFields",
    }
)
_ABSENT = object()

Path = tuple[str, ...]
"""Steps as in `fieldsV1`: `f:spec`, `k:{"name":"c"}` for an element of a list, `v:"x"` of a set."""


class FieldManager(NamedTuple):
    """Who writes."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class _Share(NamedTuple):
    """What a manager owns, since when."""

    paths: frozenset[Path]
    time: str


_Owners = dict[FieldManager, _Share]


def apply(live: Json, config: Json, manager: FieldManager, now: str, *, force: bool) -> Json:
    """The object with a configuration applied; its `managedFields` say who owns what."""
    owners = _read(live) or _first(live, now)
    wanted, present = fields_of(config), fields_of(live)
    conflicts = [
        (other, path)
        for path in sorted(wanted)
        if wanted[path] != {} and present.get(path, _ABSENT) != wanted[path]
        for other, share in owners.items()
        if other != manager and path in share.paths
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    for other, path in conflicts:
        share = owners[other]
        owners[other] = share._replace(paths=share.paths - {path})
    before = owners.pop(manager, _Share(frozenset(), now))
    merged = strategic_merge(live, config)
    kept = {step for share in owners.values() for step in _with_parents(share.paths)}
    for path in sorted(before.paths - wanted.keys(), key=len):
        if path not in kept:
            _remove(merged, path)
    paths = frozenset(wanted)
    owners[manager] = _Share(paths, before.time if paths == before.paths else now)
    merged["metadata"]["managedFields"] = _written(owners)
    return merged


def applied_first(config: Json, manager: FieldManager, now: str) -> list[Json]:
    """The owners of an object that is made by applying it."""
    return _written({manager: _Share(frozenset(fields_of(config)), now)})


def updated_owners(old: Json, new: Json, manager: FieldManager, now: str) -> list[Json]:
    """The owners after an update of an object that has some."""
    owners, present = _read(old), fields_of(new)
    before = fields_of(old)
    gone = before.keys() - present.keys()
    changed = {path for path, value in present.items() if before.get(path, _ABSENT) != value}
    if not gone and not changed:
        return list(old["metadata"]["managedFields"])
    for other, share in owners.items():
        lost = gone if other == manager else gone | changed
        owners[other] = share._replace(paths=share.paths - lost)
    if changed:
        mine = owners.get(manager, _Share(frozenset(), now))
        owners[manager] = _Share(mine.paths | changed, now)
    return _written(owners)


def _first(live: Json, now: str) -> _Owners:
    """Whose an object is that has never been applied here."""
    version = str(live.get("apiVersion", ""))
    annotations = live["metadata"].get("annotations") or {}
    paths = frozenset(fields_of(live))
    owners: _Owners = {}
    text = annotations.get(_LAST_APPLIED)
    if text:
        # kubectl, which applied it on its own side before, takes over what it wrote.
        try:
            config = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError:
            config = {}
        mine = frozenset(fields_of(config)) & paths
        owners[FieldManager(_KUBECTL, _APPLY, version)] = _Share(mine, now)
        paths -= mine
    owners[FieldManager(_FIRST, _UPDATE, version)] = _Share(paths, now)
    return owners


# ---- the fields of an object ----


def fields_of(obj: Json) -> dict[Path, Any]:
    """Every field that can have an owner, with its value; elements of lists have none."""
    found: dict[Path, Any] = {}
    for name, value in obj.items():
        if name == "metadata" and isinstance(value, dict):
            rest = {key: one for key, one in value.items() if key not in _SERVERS}
            _collect(rest, ("f:metadata",), found)
        elif name not in _NOBODYS:
            _collect_member(name, value, (), found)
    found.pop(("f:metadata",), None)
    return found


def _collect(value: Json, path: Path, found: dict[Path, Any]) -> None:
    if not value:
        found[path] = value
    for name, member in value.items():
        _collect_member(name, member, path, found)


def _collect_member(name: str, value: Any, above: Path, found: dict[Path, Any]) -> None:
    path = (*above, f"f:{name}")
    if isinstance(value, dict):
        _collect(value, path, found)
    elif isinstance(value, list) and value and name in SETS:
        found.update(((*path, f"v:{_json(item)}"), None) for item in value)
    elif isinstance(value, list) and value and (key := merge_key(name, value)) is not None:
        for item in value:
            element = (*path, f"k:{_json({key: item.get(key)})}")
            found[element] = None
            _collect(item, element, found)
    else:
        found[path] = value


def _with_parents(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        for size in range(1, len(path) + 1):
            yield path[:size]


def _remove(obj: Any, path: Path) -> bool:
    """Remove what is at a path, and what is empty then; says whether all of `obj` is."""
    step, rest = path[0], path[1:]
    kind, text = step[:1], step[2:]
    if kind == "f":
        if not isinstance(obj, dict) or text not in obj:
            return False
        if not rest or _remove(obj[text], rest):
            del obj[text]
    elif isinstance(obj, list):
        wanted = msgspec.json.decode(text)
        for place, item in enumerate(obj):
            same = item == wanted if kind == "v" else _has(item, wanted)
            if same:
                if not rest:
                    del obj[place]
                else:
                    _remove(item, rest)
                break
    return not obj


def _has(item: Any, members: Json) -> bool:
    return isinstance(item, dict) and all(item.get(key) == one for key, one in members.items())


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


# ---- managedFields ----


def _read(obj: Json) -> _Owners:
    owners: _Owners = {}
    for entry in obj["metadata"].get("managedFields") or []:
        manager = FieldManager(
            entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", "")
        )
        owners[manager] = _Share(frozenset(_paths(entry["fieldsV1"])), entry["time"])
    return owners


def _paths(node: Json, above: Path = ()) -> Iterator[Path]:
    for step, inner in node.items():
        if step == ".":
            yield above
        elif inner:
            yield from _paths(inner, (*above, step))
        else:
            yield (*above, step)


def _written(owners: _Owners) -> list[Json]:
    return [_entry(manager, share) for manager, share in sorted(owners.items()) if share.paths]


def _entry(manager: FieldManager, share: _Share) -> Json:
    fields: Json = {}
    for path in sorted(share.paths, key=len):
        node = fields
        for size, step in enumerate(path, 1):
            if step not in node and path[: size - 1] in share.paths:
                node.setdefault(".", {})
            node = node.setdefault(step, {})
    entry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": share.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return entry | ({"subresource": manager.subresource} if manager.subresource else {})


def _conflict(conflicts: list[tuple[FieldManager, Path]]) -> ApiStatusError:
    named = [(_manager_text(manager), _path_text(path)) for manager, path in conflicts]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, path in named
    ]
    if len(named) == 1:
        text = f"1 conflict: conflict with {named[0][0]}: {named[0][1]}"
    else:
        lines: list[str] = []
        for who in sorted({who for who, _ in named}):
            lines.append(f"conflicts with {who}:")
            lines += [f"- {path}" for other, path in named if other == who]
        text = f"{len(named)} conflicts: " + "\n".join(lines)
    return ApiStatusError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def _manager_text(manager: FieldManager) -> str:
    part = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    using = f" using {manager.api_version}" if manager.operation == _UPDATE else ""
    return f'"{manager.name}"{part}{using}'


def _path_text(path: Path) -> str:
    """A path as messages have it: `.spec.containers[name="c"].image`."""
    text = ""
    for step in path:
        kind, rest = step[:1], step[2:]
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            members = msgspec.json.decode(rest)
            listed = ",".join(f"{key}={_json(members[key])}" for key in sorted(members))
            text += f"[{listed}]"
        else:
            text += f"[{rest}]" if kind == "i" else f"[={rest}]"
    return text


def shown_path(obj: Any, path: str) -> str:
    """The path of a field, such as `spec.containers[0].imag`, as messages here have it."""
    shown: list[str] = []
    for name, places in re.findall(r"([^.\[]+)((?:\[\d+\])*)", path):
        obj = obj.get(name) if isinstance(obj, dict) else None
        shown.append(f"f:{name}")
        for place in re.findall(r"\d+", places):
            items = obj if isinstance(obj, list) else []
            key = merge_key(name, items)
            obj = items[int(place)]
            shown.append(f"i:{place}" if key is None else f"k:{_json({key: obj.get(key)})}")
    return _path_text(tuple(shown))
