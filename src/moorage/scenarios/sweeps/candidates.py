"""The settings that a sweep tries: each with the scenario as it is then played."""

import copy
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from moorage.config.documents import parse_document
from moorage.config.types import API_VERSION, KIND
from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.scenarios.runs import configuration
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.sweeps.form import NumberRange, ParameterValues, RandomSearch
from moorage.scenarios.sweeps.paths import first_field, put
from moorage.scenarios.sweeps.sweep_file import MOST_CANDIDATES, SCENARIO_FIELDS, SweepFile

_DRAWS_FOR_EACH = 100
"""How often chance may repeat itself before there seems to be nothing new."""


class SweepCandidate(NamedTuple):
    """Values for the parameters, and what they make of the scenario and its configuration."""

    number: int
    parameters: Json
    scenario: Json
    configuration: Json


def candidates(file: SweepFile) -> list[SweepCandidate]:
    """All that the sweep tries, in order; `InputError` if one of them cannot be played."""
    base = _configuration(file)
    found = []
    for number, values in enumerate(_settings(file)):
        parameters = dict(zip(file.sweep.parameters, values, strict=True))
        found.append(_candidate(file, base, number, parameters))
    return found


def _settings(file: SweepFile) -> Iterator[tuple[Any, ...]]:
    axes = list(file.sweep.parameters.values())
    if file.sweep.random is not None:
        yield from _drawn(axes, file.sweep.random)
        return
    grid = [_all(axis) for axis in axes]
    size = math.prod(map(len, grid))
    if size > MOST_CANDIDATES:
        file.refuse(
            "parameters", f"expected a grid of at most {MOST_CANDIDATES:,} candidates, got {size:,}"
        )
    yield from itertools.product(*grid)


def _all(values: ParameterValues) -> list[Any]:
    if isinstance(values, NumberRange):
        least, most = values.integers or (0, 0)
        return list(itertools.islice(range(least, most + 1), MOST_CANDIDATES + 1))
    return values


def _drawn(axes: list[ParameterValues], search: RandomSearch) -> Iterator[tuple[Any, ...]]:
    dice = Random(search.seed)
    seen: set[str] = set()
    for _ in range(_DRAWS_FOR_EACH * search.candidates):
        values = tuple(_draw(axis, dice) for axis in axes)
        text = json.dumps(values, sort_keys=True)
        if text not in seen:
            seen.add(text)
            yield values
        if len(seen) == search.candidates:
            return


def _draw(values: ParameterValues, dice: Random) -> Any:
    if not isinstance(values, NumberRange):
        return dice.choice(values)
    if values.integers is not None:
        return dice.randint(*values.integers)
    if values.uniform is not None:
        return dice.uniform(*values.uniform)
    least, most = values.log_uniform or (1.0, 1.0)
    return math.exp(dice.uniform(math.log(least), math.log(most)))


def _configuration(file: SweepFile) -> Json:
    """The configuration that is tuned, as its file says it."""
    (scheduler,) = (one for one in file.scenario.scenario.schedulers if one.name == file.scheduler)
    configuration(file.scenario, scheduler)
    if isinstance(scheduler.config, dict):
        return scheduler.config
    if not scheduler.config:
        return {"apiVersion": API_VERSION, "kind": KIND}
    document, _ = parse_document(Path(file.scenario.file(scheduler.config)).read_bytes())
    return dict(document) if isinstance(document, dict) else {}


def _candidate(file: SweepFile, base: Json, number: int, parameters: Json) -> SweepCandidate:
    scenario, config = copy.deepcopy(file.scenario.plain), copy.deepcopy(base)
    for path, value in parameters.items():
        into = scenario if first_field(path) in SCENARIO_FIELDS else config
        try:
            put(into, path, copy.deepcopy(value))
        except ValueError as error:
            file.refuse(f"parameters.{path}", str(error))
    scenario["schedulers"] = [{"name": file.scheduler, "config": config}]
    scenario.pop("repetitions", None)
    try:
        played = ScenarioFile(file.scenario.path, scenario)
        configuration(played, played.scenario.schedulers[0])
    except InputError as error:
        file.refuse(
            "parameters", f"expected values that go together, got {shown(parameters)}: {error}"
        )
    return SweepCandidate(number, parameters, scenario, config)


def shown(parameters: Json) -> str:
    """The values of parameters in one line, each with the end of its path."""
    return ", ".join(f"{path}={json.dumps(value)}" for path, value in parameters.items())
