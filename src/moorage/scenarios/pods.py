"""Pods as generators and tables make them: what they ask for, and how long they run."""

from collections.abc import Mapping
from typing import Any

from moorage.controllers.kubelet import FINISH_AFTER


def pod_manifest(
    name: str, requests: Mapping[str, str], lasts: float | None, template: dict[str, Any]
) -> dict[str, Any]:
    """A pod; `template` has what else is in its metadata and spec."""
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    metadata["name"] = name
    if lasts is not None:
        notes = metadata.get("annotations") or {}
        metadata["annotations"] = {**notes, FINISH_AFTER: f"{lasts:.3f}s"}
        spec.setdefault("restartPolicy", "Never")
    containers = spec.get("containers") or [{"name": "main", "image": "main"}]
    first = {**containers[0], "resources": {"requests": dict(requests)}}
    spec["containers"] = [first, *containers[1:]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
