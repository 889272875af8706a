"""What the nodes of a simulation cost, and how many there are.

A node's price per hour is an annotation, so whatever changes it changes the cost from then on.
"""

from moorage.controllers.objects import Json, annotations, meta
from moorage.scenarios.simulation import Simulation

PRICE = "moorage.io/price-per-hour"
_HOUR = 3600.0


class Prices:
    """Follows a simulation's nodes."""

    def __init__(self, run: Simulation) -> None:
        self._run = run
        self._paid: dict[str, float] = {}
        """What each node costs per hour that has to be paid now."""
        self._since = 0.0
        self._cost, self._node_seconds, self._peak = 0.0, 0.0, 0
        self._priced = False
        run.api.followers.append(self._changed)

    def ordered(self, node: Json) -> None:
        """A node is paid for from now on, although it is not there yet."""
        self._settle()
        price = float(annotations(node).get(PRICE, 0))
        self._priced |= price > 0
        self._paid[meta(node)["name"]] = price
        self._peak = max(self._peak, len(self._paid))

    def result(self) -> Json:
        """The sum of prices times hours (none where nothing has a price), and counts of nodes."""
        self._settle()
        mean = self._node_seconds / self._since if self._since else float(len(self._paid))
        return {
            "cost": round(self._cost, 6) if self._priced else None,
            "nodes": {"mean": round(mean, 6), "peak": self._peak, "end": len(self._paid)},
        }

    def _changed(self, before: Json | None, after: Json | None) -> None:
        node = after or before or {}
        if node["kind"] != "Node":
            return
        if after is not None:
            self.ordered(after)
        else:
            self._settle()
            del self._paid[meta(node)["name"]]

    def _settle(self) -> None:
        passed = self._run.elapsed - self._since
        self._since = self._run.elapsed
        self._cost += sum(self._paid.values()) * passed / _HOUR
        self._node_seconds += len(self._paid) * passed
