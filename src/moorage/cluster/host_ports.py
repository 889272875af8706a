"""Host ports in use. Every node's set differs, so the index is inverted: port -> rows.

As upstream keeps it this is a set, not a count: when one of two pods with the same port leaves a
node, the port is free there. No kubelet runs such a pair, but decisions must not differ.
"""

from collections.abc import Iterable, Sequence

from moorage.model.pod import HostPort, Pod

ANY_ADDRESS = "0.0.0.0"


def conflict(wanted: str, used: Iterable[str]) -> bool:
    """Does an address collide with addresses in use on the same port and protocol?"""
    return any(wanted == ANY_ADDRESS or ip in (ANY_ADDRESS, wanted) for ip in used)


def addresses_of(pods: Iterable[Pod], port: HostPort) -> set[str]:
    """The addresses on which pods use a port."""
    return {
        used.ip
        for pod in pods
        for used in pod.host_ports
        if (used.protocol, used.port) == (port.protocol, port.port)
    }


class HostPorts:
    """(protocol, port) -> row -> addresses in use."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[int, set[str]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod took ports on a row."""
        for port in ports:
            rows = self._used.setdefault((port.protocol, port.port), {})
            rows.setdefault(row, set()).add(port.ip)

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod gave ports back."""
        for port in ports:
            key = (port.protocol, port.port)
            rows = self._used.get(key, {})
            addresses = rows.get(row, set())
            addresses.discard(port.ip)
            if not addresses:
                rows.pop(row, None)
            if not rows:
                self._used.pop(key, None)

    def move_row(self, old: int, new: int) -> None:
        """The node of row `old` now stands in row `new`."""
        for rows in self._used.values():
            if old in rows:
                rows[new] = rows.pop(old)

    def addresses(self, row: int, port: HostPort) -> set[str]:
        """The addresses on which a port is in use on a row."""
        return self._used.get((port.protocol, port.port), {}).get(row, set())

    def conflicting_rows(
        self, ports: Iterable[HostPort], among: Sequence[int] | None = None
    ) -> set[int]:
        """The rows on which at least one of the ports is taken; `among`: only these matter."""
        taken: set[int] = set()
        for port in ports:
            used = self._used.get((port.protocol, port.port), {})
            # All nodes may use the port, and most attempts ask about the one that changed.
            rows = used if among is None or len(among) >= len(used) else among
            for row in rows:
                if row in used and row not in taken and conflict(port.ip, used[row]):
                    taken.add(row)
        return taken
