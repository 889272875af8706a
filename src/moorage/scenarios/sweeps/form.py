"""Sweeps: which settings of a scenario are tried, and what makes one better than another.

Owns the document's form, which is also its JSON schema.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from moorage.scenarios.scenario import Repetitions


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a sweep; there are no other fields."""


class NumberRange(_Part, frozen=True):
    """Numbers between two: one of these."""

    integers: tuple[int, int] | None = None
    """Both included; in a grid every one of them."""
    uniform: tuple[float, float] | None = None
    log_uniform: tuple[float, float] | None = None
    """The logarithm is uniform: as many between 1 and 10 as between 10 and 100."""


ParameterValues: TypeAlias = list[Any] | NumberRange


class RandomSearch(_Part, frozen=True):
    """So many settings at random, no two of them equal, instead of the whole grid."""

    candidates: int
    seed: int = 0


class Objective(_Part, frozen=True):
    """What is to be small or large."""

    measure: str
    """utilisation, waiting, spread, disruption, cost, or a number of the results by its path."""
    goal: Literal["", "min", "max"] = ""
    """Left out: that of the five measures with a name of their own."""
    weight: float = 1.0


class SweepBudget(_Part, frozen=True):
    """When no more runs are begun."""

    runs: int | None = None
    """The first so many in order."""
    time: str = ""
    """Of the clock, such as 30m."""


class Sweep(_Part, frozen=True):
    """All of it."""

    api_version: Literal["simulate.moorage.io/v1alpha1"]
    kind: Literal["Sweep"]
    scenario: str
    """A file, relative to the sweep's."""
    parameters: dict[str, ParameterValues]
    """By path into the scheduler's configuration or the scenario."""
    objectives: tuple[Objective, ...]
    scheduler: str = ""
    """Which scheduler of the scenario is tuned; left out: the first."""
    random: RandomSearch | None = None
    choose: Literal["weighted", "lexicographic"] = "weighted"
    repetitions: Repetitions | None = None
    """Left out: those of the scenario."""
    budget: SweepBudget = SweepBudget()


def sweep_schema() -> dict[str, Any]:
    """The JSON schema of sweeps."""
    return msgspec.json.schema(Sweep)
