"""`moorage scheduler` and `moorage-scheduler`: schedule the pods of a live cluster.

Owns the flags (kube-scheduler's names and defaults), logging, signals and exit codes. What happens
in between is `kube.live`'s.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from moorage.cli.configuration import read_configuration
from moorage.cli.output import fail
from moorage.config import FeatureGates, KubeSchedulerConfiguration
from moorage.config.duration import Duration, parse_duration
from moorage.engine.clock import WallClock
from moorage.errors import ConfigError, CorruptStateError, MoorageError
from moorage.kube.client import KubeClient, user_agent
from moorage.kube.debugger import dump
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.locate import scheduler_access
from moorage.simulator.world import full_registry
from moorage.version import KUBERNETES_VERSION

log = logging.getLogger("moorage")

_PROG = "moorage-scheduler"
# Without leader election kube-scheduler ends with 1 when it is told to stop.
_STOPPED = 1
_INTERRUPTED = 130


def add_parser(commands: Any) -> None:
    """Add `moorage scheduler`."""
    parser = commands.add_parser(
        "scheduler",
        help="schedule the pods of a live cluster, as kube-scheduler does",
        description="Schedule the pods of a live cluster, as kube-scheduler does.",
        allow_abbrev=False,
    )
    _add_flags(parser)
    parser.set_defaults(run=run)


class _Parser(argparse.ArgumentParser):
    """Wrong usage ends with 1, as kube-scheduler's does."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"Error: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """`moorage-scheduler`."""
    parser = _Parser(
        prog=_PROG,
        description="Schedule the pods of a live cluster, as kube-scheduler does.",
        allow_abbrev=False,
    )
    _add_flags(parser)
    parser.add_argument("--version", action="version", version=f"Kubernetes {KUBERNETES_VERSION}")
    args = parser.parse_args(argv)
    try:
        return run(args)
    except MoorageError as error:
        return fail(str(error), _PROG)
    except KeyboardInterrupt:  # before anybody listened to signals
        return _INTERRUPTED


def run(args: argparse.Namespace) -> int:
    """Schedule until told to stop."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if args.v >= 4 else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    gates = FeatureGates.parse(",".join(args.feature_gates))
    config = read_configuration(args.config, gates)
    if config.leader_election.leader_elect and args.leader_elect:
        log.warning(
            "leader election is not there yet: run one instance only (--leader-elect=false)"
        )
    try:
        return asyncio.run(_serve(args, config, gates))
    except CorruptStateError as error:
        return fail(f"{error}; starting afresh is the only way out", _PROG)


async def _serve(
    args: argparse.Namespace, config: KubeSchedulerConfiguration, gates: FeatureGates
) -> int:
    connection = config.client_connection
    # As in kube-scheduler, a file makes the flags it could hold irrelevant.
    from_file = args.config is not None
    access = scheduler_access(connection.kubeconfig if from_file else args.kubeconfig, args.master)
    qps = connection.qps if from_file else args.kube_api_qps
    burst = connection.burst if from_file else args.kube_api_burst
    try:
        scheduler = build_scheduler(
            config,
            full_registry(),
            gates,
            WallClock(),
            max_in_unschedulable_seconds=args.pod_max_in_unschedulable_pods_duration.seconds,
        )
    except ConfigError as error:
        raise ConfigError(f"{args.config}: {error}" if from_file else str(error)) from error
    async with (
        KubeClient(access, qps=qps, burst=burst, agent=user_agent("scheduler")) as client,
        KubeClient(access, qps=qps, burst=burst) as event_client,
    ):
        live = LiveScheduler(scheduler, client, EventRecorder(event_client))
        loop = asyncio.get_running_loop()
        stop = _Stop(live)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        loop.add_signal_handler(signal.SIGUSR2, lambda: dump(scheduler, live.informers))
        await live.run()
    return _STOPPED


class _Stop:
    """What a signal does: the first ends scheduling in good order, the second ends the process."""

    def __init__(self, live: LiveScheduler) -> None:
        self._live = live
        self._told = False

    def __call__(self) -> None:
        if self._told:
            os._exit(1)
        self._told = True
        self._live.stop()


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration file"
    )
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="access to the cluster (without --config)"
    )
    parser.add_argument(
        "--master", default="", metavar="URL", help="overrides the server's address"
    )
    parser.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=BOOL,…", help="feature gates"
    )
    parser.add_argument(
        "--leader-elect",
        type=_boolean,
        default=True,
        nargs="?",
        const=True,
        metavar="BOOL",
        help="elect a leader before scheduling (not there yet)",
    )
    parser.add_argument(
        "--secure-port",
        type=int,
        default=0,
        metavar="PORT",
        help="HTTPS port; only 0 (no serving) is there yet",
    )
    parser.add_argument("--kube-api-qps", type=float, default=50.0, metavar="N", help="requests/s")
    parser.add_argument("--kube-api-burst", type=int, default=100, metavar="N", help="burst")
    parser.add_argument(
        "--pod-max-in-unschedulable-pods-duration",
        type=_duration,
        default=Duration.of_seconds(300),
        metavar="DURATION",
        help="how long a pod may stay unschedulable before it is tried again (5m0s)",
    )
    parser.add_argument("-v", "--v", type=int, default=0, metavar="N", help="verbosity")


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "t", "1"):
        return True
    if text.lower() in ("false", "f", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _duration(text: str) -> Duration:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
