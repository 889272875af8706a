"""A scheduler process takes up a saved plugin file, and keeps what it has if something is wrong."""

import asyncio
from pathlib import Path

import pytest

from app.test_process import Stage, Started, run
from moorage.app import plugin_reload
from moorage.app.plugin_reload import PluginFiles
from moorage.config import load_config
from moorage.errors import ConfigError
from moorage.kube.plugin_client import PluginClient
from moorage.kube.resources import resource_for
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod
from moorage.testing.virtual import VirtualScheduler

PLUGIN = """\
import time

from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import Reason


class Only(NodeFilterPlugin):
    name = "Only"

    def filter_node(self, pod, node):
        %s
"""
ACCEPTS = "return None if node.node.name == '%s' else Reason('not there')"


async def _node_of(stage: Stage, name: str) -> str:
    containers = [{"name": "main", "image": "pause"}]
    spec = {"containers": containers}
    await stage.create("Pod", "default", metadata={"name": name}, spec=spec)
    while True:
        pod = await stage.client.get(resource_for("Pod"), "default", name)
        if node := pod["spec"].get("nodeName"):
            return str(node)
        await asyncio.sleep(0.02)


async def _notes(stage: Stage, reason: str) -> list[str]:
    events = await PluginClient(stage.client).list("Event")
    return [one["note"] for one in events if one["reason"] == reason]


def test_a_saved_file_is_taken_up_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "only.py"

    def save(body: str) -> None:
        (tmp_path / "new").write_text(PLUGIN % body)
        (tmp_path / "new").rename(file)

    async def refused(started: Started, body: str) -> str:
        save(body)
        line = await started.says("The plugins were not reloaded")
        return line.replace('\\"', '"')

    async def test(stage: Stage) -> None:
        save(ACCEPTS % "n1")
        plugins = {"filter": {"enabled": [{"name": "Only"}]}}
        stage.write(leaderElection={"leaderElect": False}, profiles=[{"plugins": plugins}])
        async with stage.scheduler(f"--plugin={file}") as started:
            await started.says("scheduling for")
            for name in ("n1", "n2"):
                amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
                status = {"allocatable": amounts, "capacity": amounts}
                await stage.create("Node", "", metadata={"name": name}, status=status)
            assert await _node_of(stage, "a") == "n1"
            save(ACCEPTS % "n2")
            await started.says("Reloaded plugins")
            assert await _node_of(stage, "b") == "n2"

            assert f"{file}:11: " in await refused(started, "return (")
            assert "class Only: running" in await refused(started, "return 'no'")
            assert "KeyError: 'team'" in await refused(started, "return pod.labels['team']")
            said = await refused(started, "raise SystemExit(1)")
            assert f"({file}:11)" in said
            assert await _node_of(stage, "c") == "n2"

            save(ACCEPTS % "n1")
            await started.says("Reloaded plugins")
            assert await _node_of(stage, "d") == "n1"
            metrics = await started.get("/metrics")
            assert 'moorage_plugin_reloads_total{result="success"} 2' in metrics
            assert 'moorage_plugin_reloads_total{result="error"} 4' in metrics
            while len(await _notes(stage, "PluginReloadFailed")) < 4:
                await asyncio.sleep(0.02)
            note = (await _notes(stage, "PluginReloadFailed"))[0]
            assert note.startswith(f"the plugins of {file} were not read again and stay as they ")
            assert f"{file}:11: " in note

    run(tmp_path, test)


def test_a_file_that_hangs_when_it_is_tried_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_reload, "CHECK_SECONDS", 1.0)
    file = tmp_path / "only.py"
    file.write_text(PLUGIN % "return None")
    files = PluginFiles([str(file)])
    made = VirtualScheduler(in_tree_registry()["NodeName"])
    made.add(make_node("n1"), make_pod("a"), make_pod("b", cpu="64"))
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {enabled: [{name: Only}]}}}]\n",
        "test",
    )
    assert asyncio.run(files.renewed(made.engine, config)) is None
    file.write_text(PLUGIN % "while True: pass")
    with pytest.raises(ConfigError, match=r"only\.py: trying it took longer than 1s"):
        asyncio.run(files.renewed(made.engine, config))
    assert asyncio.run(files.renewed(made.engine, config)) is None  # it is not tried again
    for text in ("x = " + "-" * 100_000 + "1", "raise KeyboardInterrupt", "raise StopIteration"):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"only\.py:"):
            asyncio.run(files.renewed(made.engine, config))
    file.write_text(PLUGIN % "return Reason('no')")
    versions = asyncio.run(files.renewed(made.engine, config))
    assert versions is not None
    before = files.registry()["Only"]
    files.use(versions)
    assert files.registry()["Only"] is not before
    made.close()
