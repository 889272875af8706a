"""How many requests go out at once: more while that helps, fewer when the server suffers."""

import asyncio
from collections.abc import Iterable

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kube.fake_api import FakeApi, JumpingTimer, failure, run
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.request_limits import FIRST, AdaptiveLimit
from moorage.kube.requests import Request


def _rounds(limit: AdaptiveLimit, seconds: Iterable[float], *, full: bool = True) -> None:
    for took in seconds:
        for _ in range(limit.limit):
            limit.ended(took, full=full)


def test_full_rounds_that_go_well_raise_the_limit_up_to_the_most() -> None:
    limit = AdaptiveLimit(JumpingTimer(), 6, least=2, first=4)
    seen = []
    for _ in range(4):
        _rounds(limit, [0.005])
        seen.append(limit.limit)
    assert seen == [5, 6, 6, 6]


def test_a_limit_that_nobody_reaches_does_not_grow() -> None:
    limit = AdaptiveLimit(JumpingTimer(), 64, first=10)
    _rounds(limit, [0.005] * 20, full=False)
    assert limit.limit == 10


def test_requests_that_become_much_slower_lower_the_limit_step_by_step() -> None:
    limit = AdaptiveLimit(JumpingTimer(), 64, least=4, first=32)
    _rounds(limit, [0.005])
    before = limit.limit
    _rounds(limit, [0.5] * 6)
    assert 4 < limit.limit < before / 2
    _rounds(limit, [0.5] * 5)
    settled = limit.limit
    assert settled >= 4
    _rounds(limit, [0.005] * 40)
    assert limit.limit > settled


def test_slow_but_steady_requests_are_no_reason_to_send_fewer() -> None:
    limit = AdaptiveLimit(JumpingTimer(), 64, first=8)
    _rounds(limit, [0.3] * 10)
    assert limit.limit == 18


def test_a_server_that_has_become_slower_for_good_is_believed_in_the_end() -> None:
    limit = AdaptiveLimit(JumpingTimer(), 64, least=4, first=16)
    _rounds(limit, [0.01] * 3)
    _rounds(limit, [0.1] * 30)
    low = limit.limit
    _rounds(limit, [0.1] * 200)
    assert limit.limit > low


def test_a_refusal_halves_the_limit_once_a_second() -> None:
    timer = JumpingTimer()
    limit = AdaptiveLimit(timer, 64, least=4, first=64)
    for _ in range(20):
        limit.overloaded()
    assert limit.limit == 32
    timer.time += 1.0
    limit.overloaded()
    assert limit.limit == 16
    for _ in range(5):
        timer.time += 1.0
        limit.overloaded()
    assert limit.limit == 4


@given(st.integers(1, 9), st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=200))
def test_the_limit_stays_between_its_bounds(most: int, events: list[tuple[float, bool]]) -> None:
    timer = JumpingTimer()
    limit = AdaptiveLimit(timer, most, least=2, first=3)
    for seconds, full in events:
        limit.ended(seconds, full=full)
        if seconds > 9:
            timer.time += seconds
            limit.overloaded()
        assert min(2, most) <= limit.limit <= most


class _BusyServer(FakeApi):
    """Answers slowly, and counts how many it is asked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0
        self.most = 0
        self.refused = 0

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.refused:
                self.refused -= 1
                return failure(429, "TooManyRequests", {"Retry-After": "1"})
            for _ in range(10):
                await asyncio.sleep(0)
            return web.json_response({})
        finally:
            self.running -= 1


def test_a_burst_of_requests_is_no_burst_of_connections() -> None:
    async def scenario() -> None:
        async with _BusyServer() as api:
            access = Access(server=api.url)
            async with KubeClient(access, qps=0, max_connections=100, env={}) as client:
                post = Request("POST", "/x", body={})
                await asyncio.gather(*(client.send(post) for _ in range(60)))
                # Sixteen at first, and one more after each of the three rounds that there were.
                assert api.most <= FIRST + 3

    run(scenario())


def test_a_refusing_server_is_asked_less_at_once() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with _BusyServer() as api:
            api.refused = 3
            access = Access(server=api.url)
            async with KubeClient(access, qps=0, env={}, timer=timer) as client:
                before = client.limit.limit
                await client.send(Request("POST", "/x", body={}))
                assert client.limit.limit <= before // 2

    run(scenario())
