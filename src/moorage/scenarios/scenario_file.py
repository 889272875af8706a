"""Scenarios as files: what their form cannot express is checked."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moorage.model.quantity import parse_milli
from moorage.scenarios.scenario import Arrival, Scenario, Times
from moorage.scenarios.yaml_file import YamlFile


class ScenarioFile(YamlFile[Scenario]):
    """A scenario, and where each of its fields stands."""

    def __init__(self, path: Path, plain: Any = None) -> None:
        """Read it, or take its plain values; `InputError` says what is wrong, and where."""
        super().__init__(path, Scenario, plain)
        self.scenario = self.document
        self._check()

    def _check(self) -> None:
        """What types cannot express."""
        scenario = self.scenario
        for i, arrival in enumerate(scenario.arrivals):
            self._check_arrival(arrival, f"arrivals[{i}]")
        for i, event in enumerate(scenario.events):
            self.seconds(event.at, f"events[{i}].at")
            if (event.what in ("taint", "untaint")) != bool(_taint_parts(event.taint)):
                self.refuse(f"events[{i}].taint", "expected key=value:Effect where what is a taint")
        names = [one.name for one in scenario.schedulers]
        if not names or len(set(names)) < len(names):
            self.refuse("schedulers", "expected at least one, and each name once")
        if scenario.repetitions.count < 1:
            self.refuse("repetitions.count", "expected at least 1")
        self.seconds(scenario.stop.after, "stop.after")
        self.seconds(scenario.kubelets.start, "kubelets.start")
        self.seconds(scenario.kubelets.grace, "kubelets.grace")

    def _check_arrival(self, arrival: Arrival, field: str) -> None:
        self.seconds(arrival.at, f"{field}.at")
        given = (bool(arrival.manifests), arrival.poisson is not None, arrival.trace is not None)
        if sum(given) != 1:
            self.refuse(field, "expected one of manifests, poisson and trace")
        if arrival.poisson is None:
            return
        poisson, field = arrival.poisson, f"{field}.poisson"
        if poisson.per_hour <= 0:
            self.refuse(f"{field}.perHour", "expected a number above 0")
        self.seconds(poisson.start, f"{field}.start")
        self.seconds(poisson.until, f"{field}.until")
        if not poisson.sizes:
            self.refuse(f"{field}.sizes", "expected at least one")
        for i, size in enumerate(poisson.sizes):
            if size.weight <= 0:
                self.refuse(f"{field}.sizes[{i}].weight", "expected a number above 0")
            self.check_requests(size.requests, f"{field}.sizes[{i}].requests")
        if poisson.run_time is not None:
            self._check_times(poisson.run_time, f"{field}.runTime")

    def check_requests(self, requests: dict[str, str], field: str) -> None:
        """Are these amounts of resources?"""
        for name, text in requests.items():
            try:
                amount = parse_milli(text)
            except ValueError:
                amount = -1
            if amount < 0:
                self.refuse(f"{field}.{name}", f"expected a quantity such as 500m, got {text!r}")

    def _check_times(self, times: Times, field: str) -> None:
        given = {
            "constant": (times.constant,) if times.constant else (),
            "exponential": (times.exponential,) if times.exponential else (),
            "uniform": times.uniform or (),
            "lognormal": times.lognormal[:1] if times.lognormal else (),
        }
        if sum(map(bool, given.values())) != 1:
            self.refuse(field, f"expected one of {', '.join(given)}")
        for name, texts in given.items():
            for text in texts:
                self.seconds(text, f"{field}.{name}")


def parse_taint(text: str) -> dict[str, str]:
    """A taint as kubectl writes it."""
    key, value, effect = _taint_parts(text)
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _taint_parts(text: str) -> Sequence[str]:
    found = re.fullmatch(r"([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)", text)
    return () if found is None else (found[1], found[2] or "", found[3])
