"""A sweep: its runs, those that are not there yet played, and what they say together."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from moorage.controllers.objects import Json
from moorage.errors import MoorageError
from moorage.scenarios.runs import API_VERSION
from moorage.scenarios.summary import summary
from moorage.scenarios.sweeps import choice
from moorage.scenarios.sweeps.candidates import SweepCandidate, candidates, shown
from moorage.scenarios.sweeps.playing import PlayedRun, SweepRun, digest, run_id
from moorage.scenarios.sweeps.results import RunLines
from moorage.scenarios.sweeps.sweep_file import SweepFile
from moorage.scenarios.sweeps.workers import Workers, played

SweepProgress = Callable[[int, int, str], None]
"""Is told how many runs of how many there are, and what failed."""


class _Planned(NamedTuple):
    """A run and whose it is."""

    run: SweepRun
    candidate: SweepCandidate


def run_sweep(
    file: SweepFile,
    results: Path,
    workers: Workers,
    retries: int,
    progress: SweepProgress = lambda done, total, failure: None,
) -> Json:
    """Play what is not in the results yet, and sum everything up."""
    tried = candidates(file)
    plan = list(_planned(file, tried))
    runs = {one.run.id: one for one in plan[: file.sweep.budget.runs]}
    with RunLines(results) as lines:
        session = _Session(file, runs, lines, progress)
        session.play(workers, retries)
        lines.put_in_order(list(runs))
        return _summed_up(file, tried, plan, session)


def _planned(file: SweepFile, tried: Sequence[SweepCandidate]) -> Iterator[_Planned]:
    path = file.scenario.path.resolve()
    for candidate in tried:
        inputs = digest(path, candidate.scenario)
        for seed in file.seeds:
            name = run_id(inputs, seed)
            yield _Planned(SweepRun(name, path, candidate.scenario, seed), candidate)


class _Session:
    """One call of the command: which runs are due, and which have failed."""

    def __init__(
        self,
        file: SweepFile,
        runs: Mapping[str, _Planned],
        lines: RunLines,
        progress: SweepProgress,
    ) -> None:
        limit = file.sweep.budget.time
        self._until = time.monotonic() + file.seconds(limit, "budget.time") if limit else None
        self._runs, self.lines, self._progress = runs, lines, progress
        self._failed: Counter[str] = Counter()
        self.failures: dict[str, str] = {}
        self._done = sum(name in lines.runs for name in runs)

    def play(self, workers: Workers, retries: int) -> None:
        """Until every run is there, or has failed too often, or time is over."""
        self._tell()
        stuck = 0
        while stuck <= retries and (due := self._due(retries)):
            before = len(self.lines.runs) + self._failed.total()
            for one in self._played(workers, due):
                self._take(one)
            if self._is_late():
                return
            stuck = 0 if len(self.lines.runs) + self._failed.total() > before else stuck + 1

    def _played(self, workers: Workers, due: Sequence[SweepRun]) -> Iterator[PlayedRun]:
        """What comes of runs, until one of the workers dies."""
        try:
            yield from played(workers, self._while_there_is_time(due))
        except MoorageError:
            raise
        except Exception as error:  # a run's failure is a value: this is the workers'
            why = f"workers ended: {' '.join(str(error).split())}"
            self.failures.update({run.id: why for run in due if run.id not in self.lines.runs})
            self._tell(why)

    def _due(self, retries: int) -> list[SweepRun]:
        return [
            one.run
            for name, one in self._runs.items()
            if name not in self.lines.runs and self._failed[name] <= retries
        ]

    def _while_there_is_time(self, due: Iterable[SweepRun]) -> Iterator[SweepRun]:
        for run in due:
            if self._is_late():
                return
            yield run

    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _take(self, one: PlayedRun) -> None:
        planned = self._runs[one.id]
        if one.result is None:
            self._failed[one.id] += 1
            self.failures[one.id] = one.failure
            seed = planned.run.seed
            self._tell(f"{shown(planned.candidate.parameters)}, seed {seed}: {one.failure}")
            return
        self.failures.pop(one.id, None)
        parameters, seed = planned.candidate.parameters, planned.run.seed
        self.lines.append(
            {"id": one.id, "parameters": parameters, "seed": seed, "result": one.result}
        )
        self._done += 1
        self._tell()

    def _tell(self, failure: str = "") -> None:
        self._progress(self._done, len(self._runs), failure)


def _summed_up(
    file: SweepFile, tried: Sequence[SweepCandidate], plan: Sequence[_Planned], session: _Session
) -> Json:
    objectives = file.sweep.objectives
    results: dict[int, list[Json]] = {candidate.number: [] for candidate in tried}
    missing = []
    for one in plan:
        if one.run.id in session.lines.runs:
            results[one.candidate.number].append(session.lines.runs[one.run.id]["result"])
        else:
            why = session.failures.get(one.run.id, "beyond the budget")
            parameters = one.candidate.parameters
            missing.append({"parameters": parameters, "seed": one.run.seed, "why": why})
    if played_runs := [result for each in results.values() for result in each]:
        file.check_measures(summary(played_runs))
    entries, losses = [], {}
    for candidate in tried:
        runs = results[candidate.number]
        summed_up = summary(runs)
        values = choice.measured(objectives, summed_up)
        entry = {"parameters": candidate.parameters, "runs": len(runs), "objectives": values}
        entries.append({**entry, "onFront": False, "summary": summed_up})
        found = choice.losses(objectives, values)
        if found is not None and len(runs) == len(file.seeds):
            losses[candidate.number] = found
    for number in choice.pareto_front(losses):
        entries[number]["onFront"] = True
    return {
        "apiVersion": API_VERSION,
        "kind": "SweepResult",
        "objectives": [
            {"measure": one.measure, "goal": choice.goal(one), "weight": one.weight}
            for one in objectives
        ],
        "choose": file.sweep.choose,
        "candidates": entries,
        "best": _best(tried[choice.best(objectives, losses, file.sweep.choose)])
        if losses
        else None,
        "missing": missing,
    }


def _best(candidate: SweepCandidate) -> Json:
    return {"parameters": candidate.parameters, "configuration": candidate.configuration}
