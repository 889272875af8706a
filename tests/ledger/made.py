"""Ledgers with something in them, made quickly: a few nodes, and pods that come one by one."""

from pathlib import Path

from framework.building import make_cycle, make_profile, make_state
from moorage.engine.decisions import Bind
from moorage.engine.recording import setback_of
from moorage.ledger import Ledger
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod


class Maker:
    """Fills a ledger with decisions about pods `default/pod-1`, `default/pod-2`, ..."""

    def __init__(self, ledger: Ledger, nodes: int = 3) -> None:
        self.ledger = ledger
        self.state = make_state([make_node(f"node-{i}", cpu="64", pods=500) for i in range(nodes)])
        self.cycle = make_cycle(self.state)
        self.cycle.record(ledger.recorder)
        self.profile = make_profile(self.state)
        self.made = 0

    def make(self, decisions: int, *, message: str = "", flush: bool = False) -> None:
        """Record so many decisions; with a message they are failures."""
        for _ in range(decisions):
            self.made += 1
            pod = make_pod(f"pod-{self.made}", cpu="100" if message else "10m")
            self.decide(pod, message)
            if flush:
                self.ledger.recorder.flush()

    def decide(self, pod: Pod, message: str = "") -> None:
        """Record a decision."""
        recorder = self.ledger.recorder
        decision = self.cycle.choose(self.profile, pod)
        if isinstance(decision, Bind) and not message:
            self.state.assume(pod, decision.node_name)
            recorder.scheduled(pod, self.profile, decision.node_name, 1, 0.0)
            return
        failure, _ = self.cycle.attempt(self.profile, pod)
        assert not isinstance(failure, Bind)
        setback = setback_of(failure)._replace(message=message)
        recorder.failed(pod, self.profile, setback, 1, 0.0)


def written(directory: Path, decisions: int = 5, chunks: int = 1) -> bytes:
    """The bytes of a file with so many chunks of so many decisions each."""
    ledger = Ledger(2**24, directory)
    maker = Maker(ledger)
    for _ in range(chunks):
        maker.make(decisions)
        ledger.recorder.flush()
    ledger.close()
    [path] = directory.iterdir()
    return path.read_bytes()
