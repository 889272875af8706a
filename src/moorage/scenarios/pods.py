"""Pods and workloads as generators and tables make them: what they ask for, how long they run."""

from collections.abc import Mapping
from typing import Any

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.scenarios.scenario import Generator

_NAME = "$(NAME)"


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


def made_objects(
    given: Generator, name: str, requests: Mapping[str, str], lasts: float | None
) -> tuple[dict[str, Any], ...]:
    """What a generator makes under a name."""
    if not given.objects:
        return (pod_manifest(name, requests, lasts, given.template),)
    return tuple(_filled(obj, name, requests, lasts, given) for obj in given.objects)


def _filled(
    obj: Mapping[str, Any],
    name: str,
    requests: Mapping[str, str],
    lasts: float | None,
    given: Generator,
) -> dict[str, Any]:
    """A manifest with its name; its pods, if it has some, with their requests and run time."""
    filled: dict[str, Any] = _named(obj, name)
    template = (filled.get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return filled
    made = pod_manifest("", requests, lasts, _merged(given.template, template))
    del made["metadata"]["name"]
    pods = {"metadata": made["metadata"], "spec": made["spec"]}
    return {**filled, "spec": {**filled["spec"], "template": pods}}


def _merged(given: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    parts = ("metadata", "spec")
    return {part: {**(given.get(part) or {}), **(own.get(part) or {})} for part in parts}


def _named(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.replace(_NAME, name)
    if isinstance(value, Mapping):
        return {_named(key, name): _named(inner, name) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_named(inner, name) for inner in value]
    return value
