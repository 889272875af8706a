"""The `scale` subresource: how many replicas, and nothing else.

Upstream: kubernetes@v1.36.4 pkg/registry/apps/*/storage (`ScaleREST`).
"""

from moorage.apiserver.columns import selector_text
from moorage.apiserver.history import Stored
from moorage.apiserver.statuses import Json

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(stored: Stored) -> Json:
    """The `Scale` of a workload."""
    obj = stored.object()
    selector = selector_text((obj.get("spec") or {}).get("selector"))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: v for k, v in obj["metadata"].items() if k in _IDENTITY},
        "spec": {"replicas": (obj.get("spec") or {}).get("replicas", 0)},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": "" if selector == "<none>" else selector,
        },
    }


def rescaled(obj: Json, scale: Json) -> Json:
    """The workload with the replicas a `Scale` asks for."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    metadata = {**obj["metadata"]}
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        metadata["resourceVersion"] = version
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], "replicas": replicas}}
