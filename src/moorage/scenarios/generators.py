"""Pods and workloads that come at random: when, how large, for how long.

The dice are handed in, so a seed gives the same pods whatever scheduler is tried.
"""

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from moorage.model.duration import parse_duration
from moorage.model.quantity import parse_milli
from moorage.scenarios.pods import made_objects
from moorage.scenarios.scenario import Drawn, Generator, PodSize, Rate
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.traces.layouts import trace_pods

_HOUR = 3600.0


class Generated(NamedTuple):
    """Objects that come together, and when they go again, in seconds since the beginning."""

    at: float
    objects: tuple[dict[str, Any], ...]
    gone: float | None = None


def generated(file: ScenarioFile, given: Generator, dice: Random) -> Iterator[Generated]:
    """All that a generator makes."""
    make = _maker(file, given)
    for number, at in enumerate(_times(given, dice)):
        objects = make(f"{given.name}-{number}", dice)
        gone = None if given.stay is None else at + draw_seconds(given.stay, dice)
        yield Generated(at, objects, gone)


def draw_seconds(times: Drawn, dice: Random) -> float:
    """A duration."""
    return _draw(times, _seconds, dice)


def draw_amount(amount: str | Drawn, dice: Random) -> str:
    """An amount of a resource, rounded up to thousandths."""
    if isinstance(amount, str):
        return amount
    milli = math.ceil(_draw(amount, parse_milli, dice))
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def _draw(given: Drawn, read: Callable[[str], float], dice: Random) -> float:
    if given.exponential:
        return dice.expovariate(1 / max(read(given.exponential), 1e-9))
    if given.uniform is not None:
        return dice.uniform(*map(read, given.uniform))
    if given.lognormal is not None:
        median, sigma = given.lognormal
        return read(median) * dice.lognormvariate(0, sigma)
    return read(given.constant)


def _times(given: Generator, dice: Random) -> Iterator[float]:
    """A Poisson process at the highest rate, thinned to the rate of the hour."""
    rate = given.rate
    within, until, at = _seconds(rate.within), _seconds(given.until), _seconds(given.start)
    most = 1 + rate.swing
    while True:
        at += dice.expovariate(rate.per_hour * most / _HOUR)
        if at > until:
            return
        if rate.swing and dice.random() * most > _share(rate, at):
            continue
        for _ in range(rate.burst):
            yield at + dice.uniform(0, within) if within else at


def _share(rate: Rate, at: float) -> float:
    """The rate at a time, in shares of the average."""
    turn = (at - _seconds(rate.peak)) / _seconds(rate.period)
    return 1 + rate.swing * math.cos(2 * math.pi * turn)


_Maker = Callable[[str, Random], tuple[dict[str, Any], ...]]


def _maker(file: ScenarioFile, given: Generator) -> _Maker:
    """What comes under a name."""
    if given.like is not None:
        known = trace_pods(file, given.like)

        def again(name: str, dice: Random) -> tuple[dict[str, Any], ...]:
            pod = dice.choice(known)
            return ({**pod, "metadata": {**pod["metadata"], "name": name}},)

        return again
    weights = [size.weight for size in given.sizes]

    def new(name: str, dice: Random) -> tuple[dict[str, Any], ...]:
        (size,) = dice.choices(given.sizes, weights)
        requests = _requests(size, dice)
        lasts = None if given.run_time is None else draw_seconds(given.run_time, dice)
        return made_objects(given, name, requests, lasts)

    return new


def _requests(size: PodSize, dice: Random) -> dict[str, str]:
    return {name: draw_amount(amount, dice) for name, amount in size.requests.items()}


def _seconds(text: str) -> float:
    return parse_duration(text).seconds
