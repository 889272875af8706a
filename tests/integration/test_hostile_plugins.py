"""A plugin that raises or answers nonsense harms the pods of its own profile and nobody else."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from moorage.apiserver.server import ApiServer
from moorage.cluster.stamps import Aspect
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Binding, Failure
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.errors import StateError
from moorage.framework.binding import after_binding
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.faults import PluginFault
from moorage.framework.plugin import (
    BindPlugin,
    DeferringPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.framework.registry import Registry
from moorage.framework.status import SKIP, Code, Reason, Status, Verdicts
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.executor import Executor
from moorage.kube.live import build_scheduler, watched_kinds
from moorage.kube.timing import WallTimer
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: hostile
  plugins: {%s: {enabled: [{name: Hostile}]%s}}
"""
SECONDS = 60

Act = Callable[..., Any]


def raises(error: BaseException) -> Act:
    def act(*_: Any) -> Any:
        raise error

    act.__name__ = f"raises {type(error).__name__}"
    return act


def gives(value: Any) -> Act:
    def act(*_: Any) -> Any:
        return value

    shown = "hidden" if isinstance(value, _Hidden) else repr(value)
    act.__name__ = f"gives {shown}".partition(" at 0x")[0][:60]
    return act


def for_each(name: str, make: Callable[[int], Any]) -> Act:
    """An answer that depends on the number of nodes."""

    def act(_pod: Pod, nodes: Any, *_: Any) -> Any:
        return make(len(nodes))

    act.__name__ = name
    return act


class _DumbError(Exception):
    def __str__(self) -> str:
        raise ValueError("I have no words")


class _Unknown(BaseException):
    pass


class _Hidden:
    def __repr__(self) -> str:
        raise ValueError("I will not be shown")


RAISED = [
    raises(error)
    for error in (
        KeyError("k"),
        RecursionError("r"),
        MemoryError("m"),
        StateError("s"),
        _DumbError(),
    )
] + [raises(SystemExit(3)), raises(StopIteration()), raises(KeyboardInterrupt())]
RAISED += [raises(asyncio.CancelledError()), raises(_Unknown())]
NONSENSE = [gives(5), gives("yes"), gives([]), gives(float("nan")), gives(object())]
NONSENSE += [gives(_Hidden())]
STATUSES = [gives(Status("Unheard", ())), gives(Status(Code.ERROR, (7,)))]  # type: ignore[arg-type]

POINTS: dict[str, tuple[tuple[type[Plugin], ...], str, list[Act]]] = {
    "preEnqueue": ((PreEnqueuePlugin,), "pre_enqueue", [*NONSENSE, *STATUSES]),
    "preFilter": (
        (PreFilterPlugin,),
        "pre_filter",
        [*NONSENSE, *STATUSES, gives(None), gives(PreFilterResult(None, ["a"]))],  # type: ignore[arg-type]
    ),
    "filter": (
        (FilterPlugin,),
        "filter",
        [
            *NONSENSE,
            gives(None),
            for_each("too many", lambda size: Verdicts(size + 1)),
            for_each("none", lambda size: Verdicts(0)),
            for_each("bad reason", lambda size: Verdicts(size).reject(0, "no")),  # type: ignore[arg-type]
            for_each("error", lambda size: Verdicts(size).reject(0, Reason("e", Code.ERROR))),
        ],
    ),
    "preScore": ((PreScorePlugin, ScorePlugin), "pre_score", []),
    "score": (
        (ScorePlugin,),
        "score",
        [
            *NONSENSE,
            gives(None),
            for_each("too many", lambda size: np.zeros(size + 1, np.int64)),
            for_each("one", lambda size: np.zeros(1, np.int64)),
            for_each("floats", lambda size: np.zeros(size)),
            for_each("not a number", lambda size: np.full(size, np.nan)),
            for_each("texts", lambda size: np.array(["x"] * size)),
            for_each("too large", lambda size: np.full(size, 101)),
            for_each("negative", lambda size: np.full(size, -1)),
            for_each("huge", lambda size: np.full(size, 2**63 - 1)),
            for_each("unsigned", lambda size: np.full(size, 2**64 - 1, np.uint64)),
        ],
    ),
    "normalize": ((ScorePlugin,), "normalize", [*NONSENSE, gives(None), gives(np.zeros(9))]),
    "reserve": ((ReservePlugin,), "reserve", [*NONSENSE, *STATUSES]),
    "assumed": ((ReservePlugin,), "assumed", [*NONSENSE, gives(None)]),
    "permit": (
        (PermitPlugin,),
        "permit",
        [
            *NONSENSE,
            gives(None),
            gives((Status(Code.WAIT), float("nan"))),
            gives((Status(Code.WAIT), "1s")),
            gives((5, 1.0)),
        ],
    ),
    "pod_key": ((FilterPlugin,), "pod_key", [gives([])]),
}

