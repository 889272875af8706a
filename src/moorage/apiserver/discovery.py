"""Discovery: which groups, versions and resources there are.

Everything here follows from the resource table and never changes while the server runs.
Upstream: apiserver pkg/endpoints/discovery and .../discovery/aggregated.
"""

from functools import lru_cache

from moorage.apiserver.resources import ApiResource, group_versions, resources_of
from moorage.apiserver.statuses import Json, no_such_path

GIT_VERSION = "v1.36.4"
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
}
_UPDATES = ("get", "patch", "update")


def version_info() -> Json:
    """The answer of `/version`."""
    major, minor, _ = GIT_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "moorage",
        "platform": "python",
    }


def _group_version(group: str, version: str) -> Json:
    return {"groupVersion": f"{group}/{version}" if group else version, "version": version}


def _group(group: str, versions: list[str]) -> Json:
    listed = [_group_version(group, version) for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


@lru_cache(maxsize=1)
def core_versions() -> Json:
    """`/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


@lru_cache(maxsize=1)
def groups() -> Json:
    """`/apis`."""
    listed = [_group(name, versions) for name, versions in group_versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(name: str) -> Json:
    """`/apis/<group>`."""
    versions = group_versions().get(name)
    if not name or versions is None:
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


@lru_cache(maxsize=64)
def resources(group_name: str, version: str) -> Json:
    """`/api/v1` and `/apis/<group>/<version>`."""
    rows = resources_of(group_name, version)
    if not rows:
        raise no_such_path()
    listed: list[Json] = []
    for row in rows:
        listed.append(_resource(row))
        listed += [_subresource(row, name) for name in row.subresources]
    group_version = _group_version(group_name, version)["groupVersion"]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": listed,
    }


def _resource(row: ApiResource) -> Json:
    entry: Json = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    return entry


def _subresource(row: ApiResource, name: str) -> Json:
    default = (row.group, row.version, row.kind, _UPDATES)
    group_name, version, kind, verbs = _SUBRESOURCE_KINDS.get(name, default)
    entry: Json = {
        "name": f"{row.plural}/{name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": kind,
        "verbs": list(verbs),
    }
    if (group_name, version) != (row.group, row.version):
        entry["group"], entry["version"] = group_name, version
    return entry


# ---- everything in one document ----


@lru_cache(maxsize=2)
def aggregated(*, core: bool) -> Json:
    """The aggregated form of `/api` (the core group) or `/apis` (all others)."""
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(row) for row in resources_of(name, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }
        for name, versions in group_versions().items()
        if (name == "") is core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(row: ApiResource) -> Json:
    entry: Json = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [_aggregated_subresource(row, name) for name in row.subresources]
    return entry


def _aggregated_subresource(row: ApiResource, name: str) -> Json:
    default = (row.group, row.version, row.kind, _UPDATES)
    group_name, version, kind, verbs = _SUBRESOURCE_KINDS.get(name, default)
    return {
        "subresource": name,
        "responseKind": {"group": group_name, "version": version, "kind": kind},
        "verbs": list(verbs),
    }
