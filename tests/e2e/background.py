"""Runs scenarios that wait for minutes beside the others, each on a control plane of its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.binaries import Binaries
from e2e.client import Json
from e2e.cluster import Server, control_plane
from e2e.schedulers import Scheduler
from e2e.trial import Scenario, label, trial

Background = Mapping[tuple[Scenario, str], Future[Json]]
"""What a scenario shows with the scheduler of a role, as soon as it has ended."""


@contextmanager
def background(
    scenarios: Iterable[Scenario],
    roles: Mapping[str, Scheduler],
    binaries: Binaries,
    make_folder: Callable[[str], Path],
) -> Iterator[Background]:
    """Start every scenario with every scheduler; what has not ended in the end is broken off."""
    started: dict[tuple[Scenario, str], Future[Json]] = {}
    with ExitStack() as running:
        # Left last: what is still at work when its server has gone fails, and so ends.
        workers = running.enter_context(ThreadPoolExecutor())
        for scenario in scenarios:
            for role, scheduler in roles.items():
                folder = make_folder(f"{label(scenario)}-{role}")
                plane = running.enter_context(control_plane(binaries, folder))
                started[scenario, role] = workers.submit(_run, scenario, plane, scheduler)
        yield started


def _run(scenario: Scenario, server: Server, scheduler: Scheduler) -> Json:
    with trial(server, scheduler, label(scenario)) as stage:
        return scenario(stage)
