"""The paths of printer columns, such as `.status.conditions[?(@.type=="Ready")].status`.

Of JSONPath there are members, positions, `[*]` and comparisons of one member with a text.
Upstream: client-go util/jsonpath.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

_STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
    |\['(?P<quoted>[^']*)'\]
    |\[(?P<index>-?\d+|\*)\]
    |\[\?\(@\.(?P<key>[^=!\s]+)\s*(?P<sign>[=!]=)\s*["'](?P<text>[^"']*)["']\s*\)\]""",
    re.VERBOSE,
)


class Step(NamedTuple):
    """One step: a member, a position (None: all), or the elements that have a member's value."""

    name: str | None = None
    place: int | None = None
    key: str = ""
    text: str = ""
    negated: bool = False


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...] | None:
    """The steps of a path, None if it is none."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            return None
        position = found.end()
        name, quoted, index, key, sign, text = found.groups()
        if key is not None:
            steps.append(Step(key=key, text=text, negated=sign == "!="))
        elif index is not None:
            steps.append(Step(place=None if index == "*" else int(index)))
        else:
            steps.append(Step(name=quoted if name is None else re.sub(r"\\(.)", r"\1", name)))
    return tuple(steps) or None


def values_at(obj: Any, path: str) -> list[Any]:
    """All values at a path; none where a part of it is missing."""
    values = [obj]
    for step in parse(path) or ():
        values = [found for value in values for found in _step(value, step)]
    return values


def _step(value: Any, step: Step) -> Iterator[Any]:
    if step.name is not None:
        if isinstance(value, dict) and value.get(step.name) is not None:
            yield value[step.name]
        return
    items = value if isinstance(value, list) else []
    if step.key:
        for item in items:
            told = "".join(map(str, values_at(item, f".{step.key}")))
            if (told == step.text) is not step.negated:
                yield item
    elif step.place is None:
        yield from items if isinstance(value, list) else ()
    elif -len(items) <= step.place < len(items):
        yield items[step.place]
