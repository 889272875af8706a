"""Whatever an object contains, the worst case is that this one object is skipped, with its name."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.errors import DecodeError, StateError
from moorage.kube.api_port import status_body
from moorage.kube.client import _page
from moorage.kube.decoding import (
    MOST_NAMED,
    Malformed,
    ObjectReader,
    SkippedObjects,
    envelope,
    outline,
)
from moorage.kube.extender_messages import keep_source, source_of
from moorage.kube.live import build_scheduler, event_handler
from moorage.kube.resources import resource_for
from moorage.kube.store import Handler, Store
from moorage.model.devices import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing.builders import make_node, make_pod

DEEP = b'{"f:a":' * 9_000 + b"{}" + b"}" * 9_000
POD = b"""{"metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"7"%s},"spec":{
"schedulerName":"default-scheduler","containers":[{"name":"c"}]%s},"status":{%s}}"""


def pod_json(metadata: bytes = b"", spec: bytes = b"", status: bytes = b"") -> bytes:
    return POD % (metadata, spec, status)


def make_scheduler() -> Scheduler:
    registry = in_tree_registry()
    return build_scheduler(default_config(), registry, DEFAULT_FEATURE_GATES, VirtualClock(0.0))


def read(data: bytes, kind: str = "Pod") -> tuple[ApiObject | Malformed, SkippedObjects]:
    reader = ObjectReader(resource_for(kind))
    return reader.read(msgspec.Raw(data)), reader.skipped


DEEP_PODS = {
    "managed fields": pod_json(metadata=b',"managedFields":[{"fieldsV1":' + DEEP + b"}]"),
    "unknown part of the spec": pod_json(spec=b',"surprise":' + DEEP),
    "unknown part of the status": pod_json(status=b'"surprise":[' + DEEP + b"]"),
}


@pytest.mark.parametrize("data", DEEP_PODS.values(), ids=list(DEEP_PODS))
def test_a_pod_that_is_nested_deeply_where_nobody_looks_is_read(data: bytes) -> None:
    found, skipped = read(data)
    assert isinstance(found, Pod)
    assert (found.key, found.spec.containers[0].name) == ("n/p", "c")
    assert not skipped
    assert outline(data).metadata.resource_version == "7"


def test_a_watch_tells_of_deep_objects_as_of_others() -> None:
    for data in DEEP_PODS.values():
        event = envelope(b'{"type":"DELETED","object":' + data + b"}\n")
        assert event is not None
        assert (event.type, outline(event.object).metadata.name) == ("DELETED", "p")


@pytest.mark.parametrize("bad", [DEEP_PODS["managed fields"], b'{"metadata":{"name":"b\x00"}}'])
def test_one_member_spoils_no_page(bad: bytes) -> None:
    body = b'{"metadata":{"resourceVersion":"5"},"items":[%s,%s,%s]}'
    found = _page(body % (pod_json(), bad, pod_json()))
    assert found.metadata.resource_version == "5"
    assert [bytes(item) for item in found.items or ()] == [pod_json(), bad, pod_json()]


def test_an_extender_gets_a_deep_pod_without_its_managed_fields() -> None:
    data = DEEP_PODS["managed fields"]
    found, _ = read(data)
    assert isinstance(found, Pod)
    keep_source(found, data)
    assert msgspec.json.decode(source_of(found))["metadata"]["name"] == "p"


def test_deep_parameters_of_a_claim_are_handed_to_the_driver_as_they_are() -> None:
    config = b'[{"opaque":{"driver":"d","parameters":%s}}]' % DEEP
    data = b'{"metadata":{"name":"c","namespace":"n"},"spec":{"devices":{"config":%s}}}' % config
    found, skipped = read(data, "ResourceClaim")
    assert isinstance(found, ResourceClaim)
    assert not skipped
    opaque = found.spec.devices.config[0].opaque
    allocated = (DeviceAllocationConfiguration(source="FromClaim", opaque=opaque),)
    devices = DeviceAllocationResult(config=allocated)
    body = status_body(ResourceClaimStatus(allocation=AllocationResult(devices=devices)))
    assert b'"parameters":' + DEEP in msgspec.json.encode(body)


SKIPPED: dict[str, tuple[bytes, str]] = {
    "a priority beyond 32 bits": (pod_json(spec=b',"priority":2147483648'), "spec.priority"),
    "a priority beyond 64 bits": (pod_json(spec=b',"priority":1' + b"0" * 30), "spec.priority"),
    "a number of 5000 digits": (pod_json(spec=b',"priority":' + b"9" * 5000), "out of range"),
    "invalid UTF-8": (pod_json(spec=b',"nodeName":"\xff"'), "UnicodeDecodeError"),
    "a lone surrogate": (pod_json(spec=b',"nodeName":"\\ud800"'), "this is not JSON"),
    "a control character": (pod_json(spec=b',"nodeName":"\x00"'), "this is not JSON"),
    "a wrong type": (pod_json(spec=b',"nodeName":[]'), "spec.nodeName"),
    "a quantity that is none": (pod_json(spec=b',"overhead":{"cpu":"x"}'), "is not a quantity"),
    "a request below zero": (pod_json(spec=b',"overhead":{"cpu":"-9E"}'), "must not be negative"),
    "a deep value that is read": (pod_json(spec=b',"nodeName":' + DEEP), "spec.nodeName"),
    "a document that is not closed": (pod_json(spec=b',"a":' + b"[" * 9000), "this is not JSON"),
}


@pytest.mark.parametrize(("data", "reason"), SKIPPED.values(), ids=list(SKIPPED))
def test_what_cannot_be_read_is_named_and_skipped(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    found, skipped = read(data)
    assert found == Malformed("n/p", "7")
    assert len(skipped) == 1
    assert "skipped Pod n/p: " in caplog.text
    assert reason in caplog.text


TAKEN: dict[str, bytes] = {
    "a time out of range": pod_json(status=b'"startTime":"0001-01-01T00:00:00+14:00"'),
    "a quantity beyond 64 bits": pod_json(spec=b',"overhead":{"cpu":"1e400","memory":"9E9"}'),
    "a key that comes twice": pod_json(spec=b',"nodeName":"a","nodeName":"b"'),
    "invalid UTF-8 where nobody looks": pod_json(metadata=b',"x":"\xff"'),
    "an escaped NUL": pod_json(metadata=b',"annotations":{"a":"\\u0000"}'),
    "a long text": pod_json(metadata=b',"annotations":{"a":"' + b"x" * (1 << 20) + b'"}'),
}


@pytest.mark.parametrize("data", TAKEN.values(), ids=list(TAKEN))
def test_what_is_odd_but_means_something_is_taken(data: bytes) -> None:
    found, _ = read(data)
    assert isinstance(found, Pod)
    scheduler = make_scheduler()
    scheduler.handlers.add_node(make_node("a"))
    scheduler.handlers.add_pod(found.on_node("a"))
    scheduler.handlers.add_pod(make_pod("other", node_name="a"))
    assert len(scheduler.state.pods.lesser_pods(2**31 - 1, 0.0)) == 2


def test_the_name_of_an_object_is_found_even_if_it_is_no_json() -> None:
    assert outline(pod_json(spec=b',"a":\x00')).metadata.name == "p"
    assert outline(b"what?").metadata.name == ""


ERRORS: list[Exception] = [
    ValueError("v"),
    OverflowError("o"),
    RecursionError("r"),
    MemoryError("m"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "u"),
    KeyError("k"),
    TypeError("t"),
    IndexError("i"),
    AttributeError("a"),
    AssertionError("s"),
    ZeroDivisionError("z"),
    StateError("x"),
    DecodeError("d"),
]


class Fails(Handler):
    """A handler that cannot take some pods, after others took them."""

    def __init__(self, error: Exception, fails: Callable[[Pod], bool]) -> None:
        self._error = error
        self._fails = fails

    def on_add(self, obj: ApiObject, /) -> None:
        assert isinstance(obj, Pod)
        if self._fails(obj):
            raise self._error

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        self.on_add(new)


def pod(name: str, version: int, node: str = "", **more: Any) -> Pod:
    made = make_pod(name, node_name=node, requests={"cpu": "1"}, **more)
    meta = msgspec.structs.replace(made.metadata, resource_version=str(version))
    return msgspec.structs.replace(made, metadata=meta)


def stores(*more: Fails) -> tuple[Scheduler, Store]:
    scheduler = make_scheduler()
    nodes = Store([event_handler(scheduler.handlers, "Node")])
    for name in ("a", "b"):
        nodes.put(make_node(name))
    handlers: list[Handler] = [event_handler(scheduler.handlers, "Pod"), *more]
    return scheduler, Store(handlers, SkippedObjects("Pod"))


def figures(scheduler: Scheduler) -> dict[str, Any]:
    """All that the state and the queue say."""
    state = scheduler.state
    return {
        "requested": {
            name: values.tolist() for name, values in state.nodes.requested.items() if values.any()
        },
        "counts": state.nodes.pod_count.values.tolist(),
        "pods": [sorted(pod.key for pod in state.pods.on(row)) for row in range(len(state))],
        "placed": sorted((pod.key, node) for pod, node in state.placed_pods()),
        "listed": sorted(pod.key for pod in state.listers.of(Pod)),
        "queued": sorted(pod.key for pod in scheduler.queue.view.pending_pods().active),
        "sizes": state.sizes(),
    }


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("node", ["", "a"])
def test_a_pod_that_cannot_be_taken_leaves_no_trace(
    error: Exception, node: str, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler, pods = stores(Fails(error, lambda pod: pod.name == "bad"))
    fresh, others = stores()
    for store in (pods, others):
        store.put(pod("one", 1, "a"))
    pods.put(pod("bad", 2, node))
    for store in (pods, others):
        store.put(pod("two", 3, "b"))
        store.put(pod("three", 4))
    assert figures(scheduler) == figures(fresh)
    assert list(pods.objects) == list(others.objects)
    assert len(pods.skipped) == 1
    assert "skipped Pod default/bad: " in caplog.text
    pods.remove("default/bad")
    assert not pods.skipped


def test_a_change_that_cannot_be_taken_leaves_the_pod_as_it_was() -> None:
    scheduler, pods = stores(Fails(ValueError("v"), lambda pod: pod.labels == {"bad": "yes"}))
    fresh, others = stores()
    for store in (pods, others):
        store.put(pod("one", 1, "a"))
    pods.put(pod("one", 2, "a", labels={"bad": "yes"}))
    assert figures(scheduler) == figures(fresh)
    for store in (pods, others):
        store.put(pod("one", 3, "a", labels={"good": "yes"}))
    assert figures(scheduler) == figures(fresh)
    assert not pods.skipped
    assert pods.objects["default/one"].metadata.resource_version == "3"


def test_a_pod_that_is_bound_and_cannot_be_taken_waits_as_before() -> None:
    scheduler, pods = stores(Fails(ValueError("v"), lambda pod: pod.spec.node_name == "b"))
    fresh, others = stores()
    for store in (pods, others):
        store.put(pod("one", 1))
    pods.put(pod("one", 2, "b"))
    assert figures(scheduler) == figures(fresh)


def test_what_is_told_later_is_skipped_as_well() -> None:
    scheduler, pods = stores(Fails(ValueError("v"), lambda pod: pod.labels == {"bad": "yes"}))
    fresh, others = stores()
    backlog: deque[Any] = deque()
    pods.hold(backlog)
    pods.put(pod("one", 1, "a", labels={"bad": "yes"}))
    pods.put(pod("one", 2, "a", labels={"good": "yes"}))
    pods.put(pod("two", 3, "a", labels={"bad": "yes"}))
    pods.remove("default/two")
    while backlog:
        backlog.popleft()()
    others.put(pod("one", 2, "a", labels={"good": "yes"}))
    assert figures(scheduler) == figures(fresh)


def test_the_log_has_an_object_once_and_remembers_no_more_than_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    skipped = SkippedObjects("Pod")
    for _ in range(3):
        skipped.skip("n/p", ValueError("v"))
    assert caplog.text.count("skipped Pod n/p") == 1
    with caplog.at_level(logging.CRITICAL):
        for number in range(MOST_NAMED + 10):
            skipped.skip(f"n/{number}", ValueError("v"))
    assert len(skipped) == MOST_NAMED
