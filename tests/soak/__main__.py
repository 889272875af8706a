"""The command behind `make soak`."""

import argparse
import asyncio
import sys
from pathlib import Path

from soak.run import Options, run


def main() -> int:
    """Soak for the time asked for; 0 if all went well."""
    parser = argparse.ArgumentParser(prog="soak", description=run.__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="default 600")
    parser.add_argument("--rate", type=float, default=25.0, help="pods a second; default 25")
    parser.add_argument("--seed", type=int, default=1, help="of faults and churn; default 1")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="for logs and plot")
    parser.add_argument(
        "--up",
        action="store_true",
        help="`moorage up` alone, without faults: memory of one process",
    )
    given = parser.parse_args()
    options = Options(given.seconds, given.rate, given.seed, given.folder, given.up)
    return asyncio.run(run(options))


sys.exit(main())
