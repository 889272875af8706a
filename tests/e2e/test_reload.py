"""A configuration that changes while pods are being scheduled, and a shadow of kube-scheduler."""

import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from e2e.binaries import Binaries
from e2e.client import Api, Json, wait_for
from e2e.cluster import SCHEDULER, ControlPlane, empty
from e2e.deployment import Kubectl
from e2e.instance import START_SECONDS, Instance, instance, let_read
from e2e.objects import node, pod
from e2e.pod_stream import pod_stream
from e2e.schedulers import MOORAGE, PEER, Scheduler

_RELOADS = "moorage_config_reloads_total"


class Stage(NamedTuple):
    """An empty cluster with a namespace, and Moorage to start."""

    server: ControlPlane
    api: Api
    namespace: str
    schedulers: Callable[[str], Scheduler]
    folder: Path

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "config.yaml"

    def write(self, text: str) -> None:
        """Replace the configuration file in one piece, as configuration tools do."""
        new = self.folder / "config.new"
        new.write_text(text)
        new.rename(self.file)

    @contextmanager
    def moorage(self, *flags: str, who: str = SCHEDULER) -> Iterator[Instance]:
        """Start it without an election."""
        words = ("--leader-elect=false", *flags)
        started = instance(self.schedulers(MOORAGE), self.server, self.namespace, *words, who=who)
        with started as running:
            yield running

    def add_pod(self, name: str, **fields: object) -> None:
        """Create a pod."""
        body = pod(name, **fields)  # type: ignore[arg-type]
        body["metadata"]["namespace"] = self.namespace
        self.api.create(body)

    def node_of(self, name: str) -> str:
        """Wait until a pod is bound; the node's name."""

        def found() -> str | None:
            where: str | None = self.api.get("Pod", name, self.namespace)["spec"].get("nodeName")
            return where

        return wait_for(f"pod {name} to be bound", found)

    def events(self, reason: str, namespace: str) -> list[str]:
        """What the events with this reason say."""
        found = self.api.list("Event", namespace)
        return [event["note"] for event in found if event["reason"] == reason]


@pytest.fixture
def stage(
    request: pytest.FixtureRequest,
    server: ControlPlane,
    scheduler: Callable[[str], Scheduler],
    tmp_path: Path,
) -> Iterator[Stage]:
    let_read(server)
    namespace = f"reload-{zlib.crc32(request.node.name.encode())}"
    with closing(Api(server.admin)) as api:
        empty(api)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        yield Stage(server, api, namespace, scheduler, tmp_path)
        empty(api)


def _config(server: ControlPlane | None, strategy: str, *names: str, **fields: object) -> str:
    """A configuration whose profiles pack pods together, or spread them."""
    fit = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": _plugins()},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]},
    }
    profiles = [
        {
            "schedulerName": name,
            "pluginConfig": [{"name": "NodeResourcesFit", "args": fit}],
            "plugins": plugins,
        }
        for name in names or ("default-scheduler",)
    ]
    document: Json = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
        **fields,
    }
    if server is not None:
        document["clientConnection"] = {"kubeconfig": str(server.scheduler_kubeconfig)}
    return yaml.safe_dump(document)


def _plugins() -> list[Json]:
    return [{"name": name} for name in ("PrioritySort", "NodeResourcesFit", "DefaultBinder")]


def _strategy(running: Instance) -> str:
    """What /configz says of the first profile's strategy."""
    profile = running.read_json("/configz")["componentconfig"]["profiles"][0]
    (args,) = [one["args"] for one in profile["pluginConfig"] if one["name"] == "NodeResourcesFit"]
    return str(args["scoringStrategy"]["type"])


def _has_reloaded(running: Instance, times: int) -> bool:
    return _reloads(running, "success") == times


def _reloads(running: Instance, result: str) -> float:
    return running.samples(_RELOADS).get((result,), 0.0)


