"""The product's modules as syntax trees, parsed once for all rules."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOORAGE = ROOT / "src" / "moorage"
SOURCES = sorted(MOORAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def shown(path: Path) -> str:
    """The path as a reader of the repository writes it."""
    return str(path.relative_to(ROOT))


def modules_of(*packages: str) -> list[Path]:
    """All modules of some packages of Moorage, `plugins` or `engine.queue`."""
    return sorted(
        path for name in packages for path in MOORAGE.joinpath(*name.split(".")).rglob("*.py")
    )


@cache
def tree(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path.read_text(), str(path))


def imports_of(path: Path) -> set[str]:
    """The modules that a module imports, as it names them."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def dotted(node: ast.expr) -> str:
    """`a.b.c` for an expression of names and attributes, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""
