"""A scheduler process whose plugin does not answer: it lives and leads, and the pod is told why."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.test_process import Stage, Started, run
from moorage.kube.resources import resource_for

ELECTION = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
PLUGIN = """
import socket
import time

from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.plugin import (
    NodeFilterPlugin, PermitPlugin, PreEnqueuePlugin, QueueSortPlugin, ReservePlugin,
)
from moorage.framework.status import Reason


def hang(pod, point):
    if pod.labels.get("hangs") != point:
        return
    print("hanging", flush=True)
    match pod.labels["how"]:
        case "sleeps":
            time.sleep(3600)
        case "reads":
            ours, theirs = socket.socketpair()
            ours.recv(1)
        case "swallows":
            while True:
                try:
                    time.sleep(3600)
                except Exception:
                    pass
        case "computes":
            while True:
                pass


class Hangs(
    NodeFilterPlugin, PermitPlugin, PreEnqueuePlugin, QueueSortPlugin, ReservePlugin
):
    name = "Hangs"

    def pre_enqueue(self, pod):
        hang(pod, "PreEnqueue")

    def sort_key(self, pod, timestamp):
        hang(pod, "QueueSort")
        return timestamp

    def events_to_register(self):
        def hint(pod, old, new):
            hang(pod, "QueueingHint")
            return True
        return [on(EventResource.NODE, ActionType.ALL, hint)]

    def filter_node(self, pod, node):
        hang(pod, "Filter")
        if pod.labels.get("hangs") == "QueueingHint" and node.node.name != "n2":
            return Reason("not here")

    def reserve(self, pod, node_name):
        hang(pod, "Reserve")

    def unreserve(self, pod, node_name):
        hang(pod, "Unreserve")

    def permit(self, pod, node_name):
        hang(pod, "Permit")
        return None, 0.0
"""


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    }


def fault(point: str) -> str:
    labels = f'extension_point="{point}",kind="timeout",plugin="Hangs"'
    return f"moorage_plugin_faults_total{{{labels}}}"


@asynccontextmanager
async def _leading(stage: Stage, seconds: str, **more: Any) -> AsyncIterator[Started]:
    """A scheduler that leads, and a node."""
    file = stage.folder / "hangs.py"
    file.write_text(PLUGIN)
    plugins = {
        "multiPoint": {"enabled": [{"name": "Hangs"}]},
        "queueSort": {"enabled": [{"name": "Hangs"}], "disabled": [{"name": "*"}]},
    }
    stage.write(leaderElection=ELECTION, profiles=[{"plugins": plugins}], **more)
    flags = (f"--plugin={file}", f"--plugin-call-timeout={seconds}")
    async with stage.scheduler(*flags) as started:
        await started.says("Successfully acquired lease")
        await stage.bound("n1")
        yield started


async def _refusal(stage: Stage, name: str) -> str:
    """What the scheduler says of a pod."""
    while True:
        found = await stage.client.get(resource_for("Pod"), "default", name)
        for condition in found.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return f"{condition['reason']}: {condition['message']}"
        await asyncio.sleep(0.02)


def test_it_is_healthy_and_leads_and_binds_while_a_plugin_does_not_answer(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        async with _leading(stage, "1h") as started:
            await stage.create("Pod", "default", **pod("p", hangs="Filter", how="sleeps"))
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
            assert started.process.returncode is None
            assert await started.told(signal.SIGTERM) == 0

    run(tmp_path, test)


@pytest.mark.parametrize("how", ["sleeps", "reads", "computes", "swallows"])
def test_a_call_ends_when_its_time_is_up_however_it_hangs(tmp_path: Path, how: str) -> None:
    async def test(stage: Stage) -> None:
        async with _leading(stage, "500ms") as started:
            await stage.create("Pod", "default", **pod("p", hangs="Filter", how=how))
            said = await _refusal(stage, "p")
            assert said.startswith(
                'SchedulerError: running "Hangs" filter plugin: no answer within'
            )
            assert f"({stage.folder / 'hangs.py'}:" in said
            await stage.bound("n2")
            assert fault("Filter") in await started.get("/metrics")
            assert await started.told(signal.SIGTERM) == 0

    run(tmp_path, test)


def test_a_call_in_the_engines_own_thread_is_ended_if_it_runs_python_code(tmp_path: Path) -> None:
    # Not asked, as only one node fits; but attempts are made in a thread because it might be.
    extender = {"urlPrefix": "http://127.0.0.1:1", "prioritizeVerb": "rank", "weight": 1}

    async def test(stage: Stage) -> None:
        async with _leading(stage, "4s", extenders=[extender]) as started:
            await stage.create("Pod", "default", **pod("p", hangs="Filter", how="computes"))
            before = (await stage.lease())["spec"]["renewTime"]
            await started.get("/livez")
            assert "no answer in time" in await _refusal(stage, "p")
            assert (await stage.lease())["spec"]["renewTime"] != before
            assert await started.told(signal.SIGTERM) == 0

    run(tmp_path, test)


def test_the_process_goes_on_whatever_point_does_not_answer(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        async with _leading(stage, "400ms") as started:
            for point in ("Reserve", "Permit"):
                name = point.lower()
                await stage.create("Pod", "default", **pod(name, hangs=point, how="sleeps"))
                assert f'running {point} plugin "Hangs": no answer' in await _refusal(stage, name)
            for point in ("PreEnqueue", "QueueSort"):
                await stage.create("Pod", "default", **pod(point.lower(), hangs=point, how="reads"))
            await stage.create(
                "Pod", "default", **pod("hint", hangs="QueueingHint", how="computes")
            )
            assert "not here" in await _refusal(stage, "hint")
            await stage.bound("n2")
            for name in ("queuesort", "hint"):
                while not (await stage.client.get(resource_for("Pod"), "default", name))[
                    "spec"
                ].get("nodeName"):
                    await asyncio.sleep(0.02)
            metrics = await started.get("/metrics")
            for point in ("Reserve", "Permit", "PreEnqueue", "QueueSort", "QueueingHint"):
                assert fault(point) in metrics
            assert await started.told(signal.SIGTERM) == 0

    run(tmp_path, test)
