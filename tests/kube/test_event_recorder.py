"""Events: their form, series, and what becomes of them when the server is slow or gone."""

import asyncio
from random import Random
from typing import Any

import pytest
from aiohttp import web

from kube.fake_api import FakeApi, JumpingTimer, failure, run
from moorage.kube import event_recorder
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.event_series import (
    EventKey,
    ObjectReference,
    SeriesMemory,
    event_name,
    event_note,
    reference,
)
from moorage.model.custom import CustomObject
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.node import Node
from moorage.model.pod import Pod

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u1", resource_version="7"))


class EventServer(FakeApi):
    """Keeps events as the API would."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, dict[str, Any]] = {}
        self.arrived = asyncio.Event()
        self.hold: asyncio.Event | None = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.faults:
            return await super()._handle(request)
        if self.hold is not None:
            await self.hold.wait()
        body = await request.json()
        self.requests.append(f"{request.method} {request.path}")
        self.bodies.append(body)
        self.arrived.set()
        name = request.path.rsplit("/", 1)[1]
        if request.method == "POST":
            self.events[body["metadata"]["name"]] = body
            return web.json_response(body, status=201)
        if name not in self.events:
            return failure(404, "NotFound")
        self.events[name] |= body
        return web.json_response(self.events[name])

    async def got(self, count: int) -> None:
        while len(self.requests) < count:
            self.arrived.clear()
            await self.arrived.wait()


class StandingTimer(JumpingTimer):
    """Waits for ever, unless the wait is shorter than a minute."""

    async def sleep(self, seconds: float) -> None:
        if seconds < 60:
            await super().sleep(seconds)
        else:
            await asyncio.Event().wait()


class Recording:
    """A recorder and its client."""

    def __init__(self, api: FakeApi, workers: int = 1) -> None:
        self.timer = StandingTimer()
        self.client = KubeClient(Access(server=api.url), timer=self.timer, qps=0, env={})
        self.recorder = EventRecorder(
            self.client, timer=self.timer, random=Random(1), hostname="host", workers=workers
        )

    async def __aenter__(self) -> "Recording":
        self.recorder.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.recorder.close()
        await self.client.close()

    def fail(self, note: str = "0/1 nodes are available", pod: Pod = POD) -> None:
        self.recorder.event(
            pod, "Warning", "FailedScheduling", "Scheduling", note, controller="default-scheduler"
        )


def test_the_form_of_an_event() -> None:
    async def scenario() -> None:
        async with EventServer() as api, Recording(api) as recording:
            related = Node(metadata=ObjectMeta(name="n1", uid="u2", resource_version="9"))
            recording.recorder.event(
                POD,
                "Normal",
                "Scheduled",
                "Binding",
                "Successfully assigned default/web to n1",
                controller="mine",
                related=related,
            )
            await api.got(1)
            assert api.requests == [f"POST {EVENTS}"]
            assert api.bodies[0] == {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "web.17979cfe362a0000", "namespace": "default"},
                "eventTime": "2023-11-14T22:13:20.000000Z",
                "reportingController": "mine",
                "reportingInstance": "mine-host",
                "action": "Binding",
                "reason": "Scheduled",
                "regarding": {
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "web",
                    "uid": "u1",
                    "apiVersion": "v1",
                    "resourceVersion": "7",
                },
                "note": "Successfully assigned default/web to n1",
                "type": "Normal",
                "related": {
                    "kind": "Node",
                    "name": "n1",
                    "uid": "u2",
                    "apiVersion": "v1",
                    "resourceVersion": "9",
                },
            }

    run(scenario())


@pytest.mark.parametrize(
    ("obj", "kind", "api_version"),
    [
        (Pod(kind="1k"), "Pod", "v1"),
        (Pod(kind="Pod", api_version="apps/v9"), "Pod", "v1"),
        (
            CustomObject(kind="Berth", api_version="harbour.example/v1"),
            "Berth",
            "harbour.example/v1",
        ),
    ],
)
def test_an_event_names_the_kind_that_was_read_not_what_the_object_says(
    obj: ApiObject, kind: str, api_version: str
) -> None:
    assert (reference(obj).kind, reference(obj).api_version) == (kind, api_version)


def test_repetition_becomes_a_series() -> None:
    async def scenario() -> None:
        async with EventServer() as api, Recording(api) as recording:
            recording.fail("first note")
            await api.got(1)
            recording.timer.time += 1
            recording.fail("another note")
            await api.got(2)
            for _ in range(3):
                recording.timer.time += 1
                recording.fail()
            name = next(iter(api.events))
            assert api.requests[1] == f"PATCH {EVENTS}/{name}"
            assert api.bodies[1] == {
                "series": {"count": 2, "lastObservedTime": "2023-11-14T22:13:21.000000Z"}
            }
            assert len(api.requests) == 2, "from the third on they are only counted"
            await recording.recorder.close()
            assert api.events[name]["series"]["count"] == 5
            assert api.events[name]["note"] == "first note"

    run(scenario())


def test_events_that_are_kept_apart_are_no_series() -> None:
    async def scenario() -> None:
        async with EventServer() as api, Recording(api) as recording:
            for note in ("one thing", "another"):
                recording.timer.time += 1
                recording.recorder.event(
                    *(POD, "Warning", "Wrong", "Reading", note), controller="mine", apart=note
                )
            await api.got(2)
            assert [event["note"] for event in api.events.values()] == ["one thing", "another"]

    run(scenario())


def _key(name: str = "web", version: str = "7") -> EventKey:
    regarding = ObjectReference("Pod", "default", name, "u", "v1", version)
    return EventKey("Warning", "Scheduling", "FailedScheduling", "c", "c-h", regarding, None)


def test_a_series_ends_after_six_quiet_minutes() -> None:
    memory = SeriesMemory()
    assert memory.record(_key(), "n", 0.0) is not None
    assert memory.record(_key("single"), "n", 0.0) is not None
    assert memory.record(_key(), "n", 1.0) is not None
    assert memory.record(_key(), "n", 200.0) is None
    assert memory.record(_key(version="8"), "n", 200.0) is not None, "a new version, a new event"
    assert memory.finished(360.0) == []
    assert len(memory) == 3
    assert memory.finished(361.0) == []
    assert len(memory) == 2, "the single event is forgotten"
    (ended,) = memory.finished(561.0)
    assert ended.count == 3
    assert len(memory) == 0
    again = memory.record(_key(), "n", 600.0)
    assert again is not None
    assert not again.is_series


def test_a_long_series_is_refreshed() -> None:
    memory = SeriesMemory()
    for second in range(5):
        memory.record(_key(), "n", float(second))
    assert [event.count for event in memory.unwritten()] == [5]
    assert [event.count for event in memory.series()] == [5]
    assert memory.unwritten() == []


def test_names_are_unique_and_valid() -> None:
    memory = SeriesMemory()
    events = [memory.record(_key(version=str(n)), "n", 5.0) for n in range(3)]
    assert len({event.name for event in events if event is not None}) == 3
    assert len(event_name("x" * 300, 2**60)) == 253


def test_lost_event_of_a_series_is_made_again() -> None:
    async def scenario() -> None:
        async with EventServer() as api, Recording(api) as recording:
            recording.fail()
            await api.got(1)
            api.events.clear()
            recording.fail()
            await api.got(3)
            assert [request.split()[0] for request in api.requests] == ["POST", "PATCH", "POST"]
            assert api.bodies[2]["series"]["count"] == 2

    run(scenario())


def test_unreachable_server_is_tried_twelve_times() -> None:
    async def scenario() -> None:
        api = EventServer()
        await api.start()
        await api.stop()
        async with Recording(api) as recording:
            recording.fail()
            while recording.recorder.failed == 0:
                await asyncio.sleep(0)
            waits = recording.timer.waits
            assert len(waits) == 11
            assert all(10.0 <= wait <= 12.5 for wait in waits)

    run(scenario())


def test_refused_event_is_given_up() -> None:
    async def scenario() -> None:
        async with EventServer() as api, Recording(api) as recording:

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(403, "Forbidden")

            api.faults.append(refuse)
            recording.fail()
            while recording.recorder.failed == 0:
                await asyncio.sleep(0)
            assert len(api.requests) == 1

    run(scenario())


def test_pressure_drops_events_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(event_recorder, "MOST_WAITING", 10)
        async with EventServer() as api:
            api.hold = asyncio.Event()
            async with Recording(api) as recording:
                for number in range(25):
                    meta = ObjectMeta(name=f"p{number}", namespace="default", uid=str(number))
                    recording.fail(pod=Pod(metadata=meta))
                assert recording.recorder.dropped == 15
                api.hold.set()
                await recording.recorder.close()
                assert recording.recorder.written == 10

    run(scenario())


def _numbered(number: int) -> Pod:
    return Pod(metadata=ObjectMeta(name=f"p{number}", namespace="default", uid=str(number)))


class CountingServer(EventServer):
    """Holds every request until it is told to go on, and counts those it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = asyncio.Event()
        self.held = 0
        self.most_held = 0

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        try:
            return await super()._handle(request)
        finally:
            self.held -= 1

    async def holds(self, count: int) -> None:
        while self.held < count:
            await asyncio.sleep(0)

    def let_one_go(self) -> None:
        assert self.hold is not None
        self.hold.set()
        self.hold = asyncio.Event()


