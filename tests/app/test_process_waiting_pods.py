"""A scheduler process that ends while pods wait in Permit and PreBind."""

import signal
import time
from pathlib import Path

import pytest

from app.test_process import Stage, run

PLUGIN = """
import asyncio
import sys

from moorage.framework.plugin import PermitPlugin, PreBindPlugin, ReservePlugin
from moorage.framework.status import Code, Status


def say(text, pod):
    print(text, pod.name, file=sys.stderr, flush=True)


class Waits(ReservePlugin, PermitPlugin, PreBindPlugin):
    name = "Waits"

    def reserve(self, pod, node_name):
        say("reserved", pod)

    def unreserve(self, pod, node_name):
        say("unreserved", pod)

    def permit(self, pod, node_name):
        if pod.labels.get("waits") == "permit":
            return Status(Code.WAIT), 600
        return None, 0.0

    def has_pre_bind_work(self, pod, node_name):
        return "waits" in pod.labels

    async def pre_bind(self, pod, node_name, api):
        await asyncio.sleep(3600)
"""


@pytest.mark.parametrize("point", ["permit", "preBind"])
def test_it_ends_within_a_second_and_the_pods_are_left_to_the_next(
    point: str, tmp_path: Path
) -> None:
    file = tmp_path / "waits.py"
    file.write_text(PLUGIN)

    async def test(stage: Stage) -> None:
        enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Waits"}]}}}
        stage.write(profiles=[enabled])
        async with stage.scheduler(f"--plugin={file}", "--v=4") as started:
            await stage.bound("n1")
            for number in range(3):
                meta = {"name": f"p{number}", "labels": {"waits": point}}
                spec = {"containers": [{"name": "main", "image": "pause"}]}
                await stage.create("Pod", "default", metadata=meta, spec=spec)
            while len([line for line in started.said if "nominatedNodeName" in line]) < 3:
                await started.says("nominatedNodeName")  # written when they begin to wait
            began = time.monotonic()
            assert await started.told(signal.SIGTERM) == 0
            assert time.monotonic() - began < 1
        ended = "".join(started.said)
        assert [f"unreserved p{number}" in ended for number in range(3)] == [True] * 3
        assert "Traceback" not in ended
        assert "Error scheduling pod" not in ended
        stage.write()
        async with stage.scheduler("--v=2"):
            for number in range(3):
                await stage.is_bound(f"p{number}")

    run(tmp_path, test)
