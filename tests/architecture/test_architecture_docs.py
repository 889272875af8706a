"""What docs/architecture.md names exists, and one pod's way stays short."""

import ast
import re
from pathlib import Path

import pytest

from architecture.sources import MOORAGE, ROOT, tree

TEXT = (ROOT / "docs" / "architecture.md").read_text()
WAY = TEXT.partition("## One pod's way\n")[2].partition("\n## ")[0]
STEPS = [
    (path, name)
    for path, names in re.findall(r"^\|[^|]*\| `([\w/]+\.py)` \| ([^|]+) \|", WAY, re.M)
    for name in re.findall(r"`([\w.]+)`", names)
]
PACKAGES = {path.name for path in MOORAGE.iterdir() if path.is_dir()}
NAMED = sorted(set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+(?:\.\w+)*)`", TEXT)))
MOST_MODULES = 30


def defined(path: Path) -> set[str]:
    """The functions, classes and methods (`Class.method`) of a module."""
    found = set()
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def test_the_way_of_a_pod_leads_from_the_watch_to_the_confirmation() -> None:
    assert STEPS[0] == ("kube/reflector.py", "Reflector.run")
    assert STEPS[-1] == ("cluster/state.py", "ClusterState.add_pod")


@pytest.mark.parametrize(("path", "name"), STEPS)
def test_every_step_of_the_way_exists(path: str, name: str) -> None:
    assert name in defined(MOORAGE / path), f"docs/architecture.md names {name} of {path}"


def test_the_way_of_a_pod_leads_through_few_modules() -> None:
    modules = {path for path, _ in STEPS}
    assert len(modules) <= MOST_MODULES, f"{len(modules)} modules: {sorted(modules)}"


def test_every_file_that_is_named_exists() -> None:
    files = set(re.findall(r"`([\w/]+/\w+\.py)`", TEXT))
    missing = [name for name in sorted(files) if not (MOORAGE / name).exists()]
    missing += [
        name for name in re.findall(r"tests/[\w/]+\.py", TEXT) if not (ROOT / name).exists()
    ]
    assert not missing, f"docs/architecture.md names files that do not exist: {missing}"


@pytest.mark.parametrize("dotted", [name for name in NAMED if name.split(".")[0] in PACKAGES])
def test_every_module_that_is_named_exists(dotted: str) -> None:
    module = MOORAGE
    parts = dotted.split(".")
    while parts and (module / parts[0]).is_dir():
        module /= parts.pop(0)
    if parts:
        module = module / f"{parts.pop(0)}.py"
    assert module.exists(), f"docs/architecture.md names {dotted}"
    if parts:
        assert ".".join(parts) in defined(module), f"docs/architecture.md names {dotted}"
