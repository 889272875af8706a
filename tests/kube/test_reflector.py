"""Reflectors against a small server over real HTTP: every way a watch can end."""

import asyncio

import pytest
from aiohttp import web

from kube.fake_api import FakeApi, Following, failure, run, status


@pytest.mark.parametrize("streaming", [True, False])
def test_lists_then_watches(streaming: bool) -> None:
    async def scenario() -> None:
        async with FakeApi(streaming=streaming) as api:
            for name in "abc":
                api.put(name)
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                assert follow.recorder.synced == 1
                api.put("d")
                api.put("a")
                api.delete("b")
                await follow.recorder.until(lambda: len(follow.recorder.events) == 6)
                await follow.recorder.matches(api)
                assert [event[:2] for event in follow.recorder.events[3:]] == [
                    ("add", "d"),
                    ("update", "a"),
                    ("delete", "b"),
                ]
                assert follow.reflector.resource_version == str(api.version)

    run(scenario())


def test_asks_as_client_go_does() -> None:
    async def scenario() -> None:
        async with FakeApi(streaming=False) as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                version = api.version
                api.put("b")
                await follow.recorder.matches(api)
            first, second, third = api.requests[:3]
            selector = "fieldSelector=status.phase!=Succeeded,status.phase!=Failed"
            assert selector in first
            assert "sendInitialEvents=true&resourceVersionMatch=NotOlderThan" in first
            assert "allowWatchBookmarks=true" in first
            assert second == f"GET /api/v1/pods?{selector}&limit=500&resourceVersion=0"
            assert f"resourceVersion={version}" in third
            assert "watch=true" in third

    run(scenario())


@pytest.mark.parametrize("streaming", [True, False])
def test_resumes_after_a_cut_at_every_byte(streaming: bool) -> None:
    """Cuts in the middle of a line, right before and right after a line break."""

    async def scenario() -> None:
        async with FakeApi(streaming=streaming) as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                for cut in [1, 2, 30, 150, 200, 250, 300, 301, 302, 303, 304, 305, 400, 700]:
                    api.cuts.append(cut)
                await restart_watches(api, follow)
                for number in range(40):
                    api.put(f"p{number % 7}")
                    if number % 5 == 4:
                        api.delete(f"p{number % 7}")
                    await follow.recorder.matches(api)
                assert not api.cuts
                lists = [r for r in api.requests if "watch=true" not in r or "Initial" in r]
                assert len(lists) == 1 + (not streaming), "a cut must not cost a list"

    run(scenario())


async def restart_watches(api: FakeApi, follow: Following) -> None:
    """End the running watch, so that the next one begins with the first of `cuts`."""
    await api.stop()
    await api.start()


def test_every_cut_position_of_one_line() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                length = 340
                api.cuts.extend(range(length - 60, length + 60))
                await restart_watches(api, follow)
                while api.cuts:
                    api.put("b")
                    await follow.recorder.matches(api)
                names = [name for what, name, _ in follow.recorder.events if what == "add"]
                assert names == ["a", "b"]

    run(scenario())


def test_expired_watch_lists_again_and_tells_the_difference() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            for name in ("same", "changed", "gone", "reborn"):
                api.put(name)
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                before = len(follow.recorder.events)
                await api.stop()
                api.put("changed")
                api.delete("gone")
                api.put("reborn", recreate=True)
                api.put("new")
                api.compact()
                await api.start()
                await follow.recorder.matches(api)
                assert sorted(event[:2] for event in follow.recorder.events[before:]) == [
                    ("add", "new"),
                    ("add", "reborn"),
                    ("delete", "gone"),
                    ("delete", "reborn"),
                    ("update", "changed"),
                ]
                assert follow.recorder.synced == 1

    run(scenario())


def test_expired_event_inside_a_watch() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                api.version += 1
                api.send("ERROR", status(410, "Expired", "too old resource version"))
                api.objects.pop("a")
                api.put("b")
                await follow.recorder.matches(api)
                assert [e[:2] for e in follow.recorder.events] == [
                    ("add", "a"),
                    ("delete", "a"),
                    ("add", "b"),
                ]

    run(scenario())


@pytest.mark.parametrize("code", [500, 403, 429])
def test_error_events_and_refusals_pass(code: int) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(code, "Whatever")

            api.faults.extend([refuse] * 4)
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                assert len(follow.timer.waits) >= 4
                api.version += 1
                api.send("ERROR", status(code, "Whatever"))
                api.put("b")
                await follow.recorder.matches(api)

    run(scenario())


def test_server_that_began_anew_with_smaller_versions() -> None:
    async def scenario() -> None:
        async with FakeApi(streaming=False) as api:
            api.version = 1000
            api.put("a")
            api.put("b")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                await api.stop()
                api.version, api.history, api.objects = 10, [], {}
                api.put("b")
                await api.start()
                await follow.recorder.matches(api)
                assert follow.reflector.resource_version == str(api.version)

    run(scenario())


def test_bookmarks_only_move_the_version() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                for _ in range(5):
                    api.bookmark()
                api.compact()  # everything up to here; the bookmarks keep us ahead of it
                await api.stop()
                await api.start()
                api.put("b")
                await follow.recorder.matches(api)
                assert sum("Initial" in request for request in api.requests) <= 2
                assert [e[:2] for e in follow.recorder.events] == [("add", "a"), ("add", "b")]

    run(scenario())


def test_paging_that_expires_begins_again_in_one_piece() -> None:
    async def scenario() -> None:
        async with FakeApi(streaming=False) as api:
            for number in range(1201):
                api.put(f"p{number:04}")

            def compact_once(first: int) -> None:
                if first == 500:
                    api.put("p0001")
                    api.delete("p0002")
                    api.compact()
                    api.page_hook = None

            api.page_hook = compact_once
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                assert len(follow.recorder.events) == 1200
                lists = [request for request in api.requests if "watch" not in request]
                assert len(lists) == 4
                assert "limit" not in lists[-1]
                assert "continue" not in lists[-1]

    run(scenario())


