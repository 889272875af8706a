"""Virtual time is like real time: one script on `moorage up` and in a simulation, compared.

200 pods of Deployments, Jobs and their own come in bursts, end, fail and are tried again, wait,
back off and preempt others; a node is cordoned for a while. What is bound where, in which order,
must be the same, and how long each pod waited within 100 ms and what this machine was late by. That
is measured: the slowest answer of the API server, which shares its loop with scheduler, controllers
and kubelets, to something that it is asked all the time. The script keeps apart by `_GAP` what
could overtake one another; if the machine was late by half of that, the test is skipped.
"""

import json
import math
import os
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.config import default_config
from moorage.controllers.cluster import Key
from moorage.controllers.kubelet import EXIT_CODE, FINISH_AFTER, KubeletOptions
from moorage.controllers.objects import Json, labels, meta, spec
from moorage.controllers.triggers import FOLLOWED
from moorage.controlplane.processes import ChildProcess, wait_until_ready
from moorage.kube.resources import Resource, resource_for
from moorage.scenarios.simulation import Simulation
from moorage.simulator.node_shapes import parse_shape, shaped_nodes
from moorage.simulator.world import full_registry

_SOURCE = Path(__file__).parents[2] / "src"
_SHAPE = "8:cpu=8,memory=64Gi,name=quay"
_LENGTH = 62.0
_GAP = 0.7
"""Between moments whose order matters."""
_ALLOWED = 0.1
_BETWEEN_PODS = 0.015
"""Between pods that come together: none has to wait for the request before."""


class Step(NamedTuple):
    """Something that is done at a time: create, change or delete an object."""

    at: float
    kind: str
    name: str
    body: Json | None = None
    changes: Json | None = None


class BoundPod(NamedTuple):
    """A pod found a node."""

    at: float
    app: str
    node: str
    waited: float


def _template(app: str, cpu: str, lasts: float | None = None, **more: Any) -> Json:
    notes = {} if lasts is None else {FINISH_AFTER: f"{lasts}s"}
    if more.pop("fails", False):
        notes[EXIT_CODE] = "1"
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
    if lasts is not None:
        more["restartPolicy"] = "Never"
    return {
        "metadata": {"labels": {"app": app}, "annotations": notes},
        "spec": {"containers": [container], **more},
    }


def _pods(at: float, app: str, count: int, cpu: str, lasts: Any = None, **more: Any) -> list[Step]:
    """Pods of their own; `lasts` may be a function of their number."""
    steps = []
    for number in range(count):
        seconds = lasts(number) if callable(lasts) else lasts
        one = _template(app, cpu, seconds, **more)
        metadata = {**one["metadata"], "name": f"{app}-{number}", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "Pod", **one, "metadata": metadata}
        steps.append(Step(at + number * _BETWEEN_PODS, "Pod", f"{app}-{number}", body))
    return steps


def _deployment(at: float, app: str, replicas: int, cpu: str) -> Step:
    given = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "template": _template(app, cpu),
    }
    return Step(at, "Deployment", app, _object("apps/v1", "Deployment", app, given))


def _job(at: float, app: str, template: Json, **given: Any) -> Step:
    given = {**given, "template": template}
    return Step(at, "Job", app, _object("batch/v1", "Job", app, given))


def _object(version: str, kind: str, name: str, given: Json) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": given}


def _priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Step:
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }
    return Step(0.3, "PriorityClass", name, body)


def _cordon(at: float, *, on: bool) -> Step:
    return Step(at, "Node", "quay-7", changes={"spec": {"unschedulable": on or None}})


def _script() -> list[Step]:
    """All times end in .3 or so: what the API rounds to seconds is rounded alike on both sides."""
    steps = [
        _priority_class("low", -10),
        _priority_class("patient", 0, "Never"),
        _priority_class("urgent", 100),
        _deployment(2.3, "web", 24, "500m"),
        _deployment(3.3, "api", 12, "250m"),
        _job(4.3, "crunch", _template("crunch", "500m", 4.0), completions=60, parallelism=20),
        _job(5.3, "flaky", _template("flaky", "100m", 1.0, fails=True), backoffLimit=1),
        *_pods(7.3, "ship", 32, "250m", 3.7),
        *_pods(18.3, "filler", 40, "1", lambda i: 9.0 + _GAP * i, priorityClassName="low"),
        *_pods(20.3, "large", 5, "3", priorityClassName="patient"),
        *(
            one._replace(at=21.3 + 1.5 * number)  # one by one
            for number, one in enumerate(_pods(0, "urgent", 3, "4", priorityClassName="urgent"))
        ),
        _cordon(56.3, on=True),
        *_pods(57.3, "late", 10, "250m", 2.0),
        *_pods(58.3, "bound-to", 2, "100m", nodeSelector={"kubernetes.io/hostname": "quay-7"}),
        _cordon(60.3, on=False),
        Step(61.0, "Deployment", "web", changes={"spec": {"replicas": 34}}),
    ]
    return sorted(steps, key=lambda step: step.at)


# In virtual time.


def _simulated(script: Sequence[Step]) -> list[BoundPod]:
    kubelets = KubeletOptions(lease_seconds=0)
    run = Simulation(default_config(), full_registry(), kubelets=kubelets)
    watch = Watch()
    run.api.followers.append(lambda _, after: watch.see(run.elapsed, after or {}))
    for body in shaped_nodes([parse_shape(_SHAPE)]):
        run.come(dict(body))
    for step in script:
        run.plan(step.at, lambda step=step: _do(run, step))  # type: ignore[misc]
    run.play(_LENGTH)
    run.close()
    return watch.bound


