"""The parts of `metadata` that the server writes: names, uids, times, generations.

Pure apart from the clock and the random source it is given.
Upstream: apiserver pkg/registry/rest/{create,update,meta}.go, pkg/storage/names.
"""

import random
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from moorage.apiserver.errors import Cause, Json, bad_request, invalid
from moorage.apiserver.resources import ApiResource

Clock = Callable[[], float]

# Upstream's alphabet: no vowels, so that no words appear by chance.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_PREFIX = 63 - _SUFFIX_LENGTH
_BELONGS_TO_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def timestamp(seconds: float) -> str:
    """A time as `metav1.Time` writes it: whole seconds, UTC."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """The Unix time of an RFC 3339 text."""
    return datetime.fromisoformat(text).timestamp()


class Identities:
    """Where names and uids come from."""

    def __init__(self, clock: Clock, generator: random.Random) -> None:
        self.clock = clock
        self._random = generator

    def now(self) -> str:
        """The present second."""
        return timestamp(self.clock())

    def suffix(self) -> str:
        """What `generateName` gets appended."""
        return "".join(self._random.choices(_LETTERS, k=_SUFFIX_LENGTH))

    def uid(self) -> str:
        """A random uid; from the given source, so that a seeded server repeats itself."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def fill(self, resource: ApiResource, obj: Json, namespace: str) -> str:
        """Make `metadata` that of a new object and answer with its name."""
        metadata = metadata_of(obj)
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        for field in (*_BELONGS_TO_SERVER, "resourceVersion", "selfLink", "managedFields"):
            metadata.pop(field, None)
        name = metadata.get("name") or ""
        if not name:
            prefix = metadata.get("generateName") or ""
            if not prefix:
                cause = Cause(
                    "metadata.name",
                    "Required value: name or generateName is required",
                    "FieldValueRequired",
                )
                raise invalid(resource.kind, resource.group, "", [cause])
            name = prefix[:_MAX_PREFIX] + self.suffix()
            metadata["name"] = name
        if resource.namespaced:
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        metadata["uid"] = self.uid()
        metadata["creationTimestamp"] = self.now()
        if "spec" in obj:
            metadata["generation"] = 1
        return str(name)


def metadata_of(obj: Json) -> Json:
    """`metadata`, created where it is missing."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        if metadata is not None:
            raise bad_request("metadata must be an object")
        metadata = obj["metadata"] = {}
    return metadata


def value_at(obj: Json, path: Iterable[str]) -> Any:
    """The value at a path, None if there is none."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def keep_identity(obj: Json, old: Json) -> None:
    """Carry over what a client cannot change in an update."""
    metadata, kept = metadata_of(obj), old["metadata"]
    for field in ("name", "namespace", *_BELONGS_TO_SERVER, "generateName"):
        if field in kept:
            metadata[field] = kept[field]
        else:
            metadata.pop(field, None)
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)


def drop_empty(obj: Json) -> None:
    """Leave out what Go's types would not write: empty labels, annotations and lists."""
    metadata = obj["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in metadata and not metadata[field]:
            del metadata[field]


def bump_generation(obj: Json, old: Json) -> None:
    """Count a change of what is asked for."""
    if "generation" in old["metadata"] and obj.get("spec") != old.get("spec"):
        obj["metadata"]["generation"] = old["metadata"]["generation"] + 1
