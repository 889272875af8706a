"""Names replaced in a recording, so that it can be given to others.

Every name becomes another one, the same everywhere, so selectors and references keep their
meaning. What is known to be no name is kept; whatever else is text is replaced.
"""

import hashlib
import hmac
import os
import re
from pathlib import Path
from typing import Any

from moorage.errors import InputError
from moorage.private_files import write_privately

_LABELS = frozenset({"labels", "matchLabels", "nodeSelector", "annotations"})
"""Maps whose keys are kept and whose values are replaced."""
_AMOUNTS = frozenset(
    {
        *("requests", "limits", "capacity", "allocatable", "overhead"),
        *("allocatedResources", "consumedCapacity"),
    }
)
"""Maps from names of resources to amounts."""
_KEPT = frozenset(
    {
        *("kind", "apiVersion", "resourceVersion", "finalizers", "schedulerName"),
        *("creationTimestamp", "deletionTimestamp", "startTime", "phase", "type", "status"),
        *("reason", "key", "operator", "effect", "timeAdded", "topologyKey", "whenUnsatisfiable"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys", "mismatchLabelKeys"),
        *("restartPolicy", "preemptionPolicy", "protocol", "action", "bindMountOptions"),
        *("declaredFeatures", "disableResizePreemption", "unhealthyPodEvictionPolicy"),
        *("minAvailable", "maxUnavailable", "provisioner", "volumeBindingMode", "accessModes"),
        *("volumeMode", "storage", "fsType", "attacher", "maximumVolumeSize"),
        *("driver", "expression", "attributes", "allocationMode", "attribute"),
        *("matchAttribute", "distinctAttribute", "resourceName", "extendedResourceName"),
        *("quantity", "perPod", "perContainer", "sharedCounters", "consumesCounters"),
        *("mode", "level", "placement", "hostIP", "clusterIP"),
    }
)
"""Fields that hold no names, with everything in them."""
_KEPT_WORDS = frozenset({"default", "kube-system", "latest", "true", "false", "yes", "system"})
_KEPT_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
_PART = re.compile(r"[^/:@_]+")
_KEY_BYTES = 32


class Anonymizer:
    """Replaces names, by a key that stays with whoever records."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, str] = {}

    def record(self, value: Any, field: str = "") -> Any:
        """A part of an object, with other names; `field` is where it stands."""
        if isinstance(value, str):
            return self.name(value)
        if isinstance(value, list):
            return [self.record(item, field) for item in value]
        if not isinstance(value, dict) or field in _AMOUNTS:
            return value
        if field in _LABELS:
            return {key: self.name(text) for key, text in value.items()}
        return {
            name: part if name in _KEPT else self.record(part, name) for name, part in value.items()
        }

    def name(self, text: str) -> str:
        """Another text in its place; paths and image names keep their form."""
        found = self._known.get(text)
        if found is None:
            kept = text in _KEPT_CLASSES
            found = text if kept else _PART.sub(lambda part: self._other(part[0]), text)
            self._known[text] = found
        return found

    def _other(self, part: str) -> str:
        if part in _KEPT_WORDS or part.isdecimal():
            return part
        return "x" + hmac.new(self._key, part.encode(), hashlib.sha256).hexdigest()[:12]


def anonymizer_beside(recording: Path) -> Anonymizer:
    """The anonymizer of a recording: its key is in a file beside, made if there is none."""
    path = recording.with_name(f"{recording.name}.key")
    try:
        if not path.exists():
            write_privately(path, os.urandom(_KEY_BYTES).hex().encode())
        return Anonymizer(bytes.fromhex(path.read_text("ascii").strip()))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise InputError(f"{path}: expected the key of a recording, in hexadecimal") from None
