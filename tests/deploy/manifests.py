"""Reads what is in deploy/ for the tests: YAML documents, RBAC rules as single rights."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUSTOMIZE = DEPLOY / "kustomize"
CHART = DEPLOY / "helm" / "moorage"

Json = dict[str, Any]


class Right(NamedTuple):
    """One verb on one resource; `name` is the only object it is about, "" for all of them."""

    group: str
    resource: str
    verb: str
    name: str = ""


def documents(*paths: Path) -> list[Json]:
    """All objects in these YAML files."""
    found = [item for path in paths for item in yaml.safe_load_all(path.read_text())]
    assert all(isinstance(item, dict) for item in found), paths
    return found


def one(kind: str, name: str, *paths: Path) -> Json:
    """The object of this kind and name."""
    (found,) = [
        item
        for item in documents(*paths)
        if item["kind"] == kind and item["metadata"]["name"] == name
    ]
    return found


def yaml_files() -> list[Path]:
    """Every YAML file that is no template."""
    return sorted(p for p in DEPLOY.rglob("*.yaml") if "templates" not in p.parts)


def rights(rules: Iterable[Json]) -> Iterator[Right]:
    """Each right that RBAC rules grant, as often as they do."""
    for rule in rules:
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", ("",)):
                        yield Right(group, resource, verb, name)