def test_while_events_keep_coming_a_single_worker_writes_them() -> None:
    async def scenario() -> None:
        async with CountingServer() as api, Recording(api, workers=4) as recording:
            for number in range(30):
                recording.fail(pod=_numbered(number))
            for written in range(1, 11):
                await api.holds(1)
                api.let_one_go()
                await api.got(written)
                recording.fail(pod=_numbered(100 + written))
            assert api.most_held == 1
            recording.timer.time += 2 * event_recorder.QUIET_SECONDS
            await api.holds(1)
            api.let_one_go()
            await api.holds(4)
            assert api.hold is not None
            api.hold.set()
            api.hold = None
            await recording.recorder.close()
            assert recording.recorder.written == 40
            assert recording.recorder.waiting == 0

    run(scenario())


def test_when_too_many_wait_all_workers_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(event_recorder, "MANY_WAITING", 20)
        async with CountingServer() as api, Recording(api, workers=4) as recording:
            for number in range(30):
                recording.fail(pod=_numbered(number))
            await api.holds(4)
            assert api.hold is not None
            api.hold.set()
            api.hold = None

    run(scenario())


def test_at_the_end_all_workers_write() -> None:
    async def scenario() -> None:
        async with CountingServer() as api, Recording(api, workers=4) as recording:
            for number in range(30):
                recording.fail(pod=_numbered(number))
            closing = asyncio.create_task(recording.recorder.close())
            await api.holds(4)
            assert api.hold is not None
            api.hold.set()
            api.hold = None
            await closing
            assert recording.recorder.written == 30

    run(scenario())


