"""What is wrong with constants in an expression whose types are right.

A time, a regular expression or a format that is written out is looked at when the expression is
compiled, in cel-go's words; one that is computed fails when it is evaluated.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from moorage.cel.errors import EvaluationError, Issue, succeeds
from moorage.cel.strings import compiled_regex
from moorage.cel.syntax import Call, Literal, MakeList, MakeMap, Node, children
from moorage.cel.text_format import CLAUSES, clauses
from moorage.cel.times import parse_duration, parse_timestamp, timestamp_of
from moorage.cel.types import Type


def _duration(value: object) -> object:
    if not isinstance(value, str):
        raise EvaluationError("not a text")
    return parse_duration(value)


def _timestamp(value: object) -> object:
    if isinstance(value, int):
        return timestamp_of(value)
    return parse_timestamp(str(value))


_TESTS: dict[str, Callable[[Any], bool]] = {
    "duration": succeeds(_duration),
    "timestamp": succeeds(_timestamp),
    "matches": succeeds(compiled_regex),
}

Types = dict[int, Type]


def literal_issues(tree: Node, types: Types) -> list[Issue]:
    """All complaints; `types` are those of the nodes, by identity."""
    return list(_issues(tree, types, may_mix=False))


def _issues(node: Node, types: Types, *, may_mix: bool) -> Iterator[Issue]:
    match node:
        case Call(arguments=(Literal() as first, *_)) if node.function in _TESTS:
            if not _TESTS[node.function](first.value):
                yield Issue(first.position, f"invalid {node.function} argument")
        case Call(function="format", arguments=(MakeList() as values,)):
            yield from _format_issues(node, values, types)
            may_mix = True
        case MakeList() if not may_mix:
            found = [_type_of(item, types, i in node.optional) for i, item in enumerate(node.items)]
            yield from islice(_mixed(node.items, found), 1)
        case MakeMap() if not may_mix:
            keys, values_ = zip(*node.entries, strict=True) if node.entries else ((), ())
            yield from _mixed(keys, [types[id(key)] for key in keys])
            yield from _mixed(
                values_,
                [_type_of(value, types, i in node.optional) for i, value in enumerate(values_)],
            )
    for child in children(node):
        yield from _issues(child, types, may_mix=may_mix)


def _type_of(node: Node, types: Types, optional: bool) -> Type:
    found = types[id(node)]
    return found.parameters[0] if optional and found.parameters else found


def _mixed(nodes: Sequence[Node], found: Sequence[Type]) -> Iterator[Issue]:
    """Kubernetes wants the parts of a literal to be of one type, unless they are formatted."""
    for node, other in zip(nodes[1:], found[1:], strict=True):
        if other != found[0]:
            yield Issue(node.position, f"expected type '{found[0]}' but found '{other}'")


def _format_issues(node: Call, values: MakeList, types: Types) -> Iterator[Issue]:
    target = node.target
    if not isinstance(target, Literal) or not isinstance(target.value, str):
        return
    wanted = 0
    try:
        for letter in clauses(target.value):
            if wanted >= len(values.items):
                raise EvaluationError(f"index {wanted} out of range")
            issue = _misfit(letter, values.items[wanted], types)
            if issue is not None:
                yield issue
                return
            wanted += 1
    except EvaluationError as error:
        yield Issue(node.position, str(error))
        return
    if wanted < len(values.items):
        yield Issue(
            node.position,
            "too many arguments supplied to string.format "
            f"(expected {wanted}, got {len(values.items)})",
        )


def _misfit(letter: str, value: Node, types: Types) -> Issue | None:
    rule, fitting = CLAUSES[letter.lower()]
    kind = types[id(value)]
    if kind.name not in ("dyn", *fitting):
        given = "google.protobuf.Any" if kind.name == "any" else kind.name
        text = f"error during formatting: {rule}, was given {given}"
        return Issue(value.position, text)
    if letter == "s" and isinstance(value, MakeList | MakeMap):
        for part in children(value):
            issue = _misfit(letter, part, types)
            if issue is not None:
                return issue
    return None