CACHEABLE: dict[str, Any] = {"reads": (Aspect.PODS,), "pod_key": lambda self, pod: 1}
"""What makes answers be kept."""

SOUND: dict[str, Act] = {
    "pre_enqueue": gives(None),
    "pre_filter": gives(SKIP),
    "filter": for_each("all", Verdicts),
    "pre_score": gives(None),
    "score": for_each("equal", lambda size: np.full(size, 50)),
    "reserve": gives(None),
    "unreserve": gives(None),
    "permit": gives((None, 0.0)),
    "post_filter": gives(PostFilterResult(Status(Code.UNSCHEDULABLE))),
}


@pytest.fixture(autouse=True)
def interrupts_are_handled() -> Iterator[None]:
    """As in a scheduler that runs: Ctrl-C does not raise KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


def hostile(bases: tuple[type[Plugin], ...], method: str, act: Act, **more: Any) -> type[Plugin]:
    body: dict[str, Any] = {"name": "Hostile"}
    for base in bases:
        for name in getattr(base, "__abstractmethods__", ()):
            if name in SOUND:
                body[name] = _method(SOUND[name])
    if method == "pod_key":
        body.update(reads=(Aspect.LABELS,), cacheable=True)
    body.update(more)
    body[method] = _method(act)
    return type("Hostile", bases, body)


def _method(act: Act) -> Callable[..., Any]:
    return lambda self, *args: act(*args)


def scheduler_with(
    plugin: type[Plugin], point: str = "multiPoint", disabled: str = ""
) -> Scheduler:
    registry: Registry = in_tree_registry()
    registry.register(plugin)
    config = load_config(CONFIG % (point, disabled), "test")
    made = build_scheduler(config, registry, DEFAULT_FEATURE_GATES, VirtualClock(1_000.0))
    for name in ("n1", "n2", "n3"):
        made.handlers.add_node(make_node(name, cpu="4"))
    return made


def pod(name: str, profile: str, **more: Any) -> Pod:
    return make_pod(name, spec={"schedulerName": profile}, **more)


def decided(scheduler: Scheduler) -> tuple[set[str], dict[str, Failure]]:
    """The pods that are to be bound, and those that failed."""
    while scheduler.schedule_one():
        pass
    bound = {action.pod.name for action in scheduler.outbox if isinstance(action, Binding)}
    failed = {a.pod.name: a for a in scheduler.outbox if isinstance(a, Failure)}
    return bound, failed


CASES = [
    pytest.param(
        point, act, cacheable, id=f"{point} {act.__name__}{' cacheable' if cacheable else ''}"
    )
    for point, (_, _, acts) in POINTS.items()
    for act in (*RAISED, *acts)
    for cacheable in ((False, True) if point in ("filter", "score", "normalize") else (False,))
]


@pytest.mark.parametrize(("point", "act", "cacheable"), CASES)
def test_only_the_pod_that_was_asked_about_fails(
    point: str, act: Act, cacheable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bases, method, _ = POINTS[point]
    more: dict[str, Any] = CACHEABLE if cacheable else {}
    scheduler = scheduler_with(hostile(bases, method, act, **more))
    for name in ("h1", "h2"):
        scheduler.handlers.add_pod(pod(name, "hostile"))
    for name in ("p1", "p2"):
        scheduler.handlers.add_pod(pod(name, "default-scheduler"))
    bound, failed = decided(scheduler)
    assert bound == {"p1", "p2"}
    assert "Hostile" in caplog.text
    if point == "preEnqueue":  # upstream only logs these, too
        assert not failed
        return
    for name in ("h1", "h2"):
        assert failed[name].reason == "SchedulerError"
        assert "Hostile" in failed[name].message
    assert scheduler.state.sizes()["assumed_pods"] == 2


@pytest.mark.parametrize("act", [*RAISED, *NONSENSE, gives(None)], ids=lambda act: act.__name__)
def test_a_failing_post_filter_is_the_error_of_its_pod(act: Act) -> None:
    scheduler = scheduler_with(
        hostile((PostFilterPlugin,), "post_filter", act), "postFilter", ", disabled: [{name: '*'}]"
    )
    scheduler.handlers.add_pod(pod("h", "hostile", cpu="64"))
    scheduler.handlers.add_pod(pod("p", "default-scheduler"))
    bound, failed = decided(scheduler)
    assert bound == {"p"}
    assert failed["h"].reason == "SchedulerError"
    assert "Hostile" in failed["h"].message


@pytest.mark.parametrize("act", RAISED, ids=lambda act: act.__name__)
def test_a_failing_unreserve_keeps_nobody_from_undoing(act: Act) -> None:
    plugin = hostile((ReservePlugin,), "unreserve", act, reserve=_method(raises(KeyError("k"))))
    scheduler = scheduler_with(plugin)
    scheduler.handlers.add_pod(pod("h", "hostile"))
    scheduler.handlers.add_pod(pod("p", "default-scheduler"))
    bound, failed = decided(scheduler)
    assert bound == {"p"}
    assert "Hostile" in failed["h"].message
    assert scheduler.state.sizes()["assumed_pods"] == 1


class _Incomparable:
    def __lt__(self, other: object) -> bool:
        raise SystemError("I will not be compared")


KEYS = [*RAISED, *(gives(key) for key in (None, "a", 5, object(), _Incomparable(), float("nan")))]


@pytest.mark.parametrize("act", KEYS, ids=lambda act: act.__name__)
def test_pods_that_cannot_be_put_in_order_are_scheduled_nevertheless(act: Act) -> None:
    def sort_key(self: Any, pod: Pod, timestamp: float) -> Any:
        return act() if pod.name.startswith("h") else (-pod.priority, timestamp)

    plugin = type("Hostile", (QueueSortPlugin,), {"name": "Hostile", "sort_key": sort_key})
    registry = in_tree_registry()
    registry.register(plugin)
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {queueSort: {enabled: [{name: Hostile}], disabled: [{name: '*'}]}}}]",
        "test",
    )
    scheduler = build_scheduler(config, registry, DEFAULT_FEATURE_GATES, VirtualClock(1_000.0))
    names = {"p1", "h1", "p2", "h2", "p3"}
    for name in sorted(names):
        scheduler.handlers.add_pod(make_pod(name))
    assert decided(scheduler)[0] == set()  # no node: all of them wait, ordered by their back-off
    scheduler.handlers.add_node(make_node("n1", cpu="4"))
    assert isinstance(scheduler.clock, VirtualClock)
    scheduler.clock.advance(30)
    scheduler.run_timers()
    assert decided(scheduler)[0] == names


# No event at all is a good answer.
@pytest.mark.parametrize(
    "act",
    [act for act in (*RAISED, *NONSENSE) if act.__name__ != "gives []"],
    ids=lambda act: act.__name__,
)
def test_wrong_registrations_count_as_any_event(act: Act, caplog: pytest.LogCaptureFixture) -> None:
    plugin = hostile((FilterPlugin,), "events_to_register", act)
    scheduler = scheduler_with(plugin)
    assert "Pod" in watched_kinds(scheduler.profiles)
    assert "Hostile" in caplog.text


@pytest.mark.parametrize("act", [*RAISED, *NONSENSE, gives(None)], ids=lambda act: act.__name__)
def test_a_wrong_hint_wakes_the_pod(act: Act) -> None:
    refuse = for_each(
        "none", lambda size: Verdicts(size).reject(np.ones(size, np.bool_), Reason("no"))
    )
    events = (on(EventResource.NODE, ActionType.ADD, lambda *_: act()),)
    plugin = hostile((FilterPlugin,), "filter", refuse, events_to_register=lambda self: events)
    scheduler = scheduler_with(plugin)
    scheduler.handlers.add_pod(pod("h", "hostile"))
    assert decided(scheduler)[1]["h"].reason == "Unschedulable"
    scheduler.handlers.add_node(make_node("n4"))
    assert not scheduler.queue.view.pending_pods().unschedulable


@pytest.mark.parametrize("act", RAISED, ids=lambda act: act.__name__)
def test_an_attempt_counts_as_long_if_a_plugin_fails_to_say(
    act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    profiles = scheduler_with(hostile((FilterPlugin,), "may_take_long", act)).profiles
    assert profiles["hostile"].may_take_long(pod("h", "hostile"))
    assert not profiles["default-scheduler"].may_take_long(pod("p", "default-scheduler"))
    assert "Hostile" in caplog.text


BINDING: dict[str, tuple[type[Plugin], list[Act]]] = {
    "pre_bind": (PreBindPlugin, [*RAISED, *NONSENSE, *STATUSES]),
    "has_pre_bind_work": (PreBindPlugin, RAISED),
    "bind": (BindPlugin, [*RAISED, *NONSENSE, *STATUSES]),
}


@pytest.mark.parametrize("method", list(BINDING))
def test_only_the_pod_that_is_being_bound_fails(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One API server for all cases of a point, as it takes time to start."""
    caplog.set_level(logging.ERROR)
    base, acts = BINDING[method]
    asyncio.run(asyncio.wait_for(_bind_all(base, method, acts, caplog), SECONDS))


