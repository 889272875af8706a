"""How long a scheduler takes to its first decision in a large cluster, and how much memory."""

import asyncio
import sys
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from e2e.client import wait_for
from e2e.embedded import embedded_server
from moorage.controlplane.processes import ChildProcess
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient
from moorage.kube.resources import resource_for

NODES, BOUND_PODS = 5_000, 20_000
MOST_SECONDS, MOST_MIB = 10.0, 1024.0
_AT_ONCE = 32
_AMOUNTS = {"cpu": "32", "memory": "256Gi", "pods": "110"}
_REQUESTS = {"requests": {"cpu": "100m", "memory": "500Mi"}}


def _node(index: int) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": f"n{index}",
        "topology.kubernetes.io/zone": f"z{index % 10}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{index}", "labels": labels},
        "status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS},
    }


def _pod(name: str, node_name: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": _REQUESTS}
    spec = {"containers": [container], **({"nodeName": node_name} if node_name else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def _all(works: Iterable[Coroutine[Any, Any, Any]]) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(work: Coroutine[Any, Any, Any]) -> None:
        async with gate:
            await work

    await asyncio.gather(*map(one, works))


async def _fill(kubeconfig: Path) -> None:
    access = user_access(str(kubeconfig))
    async with KubeClient(access, qps=1e6, burst=10**6, max_connections=_AT_ONCE) as client:
        nodes, pods = resource_for("Node"), resource_for("Pod")
        await _all(client.create(nodes, "", _node(index)) for index in range(NODES))
        await _all(
            client.create(pods, "default", _pod(f"p{index}", f"n{index % NODES}"))
            for index in range(BOUND_PODS)
        )
        await client.create(pods, "default", _pod("first"))


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def test_the_first_decision_in_a_large_cluster_comes_soon(tmp_path: Path) -> None:
    with embedded_server(tmp_path) as server:
        asyncio.run(_fill(server.scheduler_kubeconfig))
        command = [sys.executable, "-m", "moorage", "scheduler", "--leader-elect=false"]
        command.append(f"--kubeconfig={server.scheduler_kubeconfig}")
        started = time.monotonic()
        scheduler = ChildProcess("moorage", command, tmp_path / "scheduler.log")
        try:

            async def node_of_first() -> str:
                async with KubeClient(user_access(str(server.scheduler_kubeconfig))) as client:
                    pod = await client.get(resource_for("Pod"), "default", "first")
                    return str(pod["spec"].get("nodeName", ""))

            wait_for("the first decision", lambda: asyncio.run(node_of_first()), 60)
            seconds = time.monotonic() - started
            mib = _peak_mib(scheduler.pid)
        finally:
            scheduler.stop()
    assert seconds <= MOST_SECONDS
    assert mib <= MOST_MIB
