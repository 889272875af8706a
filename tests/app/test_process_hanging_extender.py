"""A scheduler process whose extender does not answer: it lives, leads, and ends when told to."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from app.test_process import Stage, Started, run
from kube.answering import Answering

ELECTION = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
POD = {"containers": [{"name": "main", "image": "pause"}]}


class Silence(Answering):
    """An extender that hears every question and answers none."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("never answered")


@asynccontextmanager
async def _waiting(stage: Stage, **verbs: str) -> AsyncIterator[Started]:
    """A scheduler that waits for extenders, which have time for an hour."""
    extender = Silence()
    async with extender.served():
        asked = {"nodeCacheCapable": True, "httpTimeout": "1h", "weight": 1}
        extenders = [
            {"urlPrefix": extender.url, **asked, **verbs},
            {"urlPrefix": f"{extender.url}/second", **asked, **verbs},
        ]
        stage.write(leaderElection=ELECTION, extenders=extenders)
        async with stage.scheduler() as started:
            await started.says("Successfully acquired lease")
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
            status = {"allocatable": amounts, "capacity": amounts}
            for name in ("n1", "n2"):
                await stage.create("Node", "", metadata={"name": name}, status=status)
            await stage.create("Pod", "default", metadata={"name": "pod"}, spec=POD)
            await extender.asked.wait()
            yield started


def test_it_is_healthy_and_keeps_its_lease(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        async with _waiting(stage, filterVerb="filter") as started:
            renewed = set[str]()
            # Longer than the lease, so that one that was not renewed would be lost.
            while len(renewed) < 10:
                known = len(renewed)
                renewed.add((await stage.lease())["spec"]["renewTime"])
                if len(renewed) == known:
                    await asyncio.sleep(0.02)
                    continue
                for page in ("/healthz", "/livez", "/readyz"):
                    assert await started.get(page) == "ok"
            metrics = await started.get("/metrics")
            assert 'leader_election_master_status{name="kube-scheduler"} 1' in metrics
            assert started.process.returncode is None

    run(tmp_path, test)


# Not "bindVerb": a binding under way is given its ten seconds.
@pytest.mark.parametrize("verb", ["filterVerb", "prioritizeVerb"])
def test_it_ends_without_the_answer_and_gives_the_lease_back(tmp_path: Path, verb: str) -> None:
    async def test(stage: Stage) -> None:
        async with _waiting(stage, **{verb: "ask"}) as started:
            assert await started.told(signal.SIGTERM) == 0
        assert "Requested to terminate, exiting" in started.said[-1]
        assert (await stage.lease())["spec"]["holderIdentity"] == ""

    run(tmp_path, test)
