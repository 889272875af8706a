"""Which settings are best: those that no other beats in everything, and one of them by a rule."""

import math
from collections.abc import Mapping, Sequence

from moorage.controllers.objects import Json
from moorage.scenarios.sweeps.form import Objective

NAMED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "utilisation": (("utilisation.cpu.mean",), "max"),
    "waiting": (("waitingSeconds.p90",), "min"),
    "spread": (("imbalance.cpu",), "min"),
    "disruption": (("pods.preempted", "pods.evicted"), "min"),
    "cost": (("cost",), "min"),
}
"""Measures with a name of their own: what they are the sum of, and what is wanted."""

Losses = Sequence[float]
"""What was measured for each objective, such that less is better."""


def goal(objective: Objective) -> str:
    """`min` or `max`; empty if it must be said and is not."""
    return objective.goal or NAMED.get(objective.measure, ((), ""))[1]


def measured(objectives: Sequence[Objective], summary: Json) -> dict[str, float | None]:
    """What a summary says of each objective; None if it does not."""
    found: dict[str, float | None] = {}
    for objective in objectives:
        paths = NAMED.get(objective.measure, ((objective.measure,), ""))[0]
        is_there = all(path in summary for path in paths)
        found[objective.measure] = (
            math.fsum(summary[path]["mean"] for path in paths) if is_there else None
        )
    return found


def losses(objectives: Sequence[Objective], values: Mapping[str, float | None]) -> Losses | None:
    """Less is better; None if something could not be measured."""
    found = []
    for objective in objectives:
        value = values[objective.measure]
        if value is None:
            return None
        found.append(-value if goal(objective) == "max" else value)
    return found


def pareto_front(candidates: Mapping[int, Losses]) -> set[int]:
    """Those that no other equals in all objectives and beats in one."""
    front: dict[tuple[float, ...], set[int]] = {}
    # In this order, who is beaten is beaten by somebody before.
    for one, number in sorted((tuple(each), number) for number, each in candidates.items()):
        if one in front or not any(_beats(other, one) for other in front):
            front.setdefault(one, set()).add(number)
    return set().union(*front.values())


def _beats(one: Losses, other: Losses) -> bool:
    """Is it nowhere worse, if they are not the same?"""
    return all(a <= b for a, b in zip(one, other, strict=True))


def best(objectives: Sequence[Objective], candidates: Mapping[int, Losses], rule: str) -> int:
    """The best by the rule; of equals the first."""
    if rule == "lexicographic":
        return min(candidates, key=lambda number: (*candidates[number], number))
    columns = list(zip(*candidates.values(), strict=True))
    ranges = [(min(column), (max(column) - min(column)) or 1.0) for column in columns]

    def total(number: int) -> float:
        return math.fsum(
            objective.weight * (loss - least) / width
            for objective, loss, (least, width) in zip(
                objectives, candidates[number], ranges, strict=True
            )
        )

    return min(candidates, key=lambda number: (total(number), number))
