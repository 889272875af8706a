"""A middling cluster and bursts of alike pods, with a little of everything, by a seed."""

from random import Random

import msgspec

from framework.building import make_cycle, make_profile, make_state
from ledger.recorded import Expected, decide
from moorage.engine.decisions import Bind
from moorage.ledger import Ledger
from moorage.model.affinity import Affinity
from moorage.model.node import Node
from moorage.model.pod import Pod, TopologySpreadConstraint
from moorage.model.taints import Taint
from reference.objects import (
    HOSTNAME,
    ZONE,
    away,
    host_port,
    make_node,
    make_pod,
    node_affinity,
    node_term,
    pod_term,
    pod_terms,
    selector,
)

NODES = 130


class Burst:
    """A cluster whose decisions are recorded, and what they are expected to say."""

    def __init__(self, seed: int, ledger: Ledger) -> None:
        self.random = Random(seed)
        self.ledger = ledger
        self.nodes = [self._node(index) for index in range(NODES)]
        self.state = make_state(self.nodes)
        self.cycle = make_cycle(self.state)
        self.cycle.record(ledger.recorder)
        self.profile = make_profile(self.state)
        self.few = make_profile(self.state, percentage=80)
        self.expected: list[Expected] = []
        self.placed: list[Pod] = []
        self.kinds = _kinds()

    def _node(self, index: int) -> Node:
        random = self.random
        taints = [Taint(key="spot", effect="PreferNoSchedule")] if random.random() < 0.3 else []
        if random.random() < 0.1:
            taints.append(Taint(key="gpu", effect="NoSchedule"))
        return make_node(
            f"node-{index}",
            zone=f"zone-{index % 4}",
            labels={HOSTNAME: f"node-{index}", "disk": random.choice(("ssd", "hdd"))},
            taints=taints,
            unschedulable=random.random() < 0.05,
            images={"web:v1": 300 * 2**20} if index % 3 else {},
            cpu=random.choice(("2", "4", "8")),
        )

    def run(self, decisions: int) -> None:
        """Decide so often, with events in between."""
        for number in range(decisions):
            body = self.random.choice(self.kinds)
            pod = msgspec.structs.replace(
                body,
                metadata=msgspec.structs.replace(
                    body.metadata, name=f"pod-{number}", uid=f"uid-{number}"
                ),
            )
            self.decide(pod)
            if self.random.random() < 0.15:
                self.event()

    def decide(self, pod: Pod) -> None:
        """Decide about a pod on a random path, and place it."""
        plain = make_cycle(self.state, reuse=False)
        profile = self.few if self.random.random() < 0.1 else self.profile
        fast_lane = self.cycle.fast_lane
        if self.random.random() < 0.2:
            self.cycle.fast_lane = None
        told, decision = decide(self.ledger, self.cycle, plain, profile, pod)
        self.cycle.fast_lane = fast_lane
        self.expected.append(told)
        if isinstance(decision, Bind):
            self.state.assume(pod, decision.node_name)
            self.placed.append(pod)

    def event(self) -> None:
        """Something happens."""
        random = self.random
        match random.randrange(6):
            case 0:
                if self.placed:
                    self.state.forget(self.placed.pop(random.randrange(len(self.placed))))
            case 1:
                index = random.randrange(NODES)
                self.state.add_node(self._node(index))
            case 2:
                self.state.remove_node(random.choice(self.state.nodes.nodes).name)
            case 3:
                for index in random.sample(range(NODES), 25):
                    if f"node-{index}" in self.state.nodes.row_of:
                        self.state.add_node(self._node(index))
            case 4:
                self.ledger.recorder.complete()
            case _:
                self.ledger.recorder.flush()


def _kinds() -> list[Pod]:
    web = selector({"app": "web"})
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway", label_selector=web
    )
    hard = msgspec.structs.replace(spread, when_unsatisfiable="DoNotSchedule")
    wish = (7, node_term(("disk", "In", ["ssd"])))
    labels = {"app": "web"}
    return [
        make_pod("plain", cpu="100m", memory="64Mi"),
        make_pod("large", cpu="1500m"),
        make_pod("huge", cpu="64"),
        make_pod(
            "wishes",
            cpu="200m",
            image="web:v1",
            affinity=Affinity(node_affinity=node_affinity(preferred=[wish])),
        ),
        make_pod("spread", labels=labels, cpu="100m", spread=[spread]),
        make_pod("hard", labels=labels, cpu="100m", spread=[hard]),
        make_pod(
            "alone",
            labels={"app": "alone"},
            affinity=away(pod_term(HOSTNAME, selector({"app": "alone"}))),
        ),
        make_pod(
            "friends",
            labels=labels,
            affinity=Affinity(pod_affinity=pod_terms(preferred=[(10, pod_term(ZONE, web))])),
        ),
        make_pod("port", ports=[host_port(8080)], node_selector={"disk": "hdd"}),
        make_pod("bound", node_selector={HOSTNAME: "node-3"}),
    ]