def test_an_event_that_is_tried_again_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with EventServer() as api, Recording(api, workers=2) as recording:
            resting = asyncio.Event()

            async def rest(seconds: float) -> None:
                resting.set()
                await asyncio.Event().wait()

            async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
                assert request.transport is not None
                request.transport.close()
                return web.Response()

            monkeypatch.setattr(recording.timer, "sleep", rest)
            api.faults.append(hang_up)
            recording.fail(pod=_numbered(0))
            await resting.wait()
            recording.fail(pod=_numbered(1))
            recording.fail(pod=_numbered(2))
            while recording.recorder.written < 2:
                await asyncio.sleep(0)
            assert recording.recorder.waiting == 1
            await recording.recorder.close(timeout=0.01)

    run(scenario())


def test_the_count_of_a_series_never_overtakes_its_event() -> None:
    async def scenario() -> None:
        async with CountingServer() as api, Recording(api, workers=4) as recording:
            for number in range(6):
                recording.fail(pod=_numbered(number))
                recording.fail(pod=_numbered(number))
            closing = asyncio.create_task(recording.recorder.close())
            await api.holds(4)
            assert api.hold is not None
            api.hold.set()
            api.hold = None
            await closing
            methods: dict[str, list[str]] = {}
            for request, body in zip(api.requests, api.bodies, strict=True):
                method, _, path = request.partition(" ")
                name = body["metadata"]["name"] if method == "POST" else path.rsplit("/", 1)[1]
                methods.setdefault(name, []).append(method)
            assert list(methods.values()) == [["POST", "PATCH"]] * 6

    run(scenario())


def test_closing_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        async with EventServer() as api:
            api.hold = asyncio.Event()
            async with Recording(api) as recording:
                recording.fail()
                await recording.recorder.close(timeout=0.05)
                recording.fail()
                assert recording.recorder.dropped == 1
                api.hold.set()

    run(scenario())


@pytest.mark.parametrize(
    ("message", "note"),
    [
        ("plain", "plain"),
        ("100% full", "100%!f(MISSING)ull"),
        ("50%", "50%!(NOVERB)"),
        ("5%% of %s and %-5.2d", "5% of %!s(MISSING) and %!d(MISSING)"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 600, "é" * 510 + " ..."),
    ],
)
def test_notes_are_cut_and_formatted_as_upstream(message: str, note: str) -> None:
    assert event_note(message) == note


def test_an_event_that_comes_while_the_last_worker_leaves_is_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        client = KubeClient(Access(server="http://127.0.0.1:1"), env={})
        recorder = EventRecorder(client, hostname="host", workers=1)
        sent: list[str] = []
        both = asyncio.Event()

        async def send(request: object) -> bytes:
            sent.append(str(request))
            if len(sent) == 1:
                # Runs when the worker has looked for more, and before anybody knows that it left.
                asyncio.get_running_loop().call_soon(record, "second")
            else:
                both.set()
            return b"{}"

        def record(reason: str) -> None:
            recorder.event(POD, "Normal", reason, "Binding", "note", controller="me")

        monkeypatch.setattr(client, "send", send)
        recorder.start()
        record("first")
        async with asyncio.timeout(5):
            await both.wait()
        await recorder.close()
        await client.close()

    asyncio.run(test())


def test_what_happens_once_to_a_pod_is_not_remembered() -> None:
    memory = SeriesMemory()
    for number in range(100):
        about = ObjectReference(kind="Pod", namespace="default", name=f"p{number}")
        key = EventKey("Normal", "Binding", "Scheduled", "c", "i", about, None)
        assert memory.record(key, "assigned", 1.0) is not None
    assert len(memory) == 0
