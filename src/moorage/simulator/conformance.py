"""Many golden cases put to the engine, and what differs, field by field.

Owns which fields count as equal when. Every field present in `expect` is compared; a difference is
cut down to the nodes and plugins that differ, so that it can be read.
"""

import logging
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from moorage.errors import InputError
from moorage.framework.registry import Registry
from moorage.model.meta import Json
from moorage.simulator.replay import GoldenCase, GoldenLine, find_files, read_lines, replay
from moorage.simulator.world import full_registry

# Upstream lists the scalar resources of this plugin's reasons in Go's random map order.
_UNORDERED_REASONS = "NodeResourcesFit"
# Upstream leaves these out when empty, so absence is a statement.
_EMPTY_WHEN_ABSENT: Mapping[str, Any] = {"clearsNomination": False, "victims": {}, "candidates": {}}


class Disagreement(msgspec.Struct, frozen=True):
    """One field in which a case differs."""

    case: str
    field: str
    expected: Any
    actual: Any


def compare(case: str, expect: Json, actual: Json) -> list[Disagreement]:
    """Where `actual` (as `replay` describes a decision) departs from the recorded one."""
    found = []
    for field, recorded in expect.items():
        expected, ours = recorded, actual.get(field)
        if field == "filter":
            expected, ours = _sorted_reasons(expected), _sorted_reasons(ours)
        elif field == "postFilter" and isinstance(expected, dict):
            expected, ours = _comparable_post_filter(expected, ours)
        elif field == "error" and expected in (actual.get("errors") or ()):
            # Of several failing nodes upstream reports the one that failed first in time.
            continue
        if expected != ours:
            found.append(Disagreement(case, field, *_differing(expected, ours)))
    if "error" not in expect and actual.get("error"):
        found.append(Disagreement(case, "error", None, actual["error"]))
    return found


def _sorted_reasons(statuses: Any) -> Any:
    if not isinstance(statuses, dict):
        return statuses
    return {
        node: {**status, "reasons": sorted(status["reasons"])}
        if status["plugin"] == _UNORDERED_REASONS
        else status
        for node, status in statuses.items()
    }


def _comparable_post_filter(expected: Json, ours: Any) -> tuple[Json, Any]:
    expected = {**_EMPTY_WHEN_ABSENT, **expected}
    if not isinstance(ours, dict):
        return expected, ours
    ours = {**_EMPTY_WHEN_ABSENT, **ours}
    return expected, {key: value for key, value in ours.items() if key in expected}


def _differing(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Both sides without what they agree on; a missing entry becomes None."""
    if not (isinstance(expected, dict) and isinstance(actual, dict)):
        return expected, actual
    left: Json = {}
    right: Json = {}
    for key in [*expected, *(key for key in actual if key not in expected)]:
        if (key in expected) != (key in actual) or expected[key] != actual[key]:
            left[key], right[key] = _differing(expected.get(key), actual.get(key))
    return left, right


CRASH = "crash"
"""The field of a disagreement that is an exception."""
_CASES_PER_TASK = 20
Progress = Callable[[int], None]
"""Is told how many cases are done."""


class FamilyCount(msgspec.Struct):
    """How many cases of a family there are, and how many of them agree."""

    cases: int = 0
    agree: int = 0


class Report(msgspec.Struct):
    """The outcome of a run; encodes to what `moorage conformance --json` prints."""

    cases: int = 0
    agree: int = 0
    families: dict[str, FamilyCount] = {}
    disagreements: list[Disagreement] = []

    def add(self, result: "CaseResult") -> None:
        agrees = not result.disagreements
        family = self.families.setdefault(result.family, FamilyCount())
        for count in (self, family):
            count.cases += 1
            count.agree += agrees
        self.disagreements += result.disagreements


class CaseResult(msgspec.Struct, frozen=True):
    """What became of one case."""

    name: str
    family: str
    disagreements: list[Disagreement]


def check_case(case: GoldenCase, registry: Registry, *, reuse: bool = True) -> CaseResult:
    """Replay and compare one case; without `reuse` by the plain path and fresh answers alone."""
    try:
        found = compare(case.name, case.expect, replay(case, registry, reuse=reuse))
    except Exception as error:
        crash = f"{type(error).__name__}: {error} ({_innermost(error)})"
        found = [Disagreement(case.name, CRASH, None, crash)]
    return CaseResult(case.name, case.family, found)


def run(
    paths: Iterable[Path],
    *,
    families: Iterable[str] = (),
    jobs: int = 1,
    progress: Progress = lambda _: None,
) -> Report:
    """Check all cases of some files and folders, or only those of some families."""
    wanted = frozenset(families)
    report = Report()
    for result in _results(find_files(paths), wanted, jobs):
        report.add(result)
        progress(report.cases)
    if not report.cases and not wanted:
        raise InputError("there are no cases in these files")
    missing = wanted - report.families.keys()
    if missing:
        raise InputError(f"no cases of the families {', '.join(sorted(missing))} were found")
    return report


def _results(files: list[Path], families: frozenset[str], jobs: int) -> Iterator[CaseResult]:
    lines = (line for path in files for line in read_lines(path))
    if jobs == 1:
        registry = full_registry()
        for line in lines:
            yield from _check_lines([line], families, registry)
        return
    # Spawned, not forked: NumPy has threads, and a forked child inherits their locks.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker)
    try:
        tasks = []
        while batch := list(islice(lines, _CASES_PER_TASK)):
            tasks.append(pool.submit(_check_lines, batch, families))
        for task in tasks:
            yield from task.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Interrupts are left to the first process.
    logging.disable()


def _check_lines(
    lines: Iterable[GoldenLine], families: frozenset[str], registry: Registry | None = None
) -> list[CaseResult]:
    registry = registry or full_registry()
    cases = (line.decode() for line in lines)
    return [check_case(c, registry) for c in cases if not families or c.family in families]


def _innermost(error: Exception) -> str:
    """Where an exception was raised, for whoever has to look for the mistake."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"


def as_json(report: Report, most: int | None = None) -> Json:
    """The report as plain values, with at most so many disagreements."""
    plain: Json = msgspec.to_builtins(report)
    plain["disagreements"] = plain["disagreements"][:most]
    return plain
