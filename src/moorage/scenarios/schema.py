"""The JSON schema of scenarios, with what the docstrings of the fields say of them."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.scenarios import scenario


def scenario_schema() -> dict[str, Any]:
    """The schema of a scenario."""
    schema = msgspec.json.schema(scenario.Scenario)
    for form, field, text in _texts():
        form_schema = schema["$defs"].get(form)
        if form_schema is not None:
            form_schema["properties"][field]["description"] = text
    return schema


def _texts() -> Iterator[tuple[str, str, str]]:
    """Forms, fields by their names in YAML, and what is said of them."""
    for node in ast.parse(inspect.getsource(scenario)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, text in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                yield node.name, _in_yaml(field.target.id), inspect.cleandoc(text.value.value)


def _in_yaml(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
