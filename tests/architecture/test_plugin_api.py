"""What authors of plugins build on: changing it must be a decision, not an accident.

If a change is meant, write the new snapshot with `UPDATE_PLUGIN_API=1` set and say so in the
changelog.
"""

import inspect
import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

from moorage.cluster import coded, stamps, view
from moorage.framework import api_access, cluster_events, plugin, status, waiting_pods

SNAPSHOT = Path(__file__).with_name("plugin_api.txt")
MODULES = (plugin, api_access, waiting_pods, status, cluster_events, view, coded, stamps)


def public_api() -> str:
    return "\n".join(line for module in MODULES for line in described(module)) + "\n"


def described(module: ModuleType) -> Iterator[str]:
    yield f"[{module.__name__}]"
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            yield from class_lines(name, value)
        elif inspect.isfunction(value):
            yield f"def {name}{parameters(value)}"


def class_lines(name: str, cls: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    yield f"class {name}({bases})"
    if issubclass(cls, Enum):
        yield f"    {', '.join(str(member.name) for member in cls)}"
        return
    for member, value in sorted(vars(cls).items()):
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"    {member}: property"
        elif inspect.isfunction(value):
            abstract = "abstract " if getattr(value, "__isabstractmethod__", False) else ""
            yield f"    {abstract}def {member}{parameters(value)}"
        elif not isinstance(value, classmethod | staticmethod):
            yield f"    {member}"


def parameters(function: object) -> str:
    """Names and kinds of parameters; how their types are written may change freely."""
    assert callable(function)
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        star = "*" if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL) else ""
        default = "" if parameter.default is parameter.empty else "=..."
        shown.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(shown)})"


def test_the_plugin_api_is_the_one_that_was_agreed_on() -> None:
    api = public_api()
    if os.environ.get("UPDATE_PLUGIN_API"):
        SNAPSHOT.write_text(api)
    hint = "the plugin API changed; if that is meant, run this test with UPDATE_PLUGIN_API=1"
    assert api.splitlines() == SNAPSHOT.read_text().splitlines(), hint


def test_every_part_of_the_plugin_api_is_documented() -> None:
    silent = [
        f"{module.__name__}.{name}"
        for module in MODULES
        for name, value in vars(module).items()
        if not name.startswith("_")
        and inspect.isclass(value)
        and value.__module__ == module.__name__
        and not inspect.getdoc(value)
    ]
    assert silent == []
