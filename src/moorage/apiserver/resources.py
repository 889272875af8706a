"""The resources this server offers: one declarative table, read by routing and discovery.

A row says where the API has a resource, under which words, and in which form it is stored; how it
is defaulted or printed is decided elsewhere by looking the row up. Most resources are stored as
clients speak them. Events are written under two groups with different field names; resources served
in two versions differ only in `apiVersion`.
Upstream: kubernetes@v1.36.4 pkg/apis/events/v1/conversion.go.
"""

from collections.abc import Iterable, Mapping

import msgspec

from moorage.apiserver.errors import Json

STATUS = "status"
ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
CREATE_ONLY = ("create",)

GroupVersion = tuple[str, str]
StorageKey = str


class ApiResource(msgspec.Struct, frozen=True):
    """One resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str
    short_names: tuple[str, ...]
    subresources: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    storage: StorageKey
    stored_as: str = ""
    """The `apiVersion` of the stored form of a custom resource."""

    @property
    def api_version(self) -> str:
        """What objects of it say in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def virtual(self) -> bool:
        """Answered on the spot and never stored, as reviews and bindings are."""
        return self.verbs == CREATE_ONLY


def _row(
    group: str,
    version: str,
    plural: str,
    kind: str,
    *,
    namespaced: bool = True,
    short: str = "",
    sub: str = "",
    categories: str = "",
    verbs: tuple[str, ...] = ALL_VERBS,
    storage: str = "",
) -> ApiResource:
    return ApiResource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        subresources=tuple(sub.split()),
        categories=tuple(categories.split()),
        verbs=verbs,
        storage=storage or (f"{plural}.{group}" if group else plural),
    )


def _core() -> list[ApiResource]:
    def row(plural: str, kind: str, **options: object) -> ApiResource:
        return _row("", "v1", plural, kind, **options)  # type: ignore[arg-type]

    return [
        row("bindings", "Binding", verbs=CREATE_ONLY),
        row("configmaps", "ConfigMap", short="cm"),
        row("endpoints", "Endpoints", short="ep"),
        row("events", "Event", short="ev"),
        row("limitranges", "LimitRange", short="limits"),
        row("namespaces", "Namespace", namespaced=False, short="ns", sub="finalize status"),
        row("nodes", "Node", namespaced=False, short="no", sub="status"),
        row("persistentvolumeclaims", "PersistentVolumeClaim", short="pvc", sub="status"),
        row("persistentvolumes", "PersistentVolume", namespaced=False, short="pv", sub="status"),
        row("pods", "Pod", short="po", categories="all", sub="binding eviction resize status"),
        row("podtemplates", "PodTemplate"),
        row(
            "replicationcontrollers",
            "ReplicationController",
            short="rc",
            categories="all",
            sub="scale status",
        ),
        row("resourcequotas", "ResourceQuota", short="quota", sub="status"),
        row("secrets", "Secret"),
        row("serviceaccounts", "ServiceAccount", short="sa"),
        row("services", "Service", short="svc", categories="all", sub="status"),
    ]


def _apps() -> list[ApiResource]:
    def row(plural: str, kind: str, short: str, sub: str) -> ApiResource:
        categories = "all" if short else ""
        return _row("apps", "v1", plural, kind, short=short, sub=sub, categories=categories)

    return [
        row("controllerrevisions", "ControllerRevision", "", ""),
        row("daemonsets", "DaemonSet", "ds", "status"),
        row("deployments", "Deployment", "deploy", "scale status"),
        row("replicasets", "ReplicaSet", "rs", "scale status"),
        row("statefulsets", "StatefulSet", "sts", "scale status"),
        _row("batch", "v1", "cronjobs", "CronJob", short="cj", sub="status", categories="all"),
        _row("batch", "v1", "jobs", "Job", sub="status", categories="all"),
        _row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    ]


def _scheduling() -> list[ApiResource]:
    group = "scheduling.k8s.io"
    return [
        _row(
            "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short="pdb", sub="status"
        ),
        _row(group, "v1", "priorityclasses", "PriorityClass", namespaced=False, short="pc"),
        _row(group, "v1alpha2", "podgroups", "PodGroup", sub="status"),
        _row(group, "v1alpha2", "workloads", "Workload", short="wl"),
    ]


