"""Fields by their path, such as `profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy`.

In brackets stands the place of an element in a list, or its name; on a map, a key with dots in it.
"""

import re
from itertools import pairwise
from typing import Any, NamedTuple

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[([^\[\]]+)\]")


class _Step(NamedTuple):
    """One field or element further down."""

    text: str
    in_brackets: bool


def first_field(path: str) -> str:
    """The outermost field; a `ValueError` says what is wrong with the path."""
    return _steps(path)[0].text


def put(document: dict[str, Any], path: str, value: Any) -> None:
    """Set a field; what is not there on the way is made. A `ValueError` says why not."""
    steps = _steps(path)
    holder: Any = document
    above = ""
    for step, following in pairwise(steps):
        holder = _inside(holder, step, following, above)
        above = step.text
    last = steps[-1]
    if isinstance(holder, list):
        place = _place(holder, last, above)
        named = isinstance(value, dict) and not last.text.isdecimal()
        holder[place] = {_name_field(above): last.text, **value} if named else value
    elif isinstance(holder, dict):
        holder[last.text] = value
    else:
        raise ValueError(f"there is nothing in {above}, which is {holder!r}")


def _steps(path: str) -> list[_Step]:
    steps, end = [], 0
    while found := _STEP.match(path, end):
        steps.append(_Step(found[1] or found[2], in_brackets=found[2] is not None))
        end = found.end()
    if not steps or end < len(path) or steps[0].in_brackets:
        raise ValueError("expected a path such as profiles[0].pluginConfig[NodeResourcesFit].args")
    return steps


def _inside(holder: Any, step: _Step, following: _Step, above: str) -> Any:
    if isinstance(holder, list):
        return holder[_place(holder, step, above)]
    if not isinstance(holder, dict):
        raise ValueError(f"there is nothing in {above}, which is {holder!r}")
    if holder.get(step.text) is None:
        holder[step.text] = [] if following.in_brackets else {}
    return holder[step.text]


def _place(holder: list[Any], step: _Step, above: str) -> int:
    """Where an element is; one more is made if it is the next, or not there by this name."""
    if not step.in_brackets:
        raise ValueError(f"{above} is a list: expected {above}[{step.text}] or {above}[0]")
    if step.text.isdecimal():
        place = int(step.text)
        if place > len(holder):
            raise ValueError(f"{above} has {len(holder)} elements: there is no {above}[{place}]")
        if place == len(holder):
            holder.append({})
        return place
    field = _name_field(above)
    for place, element in enumerate(holder):
        if isinstance(element, dict) and element.get(field) == step.text:
            return place
    holder.append({field: step.text})
    return len(holder) - 1


def _name_field(above: str) -> str:
    return "schedulerName" if above == "profiles" else "name"
