"""Where the API keeps each kind: group, version, plural and scope, and the paths that follow.

Knows every kind of the model, the few others that a scheduler writes, and custom resources by the
name that plugins use for them (`<plural>.<version>.<group>`). Makes paths; asks nobody.
"""

import re
from urllib.parse import quote

import msgspec

from moorage.errors import InputError
from moorage.model.custom import CustomObject, parse_resource_name, plural_of
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject

POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""What a scheduler watches: a pod that has run to its end disappears from its sight."""

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")


class Resource(msgspec.Struct, frozen=True):
    """A kind and its place in the API; `struct` is what its objects are decoded into."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool
    struct: type[ApiObject] | None = None

    @property
    def api_version(self) -> str:
        """`apps/v1`, or just `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """The path of all its objects, or of those in one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{_segment(namespace)}" if namespace else ""
        return f"{root}{within}/{self.plural}"

    def item(self, namespace: str, name: str, subresource: str = "") -> str:
        """The path of one object, or of a subresource of it."""
        path = f"{self.collection(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


def _segment(name: str) -> str:
    """A name as part of a path; nearly every name can stand there as it is."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


def _known() -> dict[str, Resource]:
    others = [
        ("", "v1", "ConfigMap", True),
        ("events.k8s.io", "v1", "Event", True),
        ("coordination.k8s.io", "v1", "Lease", True),
        ("node.k8s.io", "v1", "RuntimeClass", False),
        ("authentication.k8s.io", "v1", "TokenReview", False),
        ("authorization.k8s.io", "v1", "SubjectAccessReview", False),
    ]
    return {
        name: Resource(name, k.group, k.versions[0], plural_of(name), k.namespaced, k.struct)
        for name, k in KINDS.items()
    } | {
        kind: Resource(kind, group, version, plural_of(kind), namespaced)
        for group, version, kind, namespaced in others
    }


RESOURCES = _known()


def resource_for(kind: str) -> Resource:
    """The resource of a kind (`Pod`) or of a custom resource's name (`foos.v1.example.com`)."""
    known = RESOURCES.get(kind)
    if known is not None:
        return known
    name = parse_resource_name(kind)
    if name is None:
        raise InputError(
            f'"{kind}" is neither a kind that a scheduler knows nor <plural>.<version>.<group>'
        )
    return Resource(kind, name.group, name.version, name.plural, True, CustomObject)
