"""The shape of the code base: sizes, docstrings, names, layers."""

import ast
import subprocess
import sys

from architecture.sources import ROOT, SOURCES, TESTS, imports_of, modules_of, shown, tree

MOST_LINES = 600
EMPTY_WORDS = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {shown(p): len(p.read_text().splitlines()) for p in (*SOURCES, *TESTS)}
    long = {path: lines for path, lines in lengths.items() if lines > MOST_LINES}
    assert not long, f"split these modules by what they are about: {long}"


def test_every_module_says_what_it_owns() -> None:
    silent = [shown(p) for p in SOURCES if not ast.get_docstring(tree(p))]
    assert not silent, f"begin these modules with a docstring: {silent}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {p: {*p.relative_to(ROOT).with_suffix("").parts} for p in SOURCES}
    empty = [shown(p) for p, names in parts.items() if names & EMPTY_WORDS]
    assert not empty, f"name these modules after what they own: {empty}"


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


def test_naive_references_share_only_the_model_with_the_product() -> None:
    foreign = {}
    for path in (ROOT / "tests" / "reference").rglob("*.py"):
        imported = {
            name
            for name in imports_of(path)
            if name.startswith(("moorage", "numpy")) and not name.startswith("moorage.model")
        }
        if imported:
            foreign[shown(path)] = imported
    assert not foreign, (
        "what is checked and what it is checked against must not share mistakes; "
        f"write these references without: {foreign}"
    )


def test_the_layers_are_those_that_the_documentation_draws() -> None:
    drawn = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    for package in sorted(p.name for p in (ROOT / "src" / "moorage").iterdir() if p.is_dir()):
        if modules_of(package):
            assert package in drawn, f"draw the layer of {package} in docs/architecture.md"