def test_changes_under_load_lose_no_pod_and_bind_none_twice(stage: Stage) -> None:
    for name in ("n1", "n2", "n3"):
        stage.api.create(node(name, cpu="1000", memory="1000Gi", pods="10000"))
    stage.write(_config(stage.server, "LeastAllocated"))
    with (
        stage.moorage(f"--config={stage.file}") as running,
        pod_stream(stage.server, stage.namespace, "pod", cpu="10m") as pods,
    ):
        for round_ in range(6):
            strategy = ("MostAllocated", "LeastAllocated")[round_ % 2]
            stage.write(_config(stage.server, strategy, podMaxBackoffSeconds=10 + round_))
            if round_ % 3:  # else it notices the file's change by itself
                running.process.send(signal.SIGHUP)
            running.wait(f"reload {round_ + 1}", partial(_has_reloaded, running, round_ + 1))
            assert _strategy(running) == strategy
            wait_for("more pods", partial(pods.has, len(pods.names) + 3))
        pods.stop()
        wait_for("all pods to be bound", pods.all_bound)
        bindings = stage.server.bindings
        wait_for("bindings", lambda: bindings(stage.namespace).total() >= len(pods.names))
        assert bindings(stage.namespace) == dict.fromkeys(pods.names, 1)
        assert _reloads(running, "success") == 6.0
        assert _reloads(running, "error") == 0.0


def test_the_next_pod_is_placed_as_the_changed_file_says(stage: Stage) -> None:
    for name in ("n1", "n2"):
        stage.api.create(node(name, cpu="4"))
    stage.write(_config(stage.server, "LeastAllocated", "default-scheduler"))
    with stage.moorage(f"--config={stage.file}") as running:
        stage.add_pod("first", cpu="1")
        first = stage.node_of("first")
        stage.add_pod("another", cpu="500m")
        assert stage.node_of("another") != first
        # Who waits for a scheduler that is not there yet is taken on when it comes.
        stage.add_pod("waiting", cpu="500m", schedulerName="packing")
        stage.write(_config(stage.server, "MostAllocated", "packing", "default-scheduler"))
        running.process.send(signal.SIGHUP)
        assert stage.node_of("waiting") == first
        stage.add_pod("later", cpu="500m")
        assert stage.node_of("later") == first
        # And a name that is gone is no longer scheduled for.
        stage.write(_config(stage.server, "MostAllocated", "packing"))
        running.process.send(signal.SIGHUP)
        running.wait("the second reload", lambda: _reloads(running, "success") == 2)
        stage.add_pod("orphan", cpu="500m")
        stage.add_pod("packed", cpu="500m", schedulerName="packing")
        stage.node_of("packed")
        orphan = stage.api.get("Pod", "orphan", stage.namespace)
        assert "nodeName" not in orphan["spec"]
        assert "conditions" not in orphan["status"]


_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_BAD = {
    "nonsense: [": "yaml: ",
    f"{_HEAD}profile: []\n": 'unknown field "profile"',
    f"{_HEAD}percentageOfNodesToScore: 101\n": "percentageOfNodesToScore: Invalid value: 101",
    f"{_HEAD}profiles: [{{plugins: {{filter: {{enabled: [{{name: Nowhere}}]}}}}}}]\n": (
        'FilterPlugin "Nowhere" does not exist'
    ),
}


def test_a_bad_file_leaves_everything_as_it_was(stage: Stage) -> None:
    stage.api.create(node("n1"))
    stage.write(_config(stage.server, "LeastAllocated"))
    with stage.moorage(f"--config={stage.file}") as running:
        before = running.read("/configz")
        for count, (bad, told) in enumerate(_BAD.items(), 1):
            stage.write(bad)
            running.process.send(signal.SIGHUP)
            running.wait("a refusal", partial(_has_refused, running, count))
            assert running.read("/configz") == before
            lines = [line for line in running.log().splitlines() if "was not reloaded" in line]
            assert len(lines) == count
            assert lines[-1].startswith("E")
            assert str(stage.file) in lines[-1]
            assert told in lines[-1].replace("\\", "")
            wait_for(f"an event that says {told!r}", partial(_noted, stage, told))
        stage.add_pod("after", cpu="1")
        assert stage.node_of("after") == "n1"
        stage.write(_config(stage.server, "MostAllocated"))
        running.process.send(signal.SIGHUP)
        running.wait("a reload", partial(_has_reloaded, running, 1))
        assert _strategy(running) == "MostAllocated"


def _has_refused(running: Instance, times: int) -> bool:
    return _reloads(running, "error") == times


def _noted(stage: Stage, told: str) -> bool:
    notes = stage.events("ConfigReloadFailed", "kube-system")
    return any(told in note and str(stage.file) in note for note in notes)


