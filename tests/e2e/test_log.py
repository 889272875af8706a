"""The log of fifty pods has the same lines as kube-scheduler's: words, severity and fields.

Both schedulers are told the story (`log_story.py`) at -v=2, 3 and 5, and once in JSON. Lines are
compared pod by pod, times and callers aside. What differs is listed here with its reason, and in
docs/parity.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import pytest

from e2e.cluster import ControlPlane
from e2e.log_lines import LogLine, read_lines
from e2e.log_story import CONFIG, fifty_pods
from e2e.schedulers import PEER, Scheduler, subject
from e2e.trial import trial
from moorage.engine.hint_lines import texts_of_hints

# Moorage does not batch: it keeps what plugins answered for equal pods (docs/architecture.md, "The
# fast path"), so there are no signatures and no node hints to tell of.
_BATCHING = ("OpportunisticBatch ", "SignPod ")
# What differs from one run of kube-scheduler to the next: the search for victims begins at a random
# node, how many events are known depends on the watch, and who is tried first on a map in Go.
_BY_CHANCE = {"offset", "inFlightEventsSize", "inFlightPodsSize", "schedulingCycle"}
# Said of a deleted pod whose last update is handled when the informer knows that it is gone.
_RACE = "Pod doesn't exist in podLister, aborted adding it to the nominator"
_MOVED = "Entity moved to an internal scheduling queue"
_PODS = ("pod", "entity", "preemptor")
"""Fields that tell which pod a line is about."""
_HINTS = texts_of_hints()


@pytest.mark.parametrize(
    ("verbosity", "form"), [(2, "text"), (3, "text"), (5, "text"), (5, "json")]
)
def test_fifty_pods_have_the_lines_that_kube_scheduler_writes(
    verbosity: int, form: str, server: ControlPlane, scheduler: Callable[[str], Scheduler]
) -> None:
    flags = [f"--v={verbosity}", f"--logging-format={form}"]
    theirs, ours = (
        _by_pod(read_lines(_log_of(scheduler(name), server, flags))) for name in (PEER, subject())
    )
    assert len(theirs) >= 49  # at -v=2 nothing is said of the pod behind a gate
    assert theirs.keys() == ours.keys()
    assert not {
        pod: {"missing": dict(theirs[pod] - ours[pod]), "too many": dict(ours[pod] - theirs[pod])}
        for pod in theirs
        if theirs[pod] != ours[pod]
    }


def _log_of(scheduler: Scheduler, server: ControlPlane, flags: list[str]) -> str:
    """The log of the story; each run has a namespace of its own, and so a file."""
    name = "-".join(["log", scheduler.name, *(flag.rpartition("=")[2] for flag in flags)])
    with trial(server, scheduler, name) as stage:
        stage.start(CONFIG, flags=flags)
        fifty_pods(stage)
        return stage.log().replace(name, "log")


def _by_pod(lines: Iterable[LogLine]) -> dict[str, Counter[LogLine]]:
    by_pod: dict[str, list[LogLine]] = defaultdict(list)
    for line in lines:
        fields = dict(line.fields)
        pod = next((fields[key] for key in _PODS if key in fields), "")
        if pod.startswith("log/") and not line.message.startswith((*_BATCHING, _RACE)):
            kept = tuple((key, fields[key]) for key in sorted(fields.keys() - _BY_CHANCE))
            by_pod[pod].append(line._replace(fields=kept))
    return {pod: Counter(_without_chosen_hints(lines)) for pod, lines in by_pod.items()}


def _without_chosen_hints(lines: Iterable[LogLine]) -> Iterable[LogLine]:
    """Leave out what hints said of a node's change that woke the pod.

    The first that says yes ends the questions, and who is asked first depends on a map in Go.
    """
    said: list[LogLine] = []
    for line in lines:
        if line.message in _HINTS:
            said.append(line)
            continue
        if line.message != _MOVED or not dict(line.fields)["event"].startswith("Node"):
            yield from said
        said.clear()
        yield line
    yield from said