async def _bind_all(
    base: type[Plugin], method: str, acts: list[Act], caplog: pytest.LogCaptureFixture
) -> None:
    server = ApiServer(seed=7)
    await server.start()
    try:
        async with KubeClient(Access(server=server.url, source="test"), qps=0) as client:
            for act in acts:
                caplog.clear()
                await _bind_one(client, base, method, act)
                assert "Hostile" in caplog.text, act.__name__
    finally:
        await server.stop()


async def _bind_one(client: KubeClient, base: type[Plugin], method: str, act: Act) -> None:
    async def later(self: Any, *args: Any) -> Any:
        return act(*args)

    async def nothing(self: Any, *args: Any) -> None:
        return None

    body: dict[str, Any] = {"name": "Hostile", "pre_bind": nothing, method: later}
    if method == "has_pre_bind_work":
        body[method] = _method(act)
    disabled = ", disabled: [{name: '*'}]" if method == "bind" else ""
    point = "bind" if method == "bind" else "preBind"
    scheduler = scheduler_with(type("Hostile", (base,), body), point, disabled)
    failed: dict[str, str] = {}
    fail = scheduler.binding_failed
    scheduler.binding_failed = (  # type: ignore[method-assign]
        lambda binding, status, point="Bind": (
            failed.update({binding.pod.name: status.message}),
            fail(binding, status, point),
        )[1]
    )
    names = {"h": "hostile", "p": "default-scheduler"}
    for name, profile in names.items():
        scheduler.handlers.add_pod(pod(name, profile, uid=""))
    executor = Executor(scheduler, client, EventRecorder(client), WallTimer(), lambda: None)
    while scheduler.schedule_one():
        pass
    executor.carry_out()
    while executor.busy:
        await asyncio.sleep(0.01)
    # Nobody has made these pods, so the API server refuses those that come so far.
    assert set(failed) == {"h", "p"}, act.__name__
    assert "not found" in failed["p"], failed
    assert "Hostile" in failed["h"], failed


