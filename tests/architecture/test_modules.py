"""The shape of the code base: sizes, docstrings, names, layers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "moorage").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOST_LINES = 600
EMPTY_WORDS = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {shown(p): len(p.read_text().splitlines()) for p in (*SOURCES, *TESTS)}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_every_module_says_what_it_owns() -> None:
    silent = [shown(p) for p in SOURCES if not ast.get_docstring(ast.parse(p.read_text()))]
    assert silent == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {p: {*p.relative_to(ROOT).with_suffix("").parts} for p in SOURCES}
    assert [shown(p) for p, names in parts.items() if names & EMPTY_WORDS] == []


def test_the_import_contracts_hold() -> None:
    # In a process of its own: the linter changes sys.path and the logging set-up.
    code = (
        "import sys; sys.path.insert(0, 'src');"
        "from importlinter.cli import lint_imports;"
        "sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("layer", ["model", "config"])
def test_plain_values_import_no_columns_and_no_event_loop(layer: str) -> None:
    imported: set[str] = set()
    for path in (ROOT / "src" / "moorage" / layer).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    assert not imported & {"numpy", "asyncio", "socket", "http"}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_naive_references_share_only_the_model_with_the_product() -> None:
    """What is checked and what it is checked against must not have the same mistakes."""
    foreign = {}
    for path in (ROOT / "tests" / "reference").rglob("*.py"):
        imported = {
            name
            for name in imports_of(path)
            if name.startswith(("moorage", "numpy")) and not name.startswith("moorage.model")
        }
        if imported:
            foreign[shown(path)] = imported
    assert foreign == {}


def test_the_packages_of_plugins_do_not_know_the_engine() -> None:
    knowing = {
        shown(path): names
        for path in (ROOT / "src" / "moorage" / "plugins").rglob("*.py")
        if (names := {n for n in imports_of(path) if n.startswith("moorage.engine")})
    }
    assert knowing == {}


def test_the_engine_and_all_below_it_take_their_clock_and_chance_as_arguments() -> None:
    allowed = {"src/moorage/engine/clock.py"}
    guilty = {}
    for layer in ("model", "config", "cluster", "framework", "plugins", "engine"):
        for path in (ROOT / "src" / "moorage" / layer).rglob("*.py"):
            text = path.read_text()
            used = [
                call
                for call in ("time.time(", "time.monotonic(", "datetime.now(", "random.random(")
                if call in text
            ]
            if used and shown(path) not in allowed:
                guilty[shown(path)] = used
    assert guilty == {}
