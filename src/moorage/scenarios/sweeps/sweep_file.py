"""Sweeps as files: what their form cannot express is checked, and said with line and field."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec

from moorage.config import KubeSchedulerConfiguration
from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.scenarios.scenario import Scenario
from moorage.scenarios.scenario_file import MOST_REPETITIONS, ScenarioFile
from moorage.scenarios.sweeps.choice import NAMED, goal, measured
from moorage.scenarios.sweeps.form import NumberRange, ParameterValues, Sweep
from moorage.scenarios.sweeps.paths import first_field
from moorage.scenarios.yaml_file import YamlFile


def _fields(form: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(form))


SCENARIO_FIELDS = _fields(Scenario) - {"apiVersion", "kind"}
MOST_CANDIDATES = 10_000
_CONFIGURATION_FIELDS = _fields(KubeSchedulerConfiguration)
_SWEPT_OTHERWISE = {
    "schedulers": "a path into the configuration of the sweep's scheduler, such as profiles[0]",
    "repetitions": "the sweep's own repetitions",
}


class SweepFile(YamlFile[Sweep]):
    """A sweep, its scenario, and where each of its fields stands."""

    def __init__(self, path: Path) -> None:
        """Read both; `InputError` says what is wrong, and where."""
        super().__init__(path, Sweep)
        self.sweep = self.document
        try:
            self.scenario = ScenarioFile(Path(self.file(self.sweep.scenario)))
        except InputError as error:
            self.refuse("scenario", f"expected a scenario: {error}")
        names = [scheduler.name for scheduler in self.scenario.scenario.schedulers]
        self.scheduler = self.sweep.scheduler or names[0]
        if self.scheduler not in names:
            self.refuse("scheduler", f"expected one of the scenario's: {', '.join(names)}")
        self.repetitions = self.sweep.repetitions or self.scenario.scenario.repetitions
        self._check()

    @property
    def seeds(self) -> range:
        """The seeds that every candidate is tried with."""
        return range(self.repetitions.seed, self.repetitions.seed + self.repetitions.count)

    def check_measures(self, summary: Json) -> None:
        """Is there every measure that the objectives name? It is known when runs have ended."""
        for number, objective in enumerate(self.sweep.objectives):
            if measured([objective], summary)[objective.measure] is None:
                known = ", ".join((*NAMED, *summary))
                self.refuse(
                    f"objectives[{number}].measure",
                    f"expected a measure of these runs, got {objective.measure}: {known}",
                )

    def _check(self) -> None:
        sweep = self.sweep
        if not sweep.parameters:
            self.refuse("parameters", "expected at least one")
        for path, values in sweep.parameters.items():
            self._check_path(path)
            self._check_values(values, f"parameters.{path}")
        if sweep.random is not None and not 1 <= sweep.random.candidates <= MOST_CANDIDATES:
            self.refuse("random.candidates", f"expected a number from 1 to {MOST_CANDIDATES:,}")
        if not 1 <= self.repetitions.count <= MOST_REPETITIONS:
            self.refuse("repetitions.count", f"expected a number from 1 to {MOST_REPETITIONS:,}")
        if sweep.budget.runs is not None and sweep.budget.runs < 1:
            self.refuse("budget.runs", "expected at least 1")
        if sweep.budget.time:
            self.seconds(sweep.budget.time, "budget.time")
        self._check_objectives()

    def _check_path(self, path: str) -> None:
        try:
            first = first_field(path)
        except ValueError as error:
            self.refuse(f"parameters.{path}", str(error))
        if first in _SWEPT_OTHERWISE:
            self.refuse(f"parameters.{path}", f"expected {_SWEPT_OTHERWISE[first]}")
        if first not in SCENARIO_FIELDS | _CONFIGURATION_FIELDS:
            known = ", ".join(sorted(SCENARIO_FIELDS - _SWEPT_OTHERWISE.keys()))
            self.refuse(
                f"parameters.{path}",
                f"expected a field of KubeSchedulerConfiguration (profiles and the like) or of "
                f"the scenario ({known}) at its beginning, got {first}",
            )

    def _check_values(self, values: ParameterValues, field: str) -> None:
        if isinstance(values, list):
            if not values:
                self.refuse(field, "expected at least one value")
            try:
                json.dumps(values, allow_nan=False)
            except (TypeError, ValueError):
                self.refuse(field, "expected values that JSON has; quote dates")
            return
        given = _given(values)
        if len(given) != 1:
            self.refuse(field, "expected values, or one of integers, uniform and logUniform")
        ((name, (least, most)),) = given.items()
        if not (math.isfinite(least) and math.isfinite(most) and least < most):
            self.refuse(f"{field}.{name}", "expected two numbers, the smaller first")
        if name == "logUniform" and least <= 0:
            self.refuse(f"{field}.{name}", "expected numbers above 0")
        if name != "integers" and self.sweep.random is None:
            self.refuse(f"{field}.{name}", "expected values or integers: a grid needs a few to try")

    def _check_objectives(self) -> None:
        objectives = self.sweep.objectives
        measures = [objective.measure for objective in objectives]
        if not objectives or len(set(measures)) < len(measures):
            self.refuse("objectives", "expected at least one, and each measure once")
        for number, objective in enumerate(objectives):
            field = f"objectives[{number}]"
            if not goal(objective):
                what = f"expected a goal, min or max, as the measure is none of {', '.join(NAMED)}"
                self.refuse(field, what)
            if not (math.isfinite(objective.weight) and objective.weight > 0):
                self.refuse(f"{field}.weight", "expected a number above 0")


def _given(values: NumberRange) -> dict[str, Any]:
    found = {field.encode_name: getattr(values, field.name) for field in _DISTRIBUTIONS}
    return {name: pair for name, pair in found.items() if pair is not None}


_DISTRIBUTIONS = msgspec.structs.fields(NumberRange)
