"""Host ports that are taken: another port, none at all, or the pod that holds it."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.host_ports import conflict
from moorage.cluster.view import NodeView
from moorage.explain.fixes.changes import (
    FREE_PORT,
    Change,
    Operation,
    add,
    containers_of,
    named,
    relaxed,
    remove,
    subsets,
)
from moorage.explain.fixes.other_pods import moved
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.survey import Survey
from moorage.model.pod import HostPort, Pod

PORTS = "NodePorts"
_MOST_TRIED = 100
_MOST_ROWS = 200
_MOST_FREED = 2
_LAST_PORT = 65535


class PortPlace(msgspec.Struct, frozen=True):
    """Where a pod's spec asks for a host port."""

    steps: tuple[str | int, ...]
    container: str
    port: HostPort

    @property
    def text(self) -> str:
        """As people say it."""
        address = "" if self.port.ip == "0.0.0.0" else f" on {self.port.ip}"
        return f"host port {self.port.port}/{self.port.protocol}{address}"


def use_other_ports(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Other ports for those that are taken: one of them, or all together."""
    nodes = survey.nodes
    taken = [place for place in _places(pod) if (rows & nodes.with_taken_ports([place.port])).any()]
    for places in subsets(taken):
        used = set(pod.host_ports)
        operations: list[Operation] = []
        texts = []
        for place in places:
            other = _free_port(nodes, place.port, used, rows)
            if other is None:
                break
            used.add(other)
            operations.append(add(other.port, *place.steps, "hostPort"))
            if pod.spec.host_network:  # then the two must be the same
                operations.append(add(other.port, *place.steps, "containerPort"))
            texts.append(f"{place.text} of container {place.container}, such as {other.port}")
        else:
            text = f"use another port than {' and than '.join(texts)}"
            yield relaxed(text, 0.4 + 0.5 * len(places), PORTS, *operations)
        if not pod.spec.host_network:
            drops = (remove(*place.steps, "hostPort") for place in places)
            text = f"do without {' and '.join(place.text for place in places)}"
            yield relaxed(text, 0.8 + 0.5 * len(places), PORTS, *drops)


def free_ports(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Move the pods that hold the ports, from the node where they are fewest and least dear."""
    nodes = survey.nodes
    found: list[tuple[int, int, str, list[Pod]]] = []
    wanted = pod.host_ports
    for row in np.flatnonzero(rows & nodes.with_taken_ports(wanted))[:_MOST_ROWS]:
        holders = [other for other in nodes.pods_on(int(row)) if _collide(wanted, other)]
        if holders:
            highest = max(other.priority for other in holders)
            found.append((len(holders), highest, nodes.node(int(row)).name, holders))
    for _, _, _, holders in sorted(found, key=lambda one: one[:3])[:_MOST_FREED]:
        ports = {p.port for other in holders for p in other.host_ports if _collides(wanted, p)}
        taken = named("host port", [str(port) for port in sorted(ports)])
        verb = "holds" if len(holders) == 1 else "hold"
        yield moved(holders, f"which {verb} {taken}", PORTS, FREE_PORT)


def _places(pod: Pod) -> list[PortPlace]:
    found = []
    for steps, container in containers_of(pod):
        if steps[1] == "initContainers" and not container.is_sidecar:
            continue
        for i, port in enumerate(container.ports):
            if port.host_port > 0:
                address = port.host_ip or "0.0.0.0"
                host_port = HostPort(port.protocol or "TCP", port.host_port, address)
                found.append(PortPlace((*steps, "ports", i), container.name, host_port))
    return found


def _free_port(
    nodes: NodeView, port: HostPort, used: set[HostPort], rows: Bools
) -> HostPort | None:
    """The next port that is free on some row."""
    numbers = {other.port for other in used}
    for number in range(port.port + 1, min(port.port + _MOST_TRIED, _LAST_PORT) + 1):
        other = msgspec.structs.replace(port, port=number)
        if number not in numbers and (rows & ~nodes.with_taken_ports([other])).any():
            return other
    return None


def _collide(wanted: Sequence[HostPort], other: Pod) -> bool:
    return any(_collides(wanted, port) for port in other.host_ports)


def _collides(wanted: Sequence[HostPort], port: HostPort) -> bool:
    return any(
        (own.protocol, own.port) == (port.protocol, port.port) and conflict(own.ip, [port.ip])
        for own in wanted
    )
