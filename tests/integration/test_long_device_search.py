"""Claims whose search for devices takes long: the loop goes on, and other pods are bound."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from integration.stage import Json, LiveStage, at_work, run_bounded, until

DRIVER = "gpu.example.com"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
RESOURCE = "resource.k8s.io/v1"
HOPELESS: list[Json] = [{"count": 10}, {"selectors": ["false"]}]
"""Millions of ways to choose the first ten devices, none of which helps the second request."""
COSTLY: list[Json] = [
    {"selectors": ["lists.range(480).all(a,lists.range(480).all(b,device.driver!=''))"]}
]
"""Just below the limit on costs, for each of many different devices."""
BACKTRACKING: list[Json] = [
    {"selectors": [f"device.attributes['{DRIVER}'].text.matches('(a+)+$') && false"]},
]


class Stage(LiveStage):
    """With devices, and a claim for them."""

    async def begin(self, requests: list[Json]) -> None:
        """A node with devices, and a pod with a claim that is hard to satisfy."""
        await self.begin_with("n1")
        devices = [
            {"name": f"d{i}", "attributes": {"text": {"string": f"{'a' * 50}!{i}"}}}
            for i in range(60)
        ]
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}
        await self.create("ResourceSlice", "s1", version=RESOURCE, spec=spec)
        await self.create("DeviceClass", "gpu", version=RESOURCE, spec={})
        asked = [
            {"name": f"r{i}", "exactly": _exactly(**request)} for i, request in enumerate(requests)
        ]
        claim = {"devices": {"requests": asked}}
        await self.create("ResourceClaim", "hard", "default", RESOURCE, spec=claim)
        await self.create_pod("hostile", resourceClaims=[_CLAIM])


_CLAIM = {"name": "gpu", "resourceClaimName": "hard"}


def _exactly(count: int = 1, selectors: list[str] | None = None) -> Json:
    wanted = [{"cel": {"expression": expression}} for expression in selectors or ()]
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": wanted,
    }


def run(test: Callable[[Stage], Awaitable[None]]) -> None:
    async def work() -> None:
        async with at_work(lambda server: Stage(server, CONFIG)) as made:
            await test(made)

    run_bounded(work)


@pytest.mark.parametrize("requests", [HOPELESS, COSTLY, BACKTRACKING])
def test_ordinary_pods_are_bound_while_a_claim_is_hard_to_satisfy(requests: list[Json]) -> None:
    async def test(stage: Stage) -> None:
        await stage.begin(requests)
        for number in range(3):
            await stage.create_pod(f"ordinary{number}")
            await until(lambda number=number: bool(stage.node_of(f"ordinary{number}")))  # type: ignore[misc]
        assert not stage.node_of("hostile") or requests is COSTLY

    run(test)


def test_the_loop_goes_on_during_a_search_and_news_waits_for_its_end() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin(HOPELESS)
        await until(lambda: stage.live.informers.held)
        for _ in range(20):  # turns of the loop, all of them in the same search
            assert stage.live.informers.held
            await asyncio.sleep(0)
        known = set(stage.scheduler.state.nodes.row_of)
        await stage.create("Node", "n2", status={})
        assert set(stage.scheduler.state.nodes.row_of) == known or not stage.live.informers.held
        await until(lambda: "n2" in stage.scheduler.state.nodes.row_of)

    run(test)


def test_a_scheduler_that_is_told_to_stop_does_not_wait_for_a_search() -> None:
    async def test(stage: Stage) -> None:
        await stage.begin(HOPELESS)
        await until(lambda: stage.live.informers.held)
        stage.live.stop()
        await stage.work

    run(test)