def test_a_changed_config_map_is_taken_over(stage: Stage, binaries: Binaries) -> None:
    kubectl = Kubectl(binaries.kubectl, stage.server.admin_kubeconfig)
    stage.api.create(node("n1"))
    where = (f"--namespace={stage.namespace}", "configmap", "scheduler")

    def apply(text: str) -> None:
        stage.write(text)
        made = kubectl(
            *("create", *where, f"--from-file=config={stage.file}"),
            *("--dry-run=client", "-o", "yaml"),
        )
        kubectl("apply", "-f", "-", given=made)

    apply(_config(None, "LeastAllocated"))
    flags = (
        f"--config-from-configmap={stage.namespace}/scheduler",
        # Who reads other ConfigMaps than kube-scheduler needs the right to do so.
        f"--kubeconfig={stage.server.admin_kubeconfig}",
    )
    with stage.moorage(*flags) as running:
        assert _strategy(running) == "LeastAllocated"
        apply(_config(None, "MostAllocated"))
        running.wait("a reload", lambda: _strategy(running) == "MostAllocated")
        apply(_config(None, "Nonsense"))
        running.wait("a refusal", lambda: _reloads(running, "error") == 1)
        assert _strategy(running) == "MostAllocated"
        wait_for("an event", lambda: stage.events("ConfigReloadFailed", stage.namespace))
        assert stage.events("ConfigReloaded", stage.namespace)
        kubectl("delete", *where)
        stage.add_pod("after", cpu="1")
        assert stage.node_of("after") == "n1"
        apply(_config(None, "LeastAllocated"))
        running.wait("another reload", lambda: _strategy(running) == "LeastAllocated")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(None, 'configmaps \\"scheduler\\" not found', id="none"),
        pytest.param({}, "name the key that holds the configuration (has: none)", id="empty"),
        pytest.param(
            {"a": "", "b": ""}, "name the key that holds the configuration (has: a, b)", id="two"
        ),
        pytest.param({"a": "profile: ["}, "key a: yaml: ", id="not-yaml"),
    ],
)
def test_a_bad_config_map_is_refused_at_the_start(
    stage: Stage, data: Json | None, told: str
) -> None:
    where = {"name": "scheduler", "namespace": stage.namespace}
    if data is not None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": where, "data": data}
        stage.api.call("POST", f"/api/v1/namespaces/{stage.namespace}/configmaps", body)
    flags = [
        f"--config-from-configmap={stage.namespace}/scheduler",
        f"--kubeconfig={stage.server.admin_kubeconfig}",
        "--secure-port=0",
    ]
    log = stage.folder / "refused.log"
    process = stage.schedulers(MOORAGE).run(flags, log)
    try:
        assert process.ended(START_SECONDS) == 1
    finally:
        process.kill()
    last = log.read_text().splitlines()[-1]
    assert f'"command failed" err="ConfigMap {stage.namespace}/scheduler' in last
    assert told in last


def test_a_shadow_agrees_with_kube_scheduler_and_writes_nothing(stage: Stage) -> None:
    for index in range(4):
        # Each node as good as only one pod needs, so that there is no choice by chance.
        stage.api.create(node(f"n{index}", cpu=str(4 + index)))
    began = len(_written(stage))
    with ExitStack() as running:
        shadow = running.enter_context(
            stage.moorage("--shadow", "--leader-elect=true", who="shadow")
        )
        peer = instance(
            stage.schedulers(PEER), stage.server, f"{stage.namespace}-peer", "--leader-elect=false"
        )
        running.enter_context(peer)
        for index in range(8):
            stage.add_pod(f"pod-{index}", cpu="1")
            stage.node_of(f"pod-{index}")
        stage.add_pod("nowhere", nodeSelector={"no": "where"})
        shadow.wait("nine comparisons", lambda: shadow.read_json("/shadow")["decisions"] == 9)
        report = shadow.read_json("/shadow")
        assert report["outcomes"]["agree"] == 8, report
        assert report["outcomes"]["both_unschedulable"] == 1, report
        assert report["differences"] == []
        counted = shadow.samples("moorage_shadow_decisions_total")
        assert counted == {("agree",): 8.0, ("both_unschedulable",): 1.0}
        assert not shadow.leads()
        shadow.process.send(signal.SIGTERM)
        assert shadow.process.ended() == 0
        assert "agreement 100.0 % of 9 decisions" in shadow.log()
    assert _written(stage)[began:] == []


def _written(stage: Stage) -> list[str]:
    """What the shadow has asked the API server to change; reviews of its callers change nothing."""
    reviews = ("tokenreviews", "subjectaccessreviews")
    return [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in stage.server.audited('"uid":"shadow"')
        if entry["verb"] not in ("get", "list", "watch")
        and entry["objectRef"]["resource"] not in reviews
    ]
