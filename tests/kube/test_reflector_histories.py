"""Random histories and random faults: what handlers hear is always exactly what happened."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.fake_api import FakeApi, Following, failure, run, status

NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.just("bookmark"), st.none()),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("cut"), st.integers(1, 1500)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("refuse"), st.sampled_from([410, 429, 500, 503])),
    st.tuples(st.just("error"), st.sampled_from([410, 429, 500])),
    st.tuples(st.just("yield"), st.integers(1, 30)),
    st.tuples(st.just("settle"), st.none()),
)


def _refusal(code: int) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        return failure(code, "Expired" if code == 410 else "Whatever")

    return refuse


async def _play(api: FakeApi, follow: Following, step: tuple[str, Any]) -> None:
    what, argument = step
    match what:
        case "put":
            api.put(argument)
        case "delete" if argument in api.objects:
            api.delete(argument)
        case "recreate":
            api.put(argument, recreate=True)
        case "yield":
            for _ in range(argument):
                await asyncio.sleep(0)
        case "settle":
            await follow.recorder.matches(api)
        case _:
            await _disturb(api, what, argument)


async def _disturb(api: FakeApi, what: str, argument: Any) -> None:
    match what:
        case "bookmark":
            api.bookmark()
        case "compact":
            api.compact()
        case "cut":
            api.cuts.append(argument)
        case "restart":
            await api.stop()
            await api.start()
        case "refuse":
            api.faults.append(_refusal(argument))
        case "error":
            api.version += 1
            api.send("ERROR", status(argument, "Expired" if argument == 410 else "Whatever"))


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, max_size=40), streaming=st.booleans())
def test_store_and_events_stay_exact(steps: list[tuple[str, Any]], streaming: bool) -> None:
    """The recorder checks each event against those before; here the end is compared."""

    async def scenario() -> None:
        async with FakeApi(streaming=streaming) as api:
            api.put("a")
            async with Following(api) as follow:
                for step in steps:
                    await _play(api, follow, step)
                await follow.recorder.matches(api)
                known = follow.reflector.store.objects
                assert {o.name: o.metadata.uid for o in known.values()} == {
                    name: obj["metadata"]["uid"] for name, obj in api.objects.items()
                }
                assert follow.recorder.synced == 1

    run(scenario())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(st.sampled_from(["put", "delete", "recreate"]), NAMES), max_size=30),
    cuts=st.lists(st.integers(1, 1200), max_size=12),
)
def test_cuts_alone_lose_and_repeat_nothing(steps: list[tuple[str, str]], cuts: list[int]) -> None:
    """Without compaction every single change is heard, in order, however often the line breaks."""

    async def scenario() -> None:
        async with FakeApi() as api, Following(api) as follow:
            await follow.recorder.matches(api)
            api.cuts.extend(cuts)
            await api.stop()
            await api.start()
            for step in steps:
                await _play(api, follow, step)
            told = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}
            wanted = [(told[t], obj["metadata"]["name"]) for _, t, obj in api.history]
            await follow.recorder.until(lambda: len(follow.recorder.events) >= len(wanted))
            assert [event[:2] for event in follow.recorder.events] == wanted

    run(scenario())
