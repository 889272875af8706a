"""How well pods fared in a simulation, and how well the cluster was used."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.controllers.objects import Json, meta, phase, spec
from moorage.scenarios.simulation import Simulation

_RESOURCES = ("cpu", "memory")
_MOST_SAMPLES = 100


class PodLife(msgspec.Struct):
    """When something became of a pod, in seconds since the beginning."""

    created: float
    bound: float | None = None
    finished: float | None = None
    gone: float | None = None


class Measures:
    """Follows a simulation."""

    def __init__(self, run: Simulation) -> None:
        self._run = run
        self._lives: dict[str, PodLife] = {}
        self._areas = dict.fromkeys((*_RESOURCES, "balance"), 0.0)
        self._peaks = dict.fromkeys(_RESOURCES, 0.0)
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._since = 0.0
        self._now: dict[str, float] = dict.fromkeys(self._areas, 0.0)
        run.api.followers.append(self._changed)
        run.on_moment = self.moment

    def _changed(self, before: Json | None, after: Json | None) -> None:
        obj = after or before or {}
        if obj["kind"] != "Pod":
            return
        now = self._run.elapsed
        life = self._lives.setdefault(meta(obj)["uid"], PodLife(now))
        if after is None:
            life.gone = now
        elif life.bound is None and spec(after).get("nodeName"):
            life.bound = now
        elif life.finished is None and phase(after) in ("Succeeded", "Failed"):
            life.finished = now

    def moment(self) -> None:
        """Note how the cluster is used from now on."""
        now = self._run.elapsed
        for name, value in self._now.items():
            self._areas[name] += value * (now - self._since)
        self._since = now
        self._now = self._used()
        for name in _RESOURCES:
            self._peaks[name] = max(self._peaks[name], self._now[name])
        if self._samples and self._samples[-1][0] == now:
            self._samples.pop()
        self._samples.append((now, self._now))

    def _used(self) -> dict[str, float]:
        """Shares of what there is, and how far nodes differ in their share of CPU."""
        nodes = self._run.engine.state.nodes
        found = {}
        for name in _RESOURCES:
            total = nodes.allocatable.values(name)
            used = nodes.requested.values(name)
            found[name] = float(used.sum()) / max(float(total.sum()), 1.0)
            if name == "cpu":
                shares = used / np.maximum(total, 1)
                found["balance"] = float(shares.std()) if len(shares) else 0.0
        return found

    def result(self, ended: str) -> dict[str, Any]:
        """All measures of the run."""
        lives, span = list(self._lives.values()), self._run.elapsed
        bound = [life.bound - life.created for life in lives if life.bound is not None]
        done = [life.finished - life.created for life in lives if life.finished is not None]
        ends = [life.finished for life in lives if life.finished is not None]
        means = {name: area / span if span else 0.0 for name, area in self._areas.items()}
        return {
            "ended": ended,
            "seconds": _short(span),
            "pods": {
                "created": len(lives),
                "placed": len(bound),
                "pending": sum(life.bound is None and life.gone is None for life in lives),
                "finished": len(done),
                "preempted": len(self._run.preempted),
                "removed": sum(life.gone is not None and life.finished is None for life in lives),
            },
            "waitingSeconds": percentiles(bound),
            "completionSeconds": percentiles(done),
            "makespanSeconds": _short(max(ends, default=0.0)),
            "allocation": {
                name: {"mean": _short(means[name]), "peak": _short(self._peaks[name])}
                for name in _RESOURCES
            },
            "imbalance": _short(means["balance"]),
            "samples": [
                {"seconds": _short(at), **{name: _short(value) for name, value in used.items()}}
                for at, used in _thinned(self._samples)
            ],
        }


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """The mean, and what half, nine and 99 of a hundred stay within (the nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("mean", "p50", "p90", "p99"))
    found = {"mean": _short(math.fsum(ordered) / len(ordered))}
    for percent in (50, 90, 99):
        rank = -(-len(ordered) * percent // 100)
        found[f"p{percent}"] = _short(ordered[max(rank, 1) - 1])
    return dict(found)


def _thinned(
    samples: Sequence[tuple[float, dict[str, float]]],
) -> Sequence[tuple[float, dict[str, float]]]:
    every = -(-len(samples) // _MOST_SAMPLES) if samples else 1
    return [sample for i, sample in enumerate(samples) if i % every == 0]


def _short(value: float) -> float:
    """To the microsecond: what is further behind is noise."""
    return round(value, 6)
