"""Thousands of connections to a leader with 1,024 descriptors: it goes on as if there were none."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connections.load import running_load
from e2e.client import Api, wait_for
from e2e.cluster import ControlPlane, empty
from e2e.instance import Instance, instance, let_read
from e2e.objects import node, pod
from e2e.schedulers import MOORAGE, Scheduler

_NAMESPACE = "connections"
_MIB = 1 << 20
_GROWTH = 50 * _MIB
_AFTERWARDS = 30 * _MIB
_FLAGS = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)


class Watcher:
    """Looks at a leader all the time: memory, bindings, /livez, and the Lease."""

    def __init__(self, server: ControlPlane, leader: Instance) -> None:
        self.memory: list[int] = []
        self.bindings: list[float] = []
        self.renewals: set[str] = set()
        self._pods = 0
        self._server = server
        self._leader = leader
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def rounds(self, count: int) -> None:
        """Wait until it has looked so many times more."""
        wanted = len(self.bindings) + count
        wait_for("rounds", lambda: len(self.bindings) >= wanted or self._failure, 90.0)
        self.check()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)
        self.check()

    def _run(self) -> None:
        try:
            with closing(Api(self._server.admin)) as api:
                while not self._over.is_set():
                    self._look(api)
        except BaseException as failure:
            self._failure = failure

    def _look(self, api: Api) -> None:
        assert self._leader.ask("/livez").status == 200
        self.memory.append(_rss(self._leader))
        self._pods += 1
        name = f"p{self._pods}"
        began = time.monotonic()
        api.create({**pod(name), "metadata": {"name": name, "namespace": _NAMESPACE}})
        wait_for(
            f"{name} to be bound",
            lambda: api.get("Pod", name, _NAMESPACE)["spec"].get("nodeName"),
            pause=0.02,
        )
        self.bindings.append(time.monotonic() - began)
        lease = api.get("Lease", "kube-scheduler", "kube-system")["spec"]
        self.renewals.add(lease["renewTime"])
        assert lease["leaseTransitions"] == 0, "the lease was lost"


@pytest.fixture
def leader(
    server: ControlPlane, scheduler: Callable[[str], Scheduler]
) -> Iterator[tuple[Instance, Watcher]]:
    limited = Scheduler(
        MOORAGE, ("sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", *scheduler(MOORAGE).command)
    )
    let_read(server)
    with closing(Api(server.admin)) as api:
        empty(api)
        api.delete("Lease", "kube-scheduler", "kube-system")
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
        api.create(node("n1", cpu="1000", memory="1000Gi", pods="10000"))
        with instance(limited, server, "connections", *_FLAGS) as running:
            running.wait("leadership", running.leads)
            watcher = Watcher(server, running)
            try:
                yield running, watcher
            finally:
                watcher.stop()
        empty(api)
        api.delete("Lease", "kube-scheduler", "kube-system")


def test_a_leader_goes_on_whatever_connections_are_opened_to_it(
    server: ControlPlane, leader: tuple[Instance, Watcher]
) -> None:
    running, watcher = leader
    watcher.rounds(20)
    before, usual = _rss(running), max(watcher.bindings)
    figures = [f"before {before / _MIB:.0f} MiB, binding {usual:.2f} s"]
    for count, kind, security in (
        (5000, "closed", "plain"),
        (1000, "closed", "tls"),
        (2000, "garbage", "plain"),
        (2000, "idle", "plain"),
        (2000, "idle", "tls"),
    ):
        watcher.memory.clear()
        watcher.bindings.clear()
        watcher.renewals.clear()
        began = time.monotonic()
        with running_load(running.port, count, kind, security):
            watcher.rounds(20)
        wait_for("the lease to be renewed", lambda: len(watcher.renewals) > 1)
        watcher.check()
        figures.append(
            f"{count} {kind} {security}: {time.monotonic() - began:.1f} s,"
            f" up to {(max(watcher.memory) - before) / _MIB:+.0f} MiB,"
            f" binding {max(watcher.bindings):.2f} s"
        )
        assert max(watcher.memory) - before < _GROWTH, figures
        # What this machine takes at any time is not the connections' doing.
        assert max(watcher.bindings) < 1.0 + usual, figures
    wait_for("memory to be given back", lambda: _rss(running) - before < _AFTERWARDS)
    size = running.process.log.stat().st_size
    figures.append(f"after {(_rss(running) - before) / _MIB:+.0f} MiB, log {size / 1024:.0f} KiB")
    (server.folder / "connections.txt").write_text("\n".join(figures))
    assert size < _MIB, figures


def _rss(running: Instance) -> int:
    for line in Path(f"/proc/{running.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such line")
