"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386), on plain JSON."""

import copy
from typing import Any

from moorage.apiserver.statuses import ApiStatusError, Json, bad_request


def json_patch(document: Json, operations: Any) -> Json:
    """The document after all operations; raises a 422 where one does not apply."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    result: Any = document
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("an operation of a JSON patch is an object")
        result = _apply(result, operation)
    if not isinstance(result, dict):
        raise bad_request("the patch leaves no object")
    return result


def merge_patch(document: Any, patch: Any) -> Any:
    """The document with the patch's members put in its place; null removes."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def _fails(text: str) -> ApiStatusError:
    message = f"the server rejected our request due to an error in our request: {text}"
    return ApiStatusError(422, "Invalid", message)


def _apply(document: Any, operation: Json) -> Any:
    kind, path = operation.get("op"), _steps(operation.get("path"))
    match kind:
        case "add":
            return _add(document, path, copy.deepcopy(operation.get("value")))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            _at(document, path)  # it must be there
            if not path:
                return copy.deepcopy(operation.get("value"))
            parent = _at(document, path[:-1])
            parent[_member(parent, path[-1])] = copy.deepcopy(operation.get("value"))
            return document
        case "move":
            document, value = _remove(document, _steps(operation.get("from")))
            return _add(document, path, value)
        case "copy":
            value = copy.deepcopy(_at(document, _steps(operation.get("from"))))
            return _add(document, path, value)
        case "test":
            if _at(document, path) != operation.get("value"):
                raise _fails(f"testing path {operation['path']} failed")
            return document
        case _:
            raise bad_request(f"a JSON patch has no operation {kind!r}")


def _steps(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise bad_request(f"{pointer!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _member(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        if step in container:
            return step
    elif isinstance(container, list) and step.isdigit() and int(step) < len(container):
        return int(step)
    raise _fails(f'the path "{step}" is missing')


def _at(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[_member(document, step)]
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _at(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and last.isdigit() and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise _fails(f'nothing can be added at "{last}"')
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        raise _fails("the whole object cannot be removed")
    parent = _at(document, path[:-1])
    return document, parent.pop(_member(parent, path[-1]))