@pytest.mark.parametrize("act", RAISED, ids=lambda act: act.__name__)
def test_a_failing_post_bind_is_logged(act: Act, caplog: pytest.LogCaptureFixture) -> None:
    async def post_bind(self: Any, *args: Any) -> None:
        act(*args)

    plugin = type("Hostile", (PostBindPlugin,), {"name": "Hostile", "post_bind": post_bind})
    profile = scheduler_with(plugin, "postBind").profiles["hostile"]
    asyncio.run(after_binding(profile, pod("h", "hostile"), "n1"))
    assert "Hostile" in caplog.text


async def _carry_out(scheduler: Scheduler) -> None:
    server = ApiServer(seed=7)
    await server.start()
    try:
        async with KubeClient(Access(server=server.url, source="test"), qps=0) as client:
            executor = Executor(scheduler, client, EventRecorder(client), WallTimer(), lambda: None)
            executor.carry_out()
            while executor.busy:
                await asyncio.sleep(0.01)
    finally:
        await server.stop()


@pytest.mark.parametrize("act", RAISED, ids=lambda act: act.__name__)
def test_what_is_left_for_later_ends_nothing(act: Act, caplog: pytest.LogCaptureFixture) -> None:
    async def later() -> None:
        act()

    scheduler = scheduler_with(hostile((FilterPlugin,), "filter", gives(None)))
    scheduler.handle.run_later(later())
    asyncio.run(_carry_out(scheduler))
    if "Cancelled" not in act.__name__:
        assert "later" in caplog.text or "carrying out" in caplog.text


@pytest.mark.parametrize("act", [*RAISED, gives(None)], ids=lambda act: act.__name__)
def test_what_cannot_be_written_is_a_fault_as_well(
    act: Act, caplog: pytest.LogCaptureFixture
) -> None:
    async def flush(self: Any, api: Any) -> Any:
        return act()

    deferring = {"has_work": True, "flush": flush}
    plugin = hostile((DeferringPlugin, FilterPlugin), "filter", for_each("all", Verdicts))
    scheduler = scheduler_with(type("Hostile", (plugin,), deferring))
    faults: list[PluginFault] = []
    scheduler.handle.faults.observe = faults.append
    asyncio.run(_carry_out(scheduler))
    assert [(fault.plugin, fault.point) for fault in faults] == [("Hostile", "Flush")]
    assert "could not write what it left" in caplog.text
