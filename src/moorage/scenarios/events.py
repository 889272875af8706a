"""What befalls the nodes of a simulation: failures, drains, upgrades, spot nodes, prices.

Which nodes are meant is looked up when it happens; chance comes from the seed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from moorage.apiserver.selection import parse_labels
from moorage.controllers.cluster import Key
from moorage.controllers.objects import Json, labels, meta, spec
from moorage.scenarios.node_groups import GROUP, ScalingGroup
from moorage.scenarios.prices import PRICE
from moorage.scenarios.scenario import ScenarioEvent
from moorage.scenarios.scenario_file import ScenarioFile, parse_taint
from moorage.scenarios.simulation import Simulation

_LOOK_SECONDS = 1.0
"""How often an upgrade looks whether a node is empty."""


class NodeEvents:
    """The events of a scenario."""

    def __init__(
        self, run: Simulation, file: ScenarioFile, groups: Sequence[ScalingGroup], seed: int
    ) -> None:
        self._run, self._file, self._groups, self._seed = run, file, groups, seed
        self._lost: dict[str, Json] = {}
        """Nodes that are gone and may come back, as they were."""

    def plan(self) -> None:
        """Let everything happen at its time."""
        for number, event in enumerate(self._file.scenario.events):
            at = self._file.seconds(event.at, f"events[{number}].at")
            self._run.plan(at, partial(self._happen, number, event))

    def _happen(self, number: int, event: ScenarioEvent) -> None:
        names = self._meant(number, event)
        acts: Mapping[str, Callable[[str], None]] = {
            "fail": self._lose,
            "repair": self._return,
            "drain": self._run.drain,
            "cordon": self._run.cordon,
            "uncordon": partial(self._run.cordon, on=False),
            "taint": partial(self._taint, event, on=True),
            "untaint": partial(self._taint, event, on=False),
            "reclaim": partial(self._reclaim, event, number),
            "price": partial(self._change_price, event),
        }
        if event.what == "upgrade":
            self._upgrade(event, number, names)
            return
        for name in names:
            acts[event.what](name)
        if event.what == "price":
            for group in self._groups:
                if group.name == event.group:
                    group.change_price(str(event.price))

    def _meant(self, number: int, event: ScenarioEvent) -> list[str]:
        """The names of the nodes among those that are there; for a repair, those that are not."""
        there = {meta(node)["name"]: node for node in self._run.api.cluster.all("Node")}
        among = self._lost if event.what == "repair" else there
        if event.node:
            if event.node not in among:
                state = "that has failed by then" if among is self._lost else "that is there then"
                self._file.refuse(
                    f"events[{number}].node", f"expected a node {state}, got {event.node}"
                )
            return [event.node]
        selector = parse_labels(event.selector)
        names = sorted(
            name
            for name, node in among.items()
            if selector.matches(labels(node)) and event.group in ("", labels(node).get(GROUP))
        )
        if event.count is None or event.count >= len(names):
            return names
        return sorted(Random(f"{self._seed}/event/{number}").sample(names, event.count))

    # ---- nodes that go and come back ----

    def _lose(self, name: str) -> None:
        node = self._run.api.cluster.get("Node", "", name)
        if node is not None:
            self._lost[name] = _as_new(node)
            self._run.fail(name)

    def _return(self, name: str) -> None:
        node = self._lost.pop(name, None)
        if node is not None and self._run.api.cluster.get("Node", "", name) is None:
            self._run.come(node)

    def _reclaim(self, event: ScenarioEvent, number: int, name: str) -> None:
        self._run.drain(name)
        notice = self._file.seconds(event.notice, f"events[{number}].notice")
        self._run.plan(self._run.elapsed + notice, partial(self._lose, name))

    def _upgrade(self, event: ScenarioEvent, number: int, names: list[str]) -> None:
        gone = self._file.seconds(event.gone, f"events[{number}].gone")
        waiting = list(reversed(names))
        for _ in range(event.at_once):
            self._upgrade_next(waiting, gone)

    def _upgrade_next(self, waiting: list[str], gone: float) -> None:
        """Drain the next node that is still there."""
        while waiting:
            name = waiting.pop()
            if self._run.api.cluster.get("Node", "", name) is not None:
                self._run.drain(name)
                self._exchange(name, waiting, gone)
                return

    def _exchange(self, name: str, waiting: list[str], gone: float) -> None:
        """Take a node away as soon as it is empty, and go on with another when it is back."""
        now, pods = self._run.elapsed, self._run.api.cluster.on_node(name)
        if any(meta(pod).get("deletionTimestamp") for pod in pods):
            self._run.plan(now + _LOOK_SECONDS, partial(self._exchange, name, waiting, gone))
            return
        self._lose(name)
        self._run.plan(now + gone, partial(self._come_upgraded, name, waiting, gone))

    def _come_upgraded(self, name: str, waiting: list[str], gone: float) -> None:
        self._return(name)
        self._upgrade_next(waiting, gone)

    # ---- changes of a node ----

    def _taint(self, event: ScenarioEvent, name: str, *, on: bool) -> None:
        self._run.taint(name, parse_taint(event.taint), on=on)

    def _change_price(self, event: ScenarioEvent, name: str) -> None:
        changes = {"metadata": {"annotations": {PRICE: str(event.price)}}}
        self._run.api.patch(Key("Node", "", name), changes)


def _as_new(node: Json) -> Json:
    """A node as it was made: neither cordoned, nor with anything that is known of a running one."""
    kept = {name: meta(node).get(name) or {} for name in ("labels", "annotations")}
    given = {name: value for name, value in spec(node).items() if name != "unschedulable"}
    amounts = {name: node["status"].get(name, {}) for name in ("allocatable", "capacity")}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": meta(node)["name"], **kept},
        "spec": given,
        "status": amounts,
    }
