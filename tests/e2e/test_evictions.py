"""Many preemptions on one node: who is deleted, and how many requests it takes.

Both schedulers get the same work: a node full of unimportant pods, and as many important ones. A
stand-in for the kubelet ends graceful deletions, and one for the StatefulSet controller makes a
deleted pod again under the same name. The audit log tells what the scheduler asked for.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import NamedTuple

import pytest

from e2e.client import Api, ApiError, Json, names, wait_for
from e2e.cluster import SCHEDULER, ControlPlane, empty
from e2e.objects import node, pod, priority_class
from e2e.schedulers import MOORAGE, PEER, Scheduler

_SECONDS = 120.0
_PEER_SECONDS = 20.0
_REPETITIONS = int(os.environ.get("MOORAGE_E2E_EVICTIONS", "1"))
_PLAIN, _STATEFUL = "plain", "stateful"
_PODS = "/api/v1/namespaces/{}/pods"


class Outcome(NamedTuple):
    """What one run took."""

    patches: int
    deletions: int
    victims: int
    """How many victims were deleted."""
    wrong: int
    """How many pods were deleted that are no victims."""
    seconds: float
    """From the scheduler's first request to its last."""

    @property
    def per_victim(self) -> float:
        """How many requests were sent about a victim, or about pods of its name."""
        return (self.patches + self.deletions) / self.victims


class Controllers:
    """Stand-ins for the kubelet and the StatefulSet controller, at work in a thread."""

    def __init__(self, server: ControlPlane, namespace: str, *, stateful: bool) -> None:
        self._server = server
        self._namespace = namespace
        self._stateful = stateful
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._failure: Exception | None = None
        self.terminated: set[str] = set()
        """The uids of all pods whose deletion was asked for; none goes without being seen here."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and complain if something went wrong."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            with closing(Api(self._server.admin)) as api:
                while not self._stop.wait(0.02):
                    for item in api.list("Pod", self._namespace):
                        if "deletionTimestamp" in item["metadata"]:
                            self.terminated.add(item["metadata"]["uid"])
                            self._end(api, item)
        except Exception as failure:  # shown by `stop`, in the test's own thread
            self._failure = failure

    def _end(self, api: Api, item: Json) -> None:
        meta = item["metadata"]
        path = f"{_PODS.format(self._namespace)}/{meta['name']}"
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        try:
            api.call("DELETE", path, options)
        except ApiError as failure:
            if failure.code not in (404, 409):
                raise
        if self._stateful and meta["name"].startswith("victim-"):
            # On another node from the start, where nothing may happen to it.
            api.create(_pod(meta["name"], self._namespace, "low", nodeName="haven"))


@pytest.fixture(autouse=True)
def emptied(server: ControlPlane) -> Iterator[None]:
    yield
    with closing(Api(server.admin)) as api:
        empty(api)


@pytest.mark.parametrize("kind", [_PLAIN, _STATEFUL])
@pytest.mark.parametrize("victims", [10, 40, 80])
def test_each_victim_is_evicted_once_with_about_as_many_requests_as_kube_scheduler_sends(
    server: ControlPlane, scheduler: Callable[[str], Scheduler], victims: int, kind: str
) -> None:
    peer = _run(server, scheduler(PEER), victims, kind)
    ours = _run(server, scheduler(MOORAGE), victims, kind)
    assert ours.per_victim <= 1.5 * peer.per_victim
    assert (ours.victims, ours.deletions, ours.wrong) == (victims, victims, 0)


def test_no_pod_of_a_victims_name_is_deleted_in_its_place(
    server: ControlPlane, scheduler: Callable[[str], Scheduler]
) -> None:
    for repetition in range(_REPETITIONS):
        # A low rate, so that evictions wait while victims are made again.
        slow = _run(server, scheduler(MOORAGE), 40, f"{_STATEFUL}-slow-{repetition}", qps=20)
        assert (slow.deletions, slow.wrong) == (40, 0)


def _run(
    server: ControlPlane, scheduler: Scheduler, victims: int, label: str, qps: int = 50
) -> Outcome:
    """Have a scheduler replace all pods of a node by more important ones."""
    namespace = f"evictions-{scheduler.name}-{victims}-{label}"
    with closing(Api(server.admin)) as api:
        empty(api)
        _fill(api, namespace, victims)
        chosen = {item["metadata"]["uid"] for item in api.list("Pod", namespace)}
        with _controllers(server, namespace, stateful=label.startswith(_STATEFUL)) as seen:
            # The preemptors are there before the scheduler, which finds all of them at once.
            config = {"clientConnection": {"qps": qps, "burst": 2 * qps}}
            kubeconfig = server.kubeconfig(SCHEDULER)
            process = scheduler.start(kubeconfig, config, server.folder, namespace)
            try:
                _wait_for_preemptors(api, namespace, scheduler)
            finally:
                process.stop()
    entries = [e for e in server.audited(f'"{namespace}"') if e["user"]["uid"] == SCHEDULER]
    moments = sorted(datetime.fromisoformat(entry["stageTimestamp"]) for entry in entries)
    about_victims = [e for e in entries if e["objectRef"]["name"].startswith("victim-")]
    verbs = Counter(entry["verb"] for entry in about_victims)
    return Outcome(
        patches=verbs["patch"],
        deletions=verbs["delete"],
        victims=len(seen.terminated & chosen),
        wrong=len(seen.terminated - chosen),
        seconds=(moments[-1] - moments[0]).total_seconds(),
    )


def _fill(api: Api, namespace: str, victims: int) -> None:
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for name, value in (("low", 1), ("high", 1000)):
        api.create(priority_class(name, value))
    api.create(node("quay", cpu=str(victims), pods=str(2 * victims)))
    api.create(node("haven", cpu=str(victims), pods=str(2 * victims), unschedulable=True))
    for index in range(victims):
        api.create(_pod(f"victim-{index}", namespace, "low", nodeName="quay"))
    for index in range(victims):
        api.create(_pod(f"preemptor-{index}", namespace, "high"))


def _pod(name: str, namespace: str, priority: str, **spec: object) -> Json:
    body = pod(name, cpu="1", **spec, priorityClassName=priority)  # type: ignore[arg-type]
    body["metadata"]["namespace"] = namespace
    return body


@contextmanager
def _controllers(server: ControlPlane, namespace: str, *, stateful: bool) -> Iterator[Controllers]:
    controllers = Controllers(server, namespace, stateful=stateful)
    controllers.start()
    try:
        yield controllers
    finally:
        controllers.stop()


def _wait_for_preemptors(api: Api, namespace: str, scheduler: Scheduler) -> None:
    """Wait until all are bound.

    kube-scheduler at times leaves some of many unbound (until it looks again after five minutes),
    so it is not waited for that long: its requests per victim are what counts.
    """

    def waiting() -> list[str]:
        unbound = names(api.list("Pod", namespace, fieldSelector="spec.nodeName="))
        return [name for name in unbound if name.startswith("preemptor-")]

    try:
        limit = _PEER_SECONDS if scheduler.name == PEER else _SECONDS
        wait_for("all preemptors to be bound", lambda: not waiting(), limit)
    except AssertionError:
        if scheduler.name != PEER:
            raise