def test_malformed_objects_are_named_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("good")
            api.put("bad", spec={"containers": "none"})
            api.put("nulls", spec={"containers": None, "tolerations": None})
            api.put(
                "quantity",
                spec={"containers": [{"resources": {"requests": {"cpu": "lots"}}}]},
            )
            async with Following(api) as follow:
                await follow.recorder.until(lambda: follow.recorder.synced == 1)
                assert set(follow.recorder.versions) == {"good", "nulls"}
                api.put("good", spec={"priority": "high"})  # stays as it was
                api.put("also-bad", status=17)
                api.send("ADDED", {"metadata": "nonsense"})
                api.put("last")
                await follow.recorder.until(lambda: "last" in follow.recorder.versions)
                assert set(follow.recorder.versions) == {"good", "nulls", "last"}
                assert len(follow.reflector.store.skipped) >= 4
                api.delete("bad")
                api.delete("good")
                api.put("end")
                await follow.recorder.until(lambda: "end" in follow.recorder.versions)
                assert set(follow.recorder.versions) == {"nulls", "last", "end"}

    run(scenario())
    for name in ("default/bad", "default/quantity", "default/good", "default/also-bad"):
        assert any(name in record.message for record in caplog.records), name


def test_a_malformed_object_survives_a_new_list() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                await api.stop()
                api.put("a", spec="unreadable")
                api.put("b")
                api.compact()
                await api.start()
                await follow.recorder.until(lambda: "b" in follow.recorder.versions)
                assert set(follow.recorder.versions) == {"a", "b"}

    run(scenario())


def test_a_list_may_name_an_object_twice() -> None:
    async def scenario() -> None:
        async with FakeApi(streaming=False) as api:
            api.put("a")
            twice = [*api.objects.values(), *api.objects.values()]

            async def answer(_: web.BaseRequest) -> web.StreamResponse:
                return web.json_response({"metadata": {"resourceVersion": "11"}, "items": twice})

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(400, "BadRequest")

            api.faults.extend([refuse, answer])
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                assert len(follow.recorder.events) == 1

    run(scenario())


def test_repeated_events_are_told_once() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            obj = api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                for type_ in ("ADDED", "MODIFIED"):
                    api.version += 1
                    api.send(type_, obj)
                api.put("b")
                await follow.recorder.matches(api)
                assert [e[:2] for e in follow.recorder.events] == [("add", "a"), ("add", "b")]

    run(scenario())


def test_a_line_that_is_no_event_costs_a_list() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")

            async def garbage(request: web.BaseRequest) -> web.StreamResponse:
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"<html>gateway</html>\n")
                return response

            api.faults.append(garbage)
            async with Following(api) as follow:
                await follow.recorder.matches(api)

    run(scenario())


NO_OBJECTS = {
    "nothing": b"",
    "null": b',"object":null',
    "a number": b',"object":5',
    "a text": b',"object":"pod"',
    "a list": b',"object":[{}]',
    "a deep list": b',"object":' + b"[" * 9_000 + b"]" * 9_000,
    "a word": b',"object":undefined',
    "a broken object": b',"object":{"metadata":',
    "a control character": b',"object":"\x00"',
}


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "SURPRISE"])
@pytest.mark.parametrize("rest", NO_OBJECTS.values(), ids=list(NO_OBJECTS))
def test_an_event_without_an_object_is_skipped_and_the_watch_goes_on(
    type_: str, rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                api.send_line(b'{"type":"%s"%s}\n' % (type_.encode(), rest))
                api.put("b")
                await follow.recorder.matches(api)
                assert len(api.requests) == 1, "one watch is enough"
                assert not follow.timer.waits

    run(scenario())
    if type_ != "BOOKMARK":  # what it would say comes again with the next one
        assert "skipped" in caplog.text


def test_streaming_list_without_an_end_falls_back() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")

            async def endless(request: web.BaseRequest) -> web.StreamResponse:
                response = web.StreamResponse()
                await response.prepare(request)
                return response

            api.faults.extend([endless, endless])
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                assert "watch" not in api.requests[2]

    run(scenario())


def test_unreachable_server_is_tried_with_growing_waits() -> None:
    async def scenario() -> None:
        api = FakeApi()
        await api.start()
        api.put("a")
        await api.stop()
        async with Following(api) as follow:
            while len(follow.timer.waits) < 8:
                await asyncio.sleep(0)
            assert "cannot be reached" in str(follow.reflector.last_error)
            await api.start()
            await follow.recorder.matches(api)
            await api.stop()
        waits = follow.timer.waits
        assert 0.8 <= waits[0] <= 1.6
        assert max(waits) <= 60.0
        assert waits[5] > waits[0] * 4

    run(scenario())


def test_a_watch_that_worked_makes_the_next_failure_wait_as_the_first_did() -> None:
    async def scenario() -> None:
        async with FakeApi(streaming=False) as api:
            api.put("a")

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(500, "Whatever")

            api.faults.extend([refuse] * 6)
            async with Following(api) as follow:
                await follow.recorder.matches(api)
                grown = len(follow.timer.waits)
                assert follow.timer.waits[-1] > 10
                api.put("b")
                await follow.recorder.matches(api)
                api.faults.append(refuse)
                await restart_watches(api, follow)
                while len(follow.timer.waits) == grown:
                    await asyncio.sleep(0)
                assert follow.timer.waits[grown] <= 1.6

    run(scenario())
