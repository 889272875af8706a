"""The house rules of CONTRIBUTING.md that a syntax tree can tell; each says what to do instead."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from architecture.sources import MOORAGE, ROOT, SOURCES, dotted, modules_of, shown, tree
from moorage.plugins.defaults import in_tree_registry

PURE = (
    *("model", "config", "cel", "cluster", "framework", "plugins", "gallery", "engine"),
    "explain",
)
"""What is handed its clock and its chance."""
CLOCKS = {"src/moorage/engine/clock.py"}
EXTENSION_POINTS = {"pre_enqueue", "pre_filter", "filter", "pre_score", "score", "normalize"}
GUARDED = {f"ask_{point}" for point in EXTENSION_POINTS}
GUARD = "src/moorage/framework/guard.py"
ASKING = {
    "src/moorage/framework/runner.py",
    "src/moorage/framework/fast_path.py",
}


def test_a_class_name_means_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{shown(path)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, f"give all but one of these classes another name: {twice}"


def test_the_pure_layers_are_handed_their_clock_and_their_chance() -> None:
    found = {
        shown(path): told
        for path in modules_of(*PURE)
        if shown(path) not in CLOCKS and (told := sorted(set(_clocks_and_chance(path))))
    }
    assert not found, (
        "take a clock (engine.clock.Clock) or a Random as an argument instead of "
        f"reaching for the process's own: {found}"
    )


def _clocks_and_chance(path: Path) -> Iterator[str]:
    """Modules and functions that tell the time of day or throw dice, called or handed on."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in ("time", "random", "secrets"))
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if node.module in ("time", "random", "secrets") and names != {"Random"}:
                yield f"from {node.module} import {', '.join(sorted(names))}"
            elif node.module == "uuid":
                yield from (f"uuid.{name}" for name in sorted(names & {"uuid1", "uuid4"}))
        elif isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"):
            owner = dotted(node.value)
            if owner.split(".")[-1] in ("datetime", "date"):
                yield f"{owner}.{node.attr}"


def test_only_the_runner_asks_plugins() -> None:
    asking = {
        shown(path): calls
        for path in SOURCES
        if path.relative_to(MOORAGE).parts[0] != "testing"  # its business is to ask one plugin
        and shown(path) != GUARD
        and (calls := sorted(_questions_to_plugins(path)))
    }
    assert not asking, f"let framework/runner.py ask the plugins and use its result: {asking}"
    through_the_guard = [
        shown(path)
        for path in SOURCES
        if path.relative_to(MOORAGE).parts[0] != "testing"
        and shown(path) not in ASKING
        and any(name in GUARDED for name in _imported_names(path))
    ]
    assert not through_the_guard, (
        "leave the guarded questions of framework/guard.py to framework/runner.py and use its "
        f"result: {through_the_guard}"
    )


def _questions_to_plugins(path: Path) -> Iterator[str]:
    """Methods of extension points, called or handed on, of whatever is called a plugin."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and node.attr in EXTENSION_POINTS:
            owner = dotted(node.value)
            if owner.endswith(("plugin", "scorer")):
                yield f"{owner}.{node.attr}, line {node.lineno}"


def test_exceptions_are_in_modules_called_errors() -> None:
    names = {"Exception", "BaseException"}
    raised: dict[str, Path] = {}
    grown = True
    while grown:
        grown = False
        for path in SOURCES:
            for node in ast.walk(tree(path)):
                if not isinstance(node, ast.ClassDef) or node.name in names:
                    continue
                bases = {dotted(base).split(".")[-1] for base in node.bases}
                if bases & names or any(_is_builtin_error(base) for base in bases):
                    names.add(node.name)
                    raised[node.name] = path
                    grown = True
    elsewhere = {
        name: shown(path)
        for name, path in raised.items()
        if path.name != "errors.py" and not name.startswith("_")
    }
    assert not elsewhere, (
        "move these exceptions to errors.py (the package's own, or moorage/errors.py where several "
        f"packages meet them), or make them private to the one module that knows them: {elsewhere}"
    )
    leaking = [
        f"{shown(path)}: {name}"
        for path in SOURCES
        for name in _imported_names(path)
        if name.startswith("_") and name in raised
    ]
    assert not leaking, f"a private exception stays in its module; move it to errors.py: {leaking}"


def _is_builtin_error(name: str) -> bool:
    found = getattr(__builtins__, name, None) or (
        __builtins__.get(name) if isinstance(__builtins__, dict) else None
    )
    return isinstance(found, type) and issubclass(found, BaseException)


def _imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_every_plugin_has_a_test_file_of_its_name() -> None:
    named = {path.stem for path in (ROOT / "tests" / "plugins").rglob("test_*.py")}
    missing = [
        name
        for name in in_tree_registry()
        if "test" + re.sub(r"([A-Z])", r"_\1", name).lower() not in named
    ]
    assert not missing, f"write tests/plugins/test_<name>.py, with a table of cases, for {missing}"


def test_contributing_names_all_folders_of_tests_and_no_others() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    folders = {name for name in folders if name.isidentifier() and not name.startswith("__")}
    assert named == folders, "bring the table of test folders in CONTRIBUTING.md up to date"


def test_contributing_names_only_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"(?<![\w/.])(?:src|tests|docs|deploy|app|plugins)/[\w./-]*\w", text)
    gone = [p for p in paths if not (ROOT / p).exists() and not (MOORAGE / p).exists()]
    gone = [p for p in gone if p != "tests/plugins/test_"]
    assert not gone, f"CONTRIBUTING.md names files that do not exist: {gone}"
