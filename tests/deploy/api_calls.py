"""Finds the API calls in Moorage's source: which verbs it uses on which resources.

Reads the syntax tree, so that a call counts whether or not a test makes it. What a call is about is
told by its first argument: a kind (`resource_for("Pod")`, `RESOURCES["Pod"]`, `Resource(...)`) or a
name that such a value was given to. A call about something else must be declared in the test.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from moorage.kube.resources import Resource, resource_for

# Methods of KubeClient and functions that ask for what they are given.
_VERBS = {
    "create": "create",
    "delete": "delete",
    "get": "get",
    "list_": "list",
    "list_all": "list",
    "follow_object": "watch",
    "patch": "patch",
    "update": "update",
    "watch": "watch",
}
# Requests whose name says everything.
_WHOLE = {
    "bind": ("Pod", "binding", "create"),
    "patch_pod_status": ("Pod", "status", "patch"),
    "subject_access_review": ("SubjectAccessReview", "", "create"),
    "token_review": ("TokenReview", "", "create"),
}
# They make the requests that all others ask for.
_GENERIC = {"client.py", "requests.py"}


class Call(NamedTuple):
    """One place in the source; `resource` is None where it cannot be told."""

    place: str
    resource: Resource | None
    subresource: str
    verb: str


def api_calls(*folders: Path) -> Iterator[Call]:
    """All calls in these packages."""
    modules = [m for folder in folders for m in folder.rglob("*.py") if m.name not in _GENERIC]
    trees = {module: ast.parse(module.read_text()) for module in sorted(modules)}
    known = {
        name: resource for tree in trees.values() for name, resource in _assignments(tree).items()
    }
    for module, tree in trees.items():
        place = f"{module.parent.name}/{module.name}"
        yield from _Finder(place, known).calls(tree)


class _Finder:
    def __init__(self, place: str, known: dict[str, Resource]) -> None:
        self._place = place
        self._known = known

    def calls(self, tree: ast.AST, function: str = "") -> Iterator[Call]:
        for node in ast.iter_child_nodes(tree):
            inside = function
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = node.name
            elif isinstance(node, ast.Call):
                call = self._read(node, function)
                if call is not None:
                    yield call
            yield from self.calls(node, inside)

    def _read(self, node: ast.Call, function: str) -> Call | None:
        name = _last_name(node.func)
        place = f"{self._place}:{function}"
        if name in _WHOLE and (isinstance(node.func, ast.Name) or _about_a_client(node.func)):
            kind, subresource, verb = _WHOLE[name]
            return Call(place, resource_for(kind), subresource, verb)
        if name not in _VERBS:
            return None
        # A method takes the resource first, a function that calls the API its client before that.
        candidates = node.args[:2] if name == "follow_object" else node.args[:1]
        for argument in candidates:
            resource = self._resolved(argument)
            if resource is not None:
                return Call(place, resource, _subresource(node), _VERBS[name])
        if _about_a_client(node.func) or name == "follow_object":
            return Call(place, None, _subresource(node), _VERBS[name])
        return None

    def _resolved(self, node: ast.expr) -> Resource | None:
        literal = _literal(node)
        if literal is not None:
            return literal
        name = _last_name(node)
        return self._known.get(name)


def _assignments(tree: ast.AST) -> dict[str, Resource]:
    found: dict[str, Resource] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            literal = _literal(node.value)
            if literal is not None:
                found |= {_last_name(target): literal for target in node.targets}
    return found


def _literal(node: ast.expr) -> Resource | None:
    if isinstance(node, ast.Subscript) and _last_name(node.value) == "RESOURCES":
        return _by_kind(node.slice)
    if isinstance(node, ast.Call):
        match _last_name(node.func):
            case "resource_for" if node.args:
                return _by_kind(node.args[0])
            case "Resource":
                values = [a.value for a in node.args if isinstance(a, ast.Constant)]
                if len(values) == len(node.args):
                    return Resource(*values)  # type: ignore[arg-type]
    return None


def _by_kind(node: ast.expr) -> Resource | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return resource_for(node.value)
    return None


def _subresource(node: ast.Call) -> str:
    for keyword in node.keywords:
        if keyword.arg == "subresource" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return ""


def _about_a_client(function: ast.expr) -> bool:
    """`self._client.get` and `requests.get`, not a dictionary's `get`."""
    if not isinstance(function, ast.Attribute):
        return False
    owner = _last_name(function.value)
    return owner == "requests" or owner.endswith(("client", "api"))


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
