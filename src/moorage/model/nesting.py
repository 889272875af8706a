"""How deeply plain values may be nested, so that recursive code can walk them.

The one limit for everything a person or a client hands over: files, request bodies, results of
patches. Must not walk recursively itself.
"""

from typing import Any

DEEPEST = 200
"""Levels of nesting with all YAML aliases written out; real objects have about twenty."""


def is_too_deep(value: Any) -> bool:
    """Has a JSON value more levels of maps and lists than `DEEPEST`?"""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True
