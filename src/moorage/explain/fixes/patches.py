"""JSON patches (RFC 6902): the few operations that fixes are made of, and applying them.

What is proposed and what is tried out are the same operations, so that neither can differ from the
other. Documents are never changed in place: only what lies on an operation's path is copied.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from moorage.model.meta import ApiObject, Json

Operation = dict[str, object]
Operations = tuple[Operation, ...]

Kind = TypeVar("Kind", bound=ApiObject)

END = "-"
"""In a path: after the last element of a list."""


def pointer(*steps: str | int) -> str:
    """A path (RFC 6901) from its steps."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def add(value: object, *steps: str | int) -> Operation:
    """Put a member into a mapping, in the place of one that may be there, or one into a list."""
    return {"op": "add", "path": pointer(*steps), "value": value}


def replace(value: object, *steps: str | int) -> Operation:
    """Put another element in the place of one of a list."""
    return {"op": "replace", "path": pointer(*steps), "value": value}


def remove(*steps: str | int) -> Operation:
    """Take a member or an element away."""
    return {"op": "remove", "path": pointer(*steps)}


def append(value: object, present: Iterable[object], *steps: str | int) -> Operation:
    """Add to a list of which `present` is in it now: one that is empty may not be there at all."""
    return add(value, *steps, END) if any(True for _ in present) else add([value], *steps)


def shifts(first: Operations, second: Operations) -> bool:
    """Does the first patch move elements of a list that the second one names by their places?"""
    lists = {
        place + "/"
        for one in first
        if one["op"] == "remove"
        for place, _, step in (str(one["path"]).rpartition("/"),)
        if step.isdigit()
    }
    return any(str(one["path"]).startswith(place) for one in second for place in lists)


def patched(obj: Kind, operations: Operations) -> Kind:
    """The object with the operations applied; raises `ValueError` if one does not fit."""
    document: Json = msgspec.to_builtins(obj)
    for operation in operations:
        document = apply(document, operation)
    return msgspec.convert(document, type(obj))


def apply(document: Any, operation: Operation) -> Any:
    """A document with one operation applied."""
    steps = _steps(str(operation["path"]))
    if not steps:
        raise ValueError("a patch must not replace the whole object")
    return _applied(document, steps, operation)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...]:
    if path and not path.startswith("/"):
        raise ValueError(f"{path} is not a JSON pointer: expected it to begin with /")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])


def _applied(document: Any, steps: tuple[str, ...], operation: Operation) -> Any:
    step, rest = steps[0], steps[1:]
    if isinstance(document, list | tuple):
        elements = list(document)
        index = len(elements) if step == END else int(step)
        if rest:
            elements[index] = _applied(elements[index], rest, operation)
        elif operation["op"] == "add":
            elements.insert(index, operation["value"])
        elif operation["op"] == "replace":
            elements[index] = operation["value"]
        else:
            del elements[index]
        return elements
    if not isinstance(document, dict):
        raise ValueError(f"there is nothing at {operation['path']}")
    members = dict(document)
    if rest:
        members[step] = _applied(members.get(step), rest, operation)
    elif operation["op"] == "add":
        members[step] = operation["value"]
    elif step not in members:
        raise ValueError(f"there is nothing at {operation['path']}")
    elif operation["op"] == "replace":
        members[step] = operation["value"]
    else:
        del members[step]
    return members
