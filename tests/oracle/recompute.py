"""Recorded decisions asked again of upstream's plugins: `make oracle`.

Fails on a difference, or writes the files anew (`--write`), for a new Kubernetes release. Where
upstream leaves something to chance, a case is asked several times.
"""

import argparse
import gzip
import os
import sys
from collections import Counter
from pathlib import Path

import msgspec

from e2e.go_programs import UnavailableError, say
from moorage.errors import InputError
from moorage.model.meta import Json
from moorage.simulator.conformance import Disagreement, compare
from moorage.simulator.oracle import Oracle
from moorage.simulator.replay import find_files, read_lines
from moorage.version import KUBERNETES_VERSION
from oracle.program import find_or_build_oracle

PARITY = Path(__file__).parents[1] / "parity"
TRIES = 10
SHOWN = 20


def recompute(path: Path, oracle: Oracle, *, write: bool) -> list[Disagreement]:
    """The differences in one file; with `write` the file has the new decisions afterwards."""
    found: list[Disagreement] = []
    computed = []
    for line in read_lines(path):
        case: Json = msgspec.json.decode(line.text)
        expect, differing = _asked(case, oracle)
        found += differing
        if differing:
            case["expect"] = expect
        computed.append({**case, "kubernetes": oracle.kubernetes})
    if write:
        lines = msgspec.json.Encoder().encode_lines(computed)
        path.write_bytes(gzip.compress(lines, mtime=0))
    return found


def _asked(case: Json, oracle: Oracle) -> tuple[Json, list[Disagreement]]:
    computed: Json = {}
    differing: list[Disagreement] = []
    for _ in range(TRIES):
        answer = oracle.ask(case)
        if answer.expect is None:
            raise InputError(f"{case['name']}: {answer.failed or answer.invalid}")
        computed = answer.expect
        name, recorded = case["name"], case["expect"]
        differing = compare(name, recorded, computed) or compare(name, computed, recorded)
        if not differing:
            break
    return computed, differing


def main() -> int:
    """Build if needed, recompute, and say where the oracle is; no Go is not a failure."""
    parser = argparse.ArgumentParser(prog="make oracle")
    parser.add_argument("paths", nargs="*", type=Path, default=[PARITY])
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    try:
        program = find_or_build_oracle()
    except UnavailableError as reason:
        if os.environ.get("MOORAGE_E2E_REQUIRED"):
            raise
        say(f"recorded decisions are not recomputed: {reason}")
        return 0
    found: list[Disagreement] = []
    with Oracle(program) as oracle:
        assert oracle.kubernetes == KUBERNETES_VERSION
        for path in find_files(args.paths):
            found += recompute(path, oracle, write=args.write)
            say(f"{path}: {len(found)} differences so far")
    for one in found[:SHOWN]:
        say(f"{one.case} {one.field}\n  recorded {one.expected}\n  computed {one.actual}")
    fields = Counter(one.field for one in found)
    say(f"{len({one.case for one in found})} cases differ from {KUBERNETES_VERSION} {dict(fields)}")
    say(f"the oracle is {program}")
    return 1 if found and not args.write else 0


if __name__ == "__main__":
    sys.exit(main())
