"""`moorage sweep`: a scenario with many settings, and the best of them."""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moorage.cli.arguments import add_command
from moorage.cli.output import (
    counted,
    print_as,
    print_json,
    print_line,
    print_table,
    say,
    write_file,
    yaml_text,
)
from moorage.errors import InputError
from moorage.model.meta import Json

if TYPE_CHECKING:
    from moorage.scenarios.sweeps.workers import Workers

_OTHERS = ("run", "schema", "-h", "--help")
_SOME_FAILED = 3
_MOST_ROWS = 40
"""Of more settings the table shows those on the front."""
_SECONDS_BETWEEN = 1.0
"""Progress is told no more often."""


def add_parser(commands: Any) -> None:
    """Add `moorage sweep`."""
    add_command(commands, "sweep", {"run": _run, "schema": _print_schema})


def spelled_out(words: list[str]) -> list[str]:
    """`moorage sweep FILE` with the word that is left out there."""
    if words[:1] == ["sweep"] and len(words) > 1 and words[1] not in _OTHERS:
        return ["sweep", "run", *words[1:]]
    return words


def _run(args: argparse.Namespace) -> int:
    from moorage.scenarios.sweeps.sweep_file import SweepFile
    from moorage.scenarios.sweeps.sweeping import run_sweep

    results = args.results or args.sweep.with_suffix(".runs.jsonl")
    best = args.best or args.sweep.with_suffix(".best.yaml")
    file = SweepFile(args.sweep)
    found = run_sweep(file, results, _workers(args), args.retries, _Progress().tell)
    if found["best"] is not None:
        write_file(best, yaml_text(found["best"]["configuration"]).encode())
    if args.output == "table":
        _print_result(found, best)
    else:
        print_as(args.output, found)
    return _SOME_FAILED if found["missing"] else 0


def _workers(args: argparse.Namespace) -> "Workers":
    from moorage.scenarios.sweeps.workers import Workers

    if args.backend == "processes" and args.address is not None:
        raise InputError("--address is for a cluster: add --backend dask or ray")
    if args.backend != "processes" and args.address is None:
        raise InputError(f"--backend {args.backend} needs --address, where the cluster is")
    if args.backend != "processes" and args.jobs is not None:
        raise InputError("--jobs is for processes on this machine: a cluster has its own")
    return Workers(args.jobs or -1, args.backend, args.address or "")


class _Progress:
    """How many runs there are, and how long the others will take."""

    def __init__(self) -> None:
        self._begun: tuple[float, int] | None = None
        self._told = 0.0

    def tell(self, done: int, total: int, failure: str) -> None:
        now = time.monotonic()
        if failure:
            say(f"failed: {failure}")
        if self._begun is None:
            self._begun = now, done
            if done:
                say(f"{done} of {counted(total, 'run')} are there already")
            return
        if done < total and now - self._told < _SECONDS_BETWEEN:
            return
        self._told = now
        since, before = self._begun
        left = (now - since) / max(done - before, 1) * (total - done)
        say(f"{done} of {counted(total, 'run')}, about {left:,.0f} s left")


def _print_result(found: Json, best: Path) -> None:
    measures = [objective["measure"] for objective in found["objectives"]]
    paths = list(found["candidates"][0]["parameters"])
    chosen = found["best"]["parameters"] if found["best"] is not None else None
    candidates = found["candidates"]
    if len(candidates) > _MOST_ROWS:
        candidates = [candidate for candidate in candidates if candidate["onFront"]]
    rows = []
    for candidate in candidates:
        parameters = candidate["parameters"]
        mark = "best" if parameters == chosen else "front" if candidate["onFront"] else ""
        figures = [_figure(candidate["objectives"][measure]) for measure in measures]
        rows.append([mark, *(_value(parameters[path]) for path in paths), *figures])
    header = ["", *_short(paths), *measures]
    print_table(header, rows, right=" " + " " * len(paths) + "r" * len(measures))
    print()
    if chosen is None:
        print_line("No candidate has all its runs.")
    else:
        print_line(f"The best configuration is in {best}.")
    if found["missing"]:
        print_line(f"{counted(len(found['missing']), 'run')} missing:")
    for one in found["missing"]:
        values = ", ".join(map(_value, one["parameters"].values()))
        print_line(f"  {values}, seed {one['seed']}: {one['why']}")


def _short(paths: list[str]) -> list[str]:
    """The ends of paths, if they differ."""
    ends = [".".join(path.split(".")[-2:]) for path in paths]
    return ends if len(set(ends)) == len(ends) else paths


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}"


def _print_schema(args: argparse.Namespace) -> int:
    from moorage.scenarios.sweeps.form import sweep_schema

    del args
    print_json(sweep_schema())
    return 0
