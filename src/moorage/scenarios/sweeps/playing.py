"""One run of a sweep: what it depends on, and how it is played, in whatever process."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from moorage.connections.memory import collecting_rarely
from moorage.controllers.objects import Json
from moorage.errors import InputError, MoorageError
from moorage.scenarios.runs import play
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.version import __version__

_LEFT_OUT = ("samples",)
"""What a run measures over time: a hundred times what it measures in the end."""
_NAMES_NO_FILES = frozenset(("objects", "schedulers", "template"))
"""Objects of Kubernetes, written in place."""


class SweepRun(NamedTuple):
    """One candidate with one seed."""

    id: str
    path: Path
    """Of the scenario, to which its files are relative."""
    scenario: Json
    seed: int


class PlayedRun(NamedTuple):
    """What came of it: a result, or why there is none."""

    id: str
    result: Json | None
    failure: str


def digest(path: Path, scenario: Json) -> str:
    """A hash of a scenario and the files that it names."""
    files = {name: _file_digest(path.parent / name) for name in sorted(set(_files(path, scenario)))}
    inputs = {"version": __version__, "scenario": scenario, "files": files}
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def run_id(inputs: str, seed: int) -> str:
    """The name of a run, by everything that it depends on."""
    return hashlib.sha256(f"{inputs}/{seed}".encode()).hexdigest()[:32]


def _files(path: Path, value: Any) -> Iterator[str]:
    """Texts of a scenario that are names of files or directories."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _NAMES_NO_FILES:
                yield from _files(path, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _files(path, inner)
    elif isinstance(value, str) and value:
        try:
            if (path.parent / value).exists():
                yield value
        except (OSError, ValueError):
            return  # too long for a name


def _file_digest(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            found.update(f"{file.relative_to(path)}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


@collecting_rarely()
def play_run(run: SweepRun) -> PlayedRun:
    """Play a run, here; a failure is a value, so that the others go on."""
    try:
        if run_id(digest(run.path, run.scenario), run.seed) != run.id:
            raise InputError(f"{run.path}: other files, or another Moorage, than where it began")
        file = ScenarioFile(run.path, run.scenario)
        result = play(file, file.scenario.schedulers[0], run.seed)
    except MoorageError as error:
        return PlayedRun(run.id, None, str(error))
    except Exception as error:
        return PlayedRun(run.id, None, f"{type(error).__name__}: {error}")
    kept = {name: value for name, value in result.items() if name not in _LEFT_OUT}
    return PlayedRun(run.id, kept, "")