def _do(run: Simulation, step: Step) -> None:
    key = Key(step.kind, "" if step.kind in ("Node", "PriorityClass") else "default", step.name)
    if step.body is not None:
        run.api.create(step.body)
    elif step.changes is not None:
        run.api.patch(key, step.changes)


class Watch:
    """Notes when pods came and when they were bound."""

    def __init__(self) -> None:
        self.bound: list[BoundPod] = []
        self._came: dict[str, float] = {}
        self._placed: set[str] = set()

    def see(self, now: float, obj: Json) -> None:
        """An object came or changed."""
        if obj.get("kind") != "Pod":
            return
        uid, node = meta(obj)["uid"], spec(obj).get("nodeName", "")
        came = self._came.setdefault(uid, now)
        if node and uid not in self._placed:
            self._placed.add(uid)
            self.bound.append(BoundPod(now, labels(obj)["app"], node, now - came))


# In real time.


class LiveCluster:
    """`moorage up`, as clients see it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.watch = Watch()
        self.late = 0.0
        """The worst lateness of the script, and the longest that an answer took."""
        self._ended = threading.Event()
        self._began = 0.0
        self._client = self._connection()

    def run(self, script: Sequence[Step]) -> None:
        """Do everything at its time."""
        self._began = math.ceil(time.time()) + 1.0
        threads = [threading.Thread(target=one) for one in (self._follow, self._probe)]
        for thread in threads:
            thread.start()
        try:
            for step in script:
                self._wait_until(step.at)
                self.late = max(self.late, self._now() - step.at)
                self._send(step)
            self._wait_until(_LENGTH)
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
            self._client.close()

    def _now(self) -> float:
        return time.time() - self._began

    def _wait_until(self, at: float) -> None:
        self._ended.wait(max(at - self._now(), 0.0))

    def _connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=60)

    def _send(self, step: Step) -> None:
        resource = _resource(step.kind)
        namespace = "default" if resource.namespaced and step.kind != "Node" else ""
        if step.body is not None:
            self._request("POST", resource.collection(namespace), step.body)
        else:
            self._request("PATCH", resource.item(namespace, step.name), step.changes or {})

    def _request(self, verb: str, path: str, body: Json) -> None:
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        self._client.request(verb, path, json.dumps(body), {"Content-Type": kind})
        answer = self._client.getresponse()
        text = answer.read()
        assert answer.status < 300, text

    def _follow(self) -> None:
        """Watch pods; the server ends the watch a moment after the script."""
        client = self._connection()
        client.request("GET", f"/api/v1/pods?watch=1&timeoutSeconds={math.ceil(_LENGTH) + 3}")
        answer = client.getresponse()
        while line := answer.readline():
            self.watch.see(self._now(), json.loads(line)["object"])
        client.close()

    def _probe(self) -> None:
        """Ask for something small all the time: how late is the loop that does everything?"""
        client = self._connection()
        while not self._ended.wait(0.05):
            began = time.monotonic()
            client.request("GET", "/api/v1/namespaces/default")
            client.getresponse().read()
            self.late = max(self.late, time.monotonic() - began)
        client.close()


def _resource(kind: str) -> Resource:
    return resource_for(FOLLOWED[kind] if kind in ("Deployment", "Job") else kind)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    """A running `moorage up` with the nodes of the script."""
    log = tmp_path / "log"
    process = ChildProcess(
        "moorage-up",
        [sys.executable, "-m", "moorage", "up", "--port", "0", "--no-page", "--shape", _SHAPE],
        log,
        os.environ | {"PYTHONPATH": str(_SOURCE)},
    )
    try:
        wait_until_ready(process, lambda: "Ctrl-C" in log.read_text(), 60)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
        assert found is not None
        yield LiveCluster(int(found[1]))
    finally:
        process.stop()


# Both.


def _moments(bound: Sequence[BoundPod]) -> Iterator[Sequence[BoundPod]]:
    """Pods that are bound soon after one another: their requests may overtake one another."""
    first = 0
    for number in range(1, len(bound) + 1):
        if number == len(bound) or bound[number].at - bound[number - 1].at > _ALLOWED:
            yield bound[first:number]
            first = number


def _places(bound: Sequence[BoundPod]) -> Counter[tuple[str, str]]:
    return Counter((pod.app, pod.node) for pod in bound)


def _waits(bound: Sequence[BoundPod]) -> dict[tuple[str, str], list[float]]:
    found = defaultdict(list)
    for pod in bound:
        found[pod.app, pod.node].append(pod.waited)
    return {key: sorted(times) for key, times in found.items()}


def test_virtual_time_is_like_real_time(live: LiveCluster) -> None:
    script = _script()
    simulated = _simulated(script)
    assert len(simulated) >= 200
    assert {"large", "urgent", "bound-to"} <= {pod.app for pod in simulated if pod.waited > 0.9}
    live.run(script)
    if live.late > _GAP / 2:
        pytest.skip(f"this machine was late by {live.late:.2f} s: nothing can be compared")
    real = live.watch.bound
    assert _places(real) == _places(simulated)
    left = real
    for moment in _moments(simulated):
        now, left = left[: len(moment)], left[len(moment) :]
        assert _places(now) == _places(moment), f"at {moment[0].at:.1f} s"
        allowed = _ALLOWED + live.late
        for key, waits in _waits(moment).items():
            assert _waits(now)[key] == pytest.approx(waits, abs=allowed, rel=0), key
