"""`moorage conformance`: how many recorded decisions we make the same way."""

import argparse
import json
import logging
import random
import sys
from typing import TYPE_CHECKING, Any

from moorage.cli.arguments import add_command
from moorage.cli.output import print_json, print_line, print_table, say

if TYPE_CHECKING:  # loaded only where it is needed
    from moorage.simulator.conformance import Disagreement, Report
    from moorage.simulator.search import SearchCount

_SHOWN = 10
_CELL = 1000
_CASES_PER_LINE = 1000


def add_parser(commands: Any) -> None:
    """Add `moorage conformance`."""
    add_command(commands, "conformance", _run)


def _run(args: argparse.Namespace) -> int:
    if (args.search is None) != (args.oracle is None):
        args.parser.error("--search and --oracle belong together")
    logging.disable()  # What goes wrong in a plugin is part of what is compared.
    try:
        return _compare(args) if args.search is None else _search(args)
    finally:
        logging.disable(logging.NOTSET)


def _compare(args: argparse.Namespace) -> int:
    from moorage.simulator.conformance import as_json, run

    report = run(args.paths, families=args.family, jobs=args.jobs, progress=_progress())
    _clear_progress()
    if args.json:
        print_json(as_json(report, args.show))
    else:
        _print(report, _SHOWN if args.show is None else args.show)
    return 0 if report.agree == report.cases else 1


def _search(args: argparse.Namespace) -> int:
    from moorage.simulator.oracle import Oracle
    from moorage.simulator.search import Search

    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    with Oracle(args.oracle) as oracle:
        search = Search(args.paths, oracle, seed, args.family)
        print_line(f"the seed is {seed}, the oracle of {oracle.kubernetes}")
        for case, found in search.run(args.search, _tell):
            with args.found.open("a") as file:
                file.write(json.dumps(case) + "\n")
            _print_differences(found)
    count = search.count
    print_line(
        f"{count.tried} changed cases: the API refuses {count.invalid}, {count.failed} cannot be "
        f"decided; of {count.decided} {count.differ} differ, {count.chance} are left to chance"
    )
    return 1 if count.differ else 0


def _tell(count: "SearchCount") -> None:
    if count.tried % _CASES_PER_LINE == 0:
        say(f"{count.tried} cases, {count.differ} differ")


def _print(report: "Report", most: int) -> None:
    print_table(
        ["FAMILY", "CASES", "AGREE", ""],
        [
            [name, str(count.cases), str(count.agree), _share(count.agree, count.cases)]
            for name, count in sorted(report.families.items())
        ],
        right=" rrr",
    )
    _print_differences(report.disagreements[:most])
    hidden = len(report.disagreements) - most
    if hidden > 0:
        print()
        print_line(f"{hidden} more disagreements (--show N shows more, --json all)")
    print()
    print_line(f"{report.agree} of {report.cases} cases agree")


def _print_differences(differences: "list[Disagreement]") -> None:
    from moorage.simulator.conformance import CRASH

    for found in differences:
        print()
        print_line(f"{found.case}: {found.field}")
        if found.field != CRASH:
            print_line(f"  expected  {_cell(found.expected)}")
        print_line(f"  actual    {_cell(found.actual)}")


def _share(part: int, whole: int) -> str:
    # Rounded down: 99.96 % must not read as 100 %.
    return f"{part * 1000 // whole / 10:.1f} %"


def _cell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CELL else f"{text[:_CELL]}... ({len(text)} characters)"


def _progress() -> Any:
    if not sys.stderr.isatty():
        return lambda _: None

    def show(done: int) -> None:
        print(f"\r{done} cases", end="", file=sys.stderr, flush=True)

    return show


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