def _storage() -> list[ApiResource]:
    def row(plural: str, kind: str, short: str = "", sub: str = "") -> ApiResource:
        return _row("storage.k8s.io", "v1", plural, kind, namespaced=False, short=short, sub=sub)

    return [
        row("csidrivers", "CSIDriver"),
        row("csinodes", "CSINode"),
        _row("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
        row("storageclasses", "StorageClass", short="sc"),
        row("volumeattachments", "VolumeAttachment", sub="status"),
        row("volumeattributesclasses", "VolumeAttributesClass", short="vac"),
    ]


def _devices() -> list[ApiResource]:
    rows: list[ApiResource] = []
    for version in ("v1", "v1beta2"):  # the two have the same shape, so they share storage
        group = "resource.k8s.io"
        rows += [
            _row(group, version, "deviceclasses", "DeviceClass", namespaced=False),
            _row(group, version, "resourceclaims", "ResourceClaim", sub="status"),
            _row(group, version, "resourceclaimtemplates", "ResourceClaimTemplate"),
            _row(group, version, "resourceslices", "ResourceSlice", namespaced=False),
        ]
    rows.append(
        _row(
            *("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule"),
            namespaced=False,
            sub="status",
        )
    )
    return rows


def _access() -> list[ApiResource]:
    rbac, authentication = "rbac.authorization.k8s.io", "authentication.k8s.io"
    reviews = "authorization.k8s.io"

    def review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> ApiResource:
        return _row(group, "v1", plural, kind, namespaced=namespaced, verbs=CREATE_ONLY)

    return [
        _row(
            *("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            "CustomResourceDefinition",
            namespaced=False,
            short="crd crds",
            sub="status",
            categories="api-extensions",
        ),
        _row(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        _row(rbac, "v1", "clusterroles", "ClusterRole", namespaced=False),
        _row(rbac, "v1", "rolebindings", "RoleBinding"),
        _row(rbac, "v1", "roles", "Role"),
        review(authentication, "tokenreviews", "TokenReview"),
        review(authentication, "selfsubjectreviews", "SelfSubjectReview"),
        review(reviews, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
        review(reviews, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        review(reviews, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        review(reviews, "subjectaccessreviews", "SubjectAccessReview"),
    ]


def _coordination() -> list[ApiResource]:
    group = "coordination.k8s.io"
    return [
        _row(group, "v1", "leases", "Lease"),
        _row(group, "v1beta1", "leasecandidates", "LeaseCandidate"),
        # One list of events under two groups, as upstream: what one writes the other reads.
        _row("events.k8s.io", "v1", "events", "Event", short="ev", storage="events"),
    ]


RESOURCES: tuple[ApiResource, ...] = (
    *_core(),
    *_apps(),
    *_coordination(),
    *_scheduling(),
    *_storage(),
    *_devices(),
    *_access(),
)

BY_PLURAL: Mapping[tuple[str, str, str], ApiResource] = {
    (row.group, row.version, row.plural): row for row in RESOURCES
}
BY_KIND: Mapping[tuple[str, str], ApiResource] = {
    (row.api_version, row.kind): row for row in reversed(RESOURCES)
}
# The form in which a shared storage keeps its objects: the first row that names it.
STORED_AS: Mapping[StorageKey, ApiResource] = {
    row.storage: row for row in reversed(RESOURCES) if not row.virtual
}


class ResourceTable:
    """The rows of one server: those that every server has, and those of custom resources."""

    def __init__(self, custom: Iterable[ApiResource] = ()) -> None:
        known = {(row.group, row.version, row.plural): row for row in custom}
        self.by_plural: Mapping[tuple[str, str, str], ApiResource] = {**known, **BY_PLURAL}

    def group_versions(self) -> dict[str, list[str]]:
        """Groups with their versions, the preferred one first; the core group is `""`."""
        found: dict[str, list[str]] = {}
        for row in (*RESOURCES, *self.by_plural.values()):
            versions = found.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        return found

    def rows(self, group: str, version: str) -> list[ApiResource]:
        """The rows of one group and version, by plural name."""
        rows = (
            row for row in self.by_plural.values() if (row.group, row.version) == (group, version)
        )
        return sorted(rows, key=lambda row: row.plural)


# Field of events.k8s.io/v1 -> field of the core group, which is the stored form.
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_FIELDS = {core: newer for newer, core in _EVENT_FIELDS.items()}


def stored_as_is(resource: ApiResource) -> bool:
    """Can stored bytes be handed out unchanged?"""
    return _stored_version(resource) == resource.api_version


def _stored_version(resource: ApiResource) -> str:
    return resource.stored_as or STORED_AS[resource.storage].api_version


def to_stored(resource: ApiResource, obj: Json) -> Json:
    """A client's object in the stored form."""
    if stored_as_is(resource):
        return obj
    if resource.storage == "events":
        obj = {_EVENT_FIELDS.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": _stored_version(resource)}


def from_stored(resource: ApiResource, obj: Json) -> Json:
    """A stored object in the form the client speaks."""
    if stored_as_is(resource):
        return obj
    if resource.storage == "events":
        obj = {_CORE_FIELDS.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": resource.api_version}
