"""Ledgers with something in them, made quickly: a few nodes, and pods that come one by one."""

from collections.abc import Sequence
from pathlib import Path

from moorage.config import DEFAULT_FEATURE_GATES, KubeSchedulerConfiguration, default_config
from moorage.engine.actions import Binding
from moorage.engine.clock import VirtualClock
from moorage.engine.decisions import Unschedulable
from moorage.engine.recording import EndedAttempt
from moorage.engine.scheduler import Scheduler
from moorage.framework.plugin import Plugin
from moorage.kube.live import build_scheduler
from moorage.ledger import Ledger
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from reference.objects import make_node, make_pod

NOW = 1_800_000_000.0


def make_scheduler(
    config: KubeSchedulerConfiguration | None = None, extra: Sequence[type[Plugin]] = ()
) -> Scheduler:
    """A scheduler without a cluster, with further plugins in the registry."""
    registry = in_tree_registry()
    for plugin in extra:
        registry.register(plugin)
    clock = VirtualClock(NOW)
    return build_scheduler(config or default_config(), registry, DEFAULT_FEATURE_GATES, clock)


class Maker:
    """Fills a ledger with decisions about pods `default/pod-1`, `default/pod-2`, ..."""

    def __init__(self, ledger: Ledger, nodes: int = 3) -> None:
        self.ledger = ledger
        self.scheduler = make_scheduler()
        self.scheduler.record(ledger.recorder)
        for number in range(nodes):
            self.scheduler.handlers.add_node(make_node(f"node-{number}", cpu="64", pods=5000))
        self.made = 0

    def make(self, decisions: int, *, message: str = "", flush: bool = False) -> None:
        """Record so many decisions; with a message they are failures."""
        for _ in range(decisions):
            self.made += 1
            self.decide(make_pod(f"pod-{self.made}", cpu="100" if message else "1m"), message)
            if flush:
                self.ledger.flush()

    def decide(self, pod: Pod, message: str = "") -> None:
        """Record a decision about a pod; with a message it fails."""
        scheduler = self.scheduler
        if message:
            [profile] = scheduler.profiles.values()
            self.ledger.recorder.attempt_ended(
                EndedAttempt(pod, profile, 1, failure=Unschedulable(pod, message), started=NOW)
            )
            return
        scheduler.handlers.add_pod(pod)
        assert scheduler.schedule_one()
        for action in scheduler.outbox:
            if isinstance(action, Binding):
                scheduler.permitted(action)
        scheduler.outbox.clear()


def written(directory: Path, decisions: int = 5, chunks: int = 1) -> bytes:
    """The bytes of a file with so many chunks of so many decisions each."""
    ledger = Ledger(2**24, directory)
    maker = Maker(ledger)
    for _ in range(chunks):
        maker.make(decisions)
        ledger.flush()
    ledger.close()
    [path] = directory.iterdir()
    return path.read_bytes()
