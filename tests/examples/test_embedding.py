"""The programs of docs/embedding.md run, and options of `KubeScheduler` do what they say."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import moorage
from moorage.apiserver.server import ApiServer
from moorage.config import KubeSchedulerProfile
from moorage.errors import ConfigError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.resources import resource_for
from one_per_team import OnePerTeam

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "embedding"
SECONDS = 120
TEAMS = {"plugins": {"filter": {"enabled": [{"name": "OnePerTeam"}]}}}


class Cluster:
    """An API server with two nodes."""

    def __init__(self, server: ApiServer, client: KubeClient, folder: Path) -> None:
        self.client = client
        self.kubeconfig = folder / "kubeconfig"
        server.write_kubeconfig(self.kubeconfig)

    async def add_nodes(self, *names: str) -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        for name in names:
            body = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
            await self._create("Node", "", body)

    async def place(self, name: str, team: str, scheduler: str = "default-scheduler") -> str:
        """Create a pod and wait; the name of its node."""
        spec = {"containers": [{"name": "main", "image": "pause"}], "schedulerName": scheduler}
        body = {"metadata": {"name": name, "labels": {"team": team}}, "spec": spec}
        await self._create("Pod", "default", body)
        while not (node := (await self._pod(name))["spec"].get("nodeName", "")):
            await asyncio.sleep(0.02)
        return str(node)

    async def _create(self, kind: str, namespace: str, body: dict[str, Any]) -> None:
        document = {"apiVersion": "v1", "kind": kind, **body}
        await self.client.create(resource_for(kind), namespace, document)

    async def _pod(self, name: str) -> Any:
        return await self.client.get(resource_for("Pod"), "default", name)


def on_a_cluster(folder: Path, test: Callable[[Cluster], Awaitable[None]]) -> None:
    async def bounded() -> None:
        server = ApiServer(seed=7)
        await server.start()
        access = Access(server=server.url, source="test")
        try:
            async with asyncio.timeout(SECONDS), KubeClient(access) as client:
                cluster = Cluster(server, client, folder)
                await cluster.add_nodes("a", "b")
                await test(cluster)
        finally:
            await server.stop()

    asyncio.run(bounded())


async def program(name: str, *words: str) -> asyncio.subprocess.Process:
    paths = (ROOT / "src", ROOT / "examples" / "plugins")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAMS / name), *words),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
    )


async def teams_are_apart(cluster: Cluster, scheduler: str) -> None:
    """The second team goes elsewhere, the third pod to its own team although that is fuller."""
    first = await cluster.place("first", "red", scheduler)
    assert await cluster.place("second", "blue", scheduler) != first
    assert await cluster.place("third", "red", scheduler) == first


def test_the_documentation_shows_the_programs_that_are_tested() -> None:
    text = (ROOT / "docs" / "embedding.md").read_text()
    shown = dict(re.findall(r"^`([\w.]+)`:\n\n```python\n(.*?)^```", text, re.M | re.S))
    assert shown == {path.name: path.read_text() for path in PROGRAMS.glob("*.py")}


def test_a_program_runs_a_scheduler_with_a_plugin_and_a_profile_of_its_own(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        process = await program("own_program.py", str(cluster.kubeconfig))
        await teams_are_apart(cluster, "tidy")
        process.send_signal(signal.SIGTERM)
        output, _ = await process.communicate()
        assert output.decode().splitlines() == [
            "scheduling for tidy",
            "all objects are known",
            "stopped",
        ]
        assert process.returncode == 0

    on_a_cluster(tmp_path, test)


def test_a_command_of_ones_own_takes_all_flags_and_knows_the_plugin(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        config = tmp_path / "scheduler.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {cluster.kubeconfig}}}\n"
            "leaderElection: {leaderElect: false}\n"
            "profiles: [{plugins: {filter: {enabled: [{name: OnePerTeam}]}}}]\n"
        )
        process = await program("own_command.py", f"--config={config}", "--secure-port=0")
        await teams_are_apart(cluster, "default-scheduler")
        process.send_signal(signal.SIGTERM)
        # As kube-scheduler, which calls it a failure to end without an election.
        assert await process.wait() == 1

    on_a_cluster(tmp_path, test)


def test_a_client_stays_open_and_events_go_to_the_recorder_of_the_caller(tmp_path: Path) -> None:
    reasons: list[str] = []

    class Recorder(EventRecorder):
        def event(self, regarding: Any, type_: str, reason: str, *rest: str, **named: Any) -> None:
            del regarding, type_, rest, named
            reasons.append(reason)

    async def test(cluster: Cluster) -> None:
        scheduler = moorage.KubeScheduler(cluster.client, recorder_factory=Recorder)
        running = asyncio.create_task(scheduler.run())
        await cluster.place("pod", "red")
        scheduler.stop()
        await running
        assert reasons == ["Scheduled"]
        await cluster.client.get(resource_for("Pod"), "default", "pod")

    on_a_cluster(tmp_path, test)


def test_who_leaves_without_running_has_closed_everything(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        async with moorage.KubeScheduler(kubeconfig=str(cluster.kubeconfig)) as scheduler:
            await scheduler.wait_for_handlers_sync(SECONDS)
        await scheduler.close()
        await scheduler.run()  # returns at once: it was stopped

    on_a_cluster(tmp_path, test)


def test_options_replace_what_the_configuration_says(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "parallelism: 3\npodMaxBackoffSeconds: 7\n"
    )
    seen: list[KubeSchedulerProfile] = []
    scheduler = moorage.KubeScheduler(
        master="http://127.0.0.1:1",
        config=config,
        plugins=[OnePerTeam],
        profiles=[TEAMS],
        extenders=[{"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter"}],
        pod_max_backoff_seconds=9,
        percentage_of_nodes_to_score=40,
        profile_capturer=seen.append,
    )
    made = scheduler.config
    assert (made.parallelism, made.pod_max_backoff_seconds) == (3, 9)
    assert made.percentage_of_nodes_to_score == 40
    assert made.extenders[0].filter_verb == "filter"
    names = [ref.name for ref in seen[0].plugins.multi_point.enabled]
    assert "TaintToleration" in names, "the capturer is shown profiles with the defaults"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "value": ({"parallelism": 0}, "the options: parallelism: Invalid value: 0"),
    "type": ({"profiles": [object()]}, "the options: options must be plain values"),
    "plugin": (
        {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nobody"}]}}}]},
        "Nobody",
    ),
    "file": ({"config": "/nowhere.yaml"}, "/nowhere.yaml: No such file or directory"),
    "twice": ({"plugins": [OnePerTeam, OnePerTeam]}, "OnePerTeam already exists"),
    "class": ({"plugins": [int]}, "plugin <class 'int'> is not a subclass of moorage"),
    "seconds": ({"plugin_call_seconds": "1s"}, "plugin_call_seconds: expected a number of seconds"),
    "time": ({"pod_max_in_unschedulable_pods_seconds": -1}, "seconds above 0, got -1"),
    "gate": ({"feature_gates": "Nothing=true"}, "Nothing"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_a_mistake_is_told_before_anything_is_sent(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        moorage.KubeScheduler(master="http://127.0.0.1:1", **options)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Scheduler'"):
        moorage.Scheduler  # noqa: B018
