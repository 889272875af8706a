"""The scheduler process beside the embedded API server: start, serve, elect, reload, end."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from moorage.apiserver.server import ApiServer
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.requests import MERGE
from moorage.kube.resources import resource_for

SECONDS = 120
SOURCE = Path(__file__).parents[2] / "src"
OPEN = (
    "--authorization-always-allow-paths="
    "/healthz,/livez,/readyz,/configz,/metrics,/shadow,/explain/v1/*"
)
LEASE = ("kube-system", "kube-scheduler")


class Started:
    """A scheduler process whose log can be awaited."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"https://127.0.0.1:{port}"
        self.said: list[str] = []

    async def says(self, text: str) -> str:
        """Read the log until a line has this text; the line."""
        assert self.process.stderr is not None
        while line := (await self.process.stderr.readline()).decode():
            self.said.append(line)
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}:\n{''.join(self.said[-20:])}")

    async def ended(self) -> int:
        """Wait until it has ended; the exit code."""
        assert self.process.stderr is not None
        self.said.append((await self.process.stderr.read()).decode())
        return await self.process.wait()

    async def told(self, number: signal.Signals) -> int:
        """Send a signal that ends it; the exit code."""
        self.process.send_signal(number)
        return await self.ended()

    async def get(self, path: str) -> str:
        """What a page shows to anybody."""
        connector = aiohttp.TCPConnector(ssl=False)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(self.url + path) as answer,
        ):
            assert answer.status == 200, path
            return await answer.text()


class Stage:
    """An API server, a client of it, and a folder for files."""

    def __init__(self, server: ApiServer, client: KubeClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.file = folder / "config.yaml"
        server.write_kubeconfig(self.kubeconfig)

    @asynccontextmanager
    async def scheduler(self, *flags: str) -> AsyncIterator[Started]:
        """Start a scheduler with a configuration file."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [f"--config={self.file}", "--bind-address=127.0.0.1", OPEN, "--v=2", *flags]
        words.append(f"--authentication-kubeconfig={self.kubeconfig}")
        words.append(f"--authorization-kubeconfig={self.kubeconfig}")
        if not any(flag.startswith("--secure-port") for flag in flags):
            words.append(f"--secure-port={port}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "moorage.cli.scheduler", *words),
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            limit=1 << 20,
        )
        try:
            yield Started(process, port)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def write(self, **fields: Any) -> None:
        """Write the configuration file."""
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            **fields,
        }
        self.file.write_text(yaml.safe_dump(document))

    async def create(self, kind: str, namespace: str, **fields: Any) -> None:
        """Create an object of the core API."""
        body = {"apiVersion": "v1", "kind": kind, **fields}
        await self.client.create(resource_for(kind), namespace, body)

    async def bound(self, name: str) -> None:
        """Create a node and a pod, and wait until the pod is there."""
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        status = {"allocatable": amounts, "capacity": amounts}
        await self.create("Node", "", metadata={"name": name}, status=status)
        containers = [{"name": "main", "image": "pause"}]
        await self.create(
            "Pod", "default", metadata={"name": name}, spec={"containers": containers}
        )
        await self.is_bound(name)

    async def is_bound(self, name: str) -> None:
        """Wait until a pod has a node."""
        while not (await self._pod(name))["spec"].get("nodeName"):
            await asyncio.sleep(0.02)

    async def _pod(self, name: str) -> Any:
        return await self.client.get(resource_for("Pod"), "default", name)

    async def lease(self) -> Any:
        """The Lease of the election."""
        return await self.client.get(resource_for("Lease"), *LEASE)


def run(folder: Path, test: Callable[[Stage], Awaitable[None]]) -> None:
    async def bounded() -> None:
        server = ApiServer(seed=7)
        await server.start()
        access = Access(server=server.url, source="test")
        try:
            async with asyncio.timeout(SECONDS), KubeClient(access) as client:
                await test(Stage(server, client, folder))
        finally:
            await server.stop()

    asyncio.run(bounded())


def test_it_starts_elects_serves_reloads_and_gives_the_lease_back(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.write()
        async with stage.scheduler() as started:
            await started.says("Successfully acquired lease")
            await stage.bound("first")
            assert await started.get("/readyz") == "ok"
            assert 'leader_election_master_status{name="kube-scheduler"} 1' in await started.get(
                "/metrics"
            )

            stage.write(percentageOfNodesToScore=101)
            started.process.send_signal(signal.SIGHUP)
            refused = await started.says("The configuration was not reloaded")
            assert "percentageOfNodesToScore: Invalid value: 101" in refused
            assert await _share(started) == 0
            stage.write(percentageOfNodesToScore=50)
            started.process.send_signal(signal.SIGHUP)
            await started.says("Reloaded the configuration")
            assert await _share(started) == 50
            await stage.bound("second")

            assert await started.told(signal.SIGTERM) == 0
        assert "Requested to terminate, exiting" in started.said[-1]
        assert (await stage.lease())["spec"]["holderIdentity"] == ""

    run(tmp_path, test)


async def _share(started: Started) -> int:
    config = json.loads(await started.get("/configz"))["componentconfig"]
    return int(config["percentageOfNodesToScore"])


def test_without_an_election_the_end_is_a_failure_but_not_for_a_shadow(tmp_path: Path) -> None:
    async def alone(stage: Stage) -> None:
        async with stage.scheduler("--leader-elect=false") as started:
            await started.says("scheduling for")
            assert await started.told(signal.SIGTERM) == 1
        assert 'err="finished without leader elect"' in started.said[-1]

    async def shadow(stage: Stage) -> None:
        async with stage.scheduler("--shadow") as started:
            await started.says("shadow: agreement nothing to compare yet of 0 decisions")
            await started.says("scheduling for")
            report = json.loads(await started.get("/shadow"))
            assert report["decisions"] == 0
            assert await started.told(signal.SIGINT) == 0

    async def test(stage: Stage) -> None:
        stage.write()
        await asyncio.gather(alone(stage), shadow(stage))

    run(tmp_path, test)


def test_a_leader_that_loses_the_lease_ends_with_1_and_a_standby_that_goes_with_0(
    tmp_path: Path,
) -> None:
    async def test(stage: Stage) -> None:
        stage.write(
            leaderElection={"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"}
        )
        async with stage.scheduler() as leader:
            await leader.says("Successfully acquired lease")
            async with stage.scheduler() as standby:
                await standby.says("New leader elected")
                assert await standby.told(signal.SIGTERM) == 0

            stolen = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}}
            await stage.client.patch(resource_for("Lease"), *LEASE, stolen, content_type=MERGE)
            assert await leader.ended() == 1
            assert "Leaderelection lost" in leader.said[-1]
        assert (await stage.lease())["spec"]["holderIdentity"] == "thief"

    run(tmp_path, test)


def test_a_port_that_is_taken_ends_it_before_it_has_begun(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.write()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            async with stage.scheduler(f"--secure-port={port}") as started:
                told = await started.says("command failed")
                assert f"failed to listen on 127.0.0.1:{port}" in told
                assert await started.ended() == 1

    run(tmp_path, test)
