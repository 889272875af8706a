"""Plugins from files that wait for other pods, look at custom resources, and write."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from e2e.client import KINDS, Api, ApiError, Json, Kind, wait_for
from e2e.cluster import SCHEDULER, ControlPlane, empty
from e2e.instance import Instance, instance, let_read
from e2e.objects import node, pod
from e2e.schedulers import MOORAGE, Scheduler

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
BERTHS = Kind("/apis/harbour.example/v1", "berths", True)


class Stage(NamedTuple):
    """An empty cluster with a namespace, and Moorage with plugins to start."""

    server: ControlPlane
    api: Api
    namespace: str
    scheduler: Scheduler
    folder: Path

    @contextmanager
    def moorage(self, files: list[str], profile: Json) -> Iterator[Instance]:
        """Start it with plugins from files and one profile."""
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.server.scheduler_kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        }
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        flags = [f"--plugin={EXAMPLES / file}" for file in files]
        words = (f"--config={path}", *flags)
        with instance(self.scheduler, self.server, self.namespace, *words) as running:
            yield running

    def create(self, body: Json) -> Json:
        """Create an object in the namespace."""
        body["metadata"]["namespace"] = self.namespace
        return self.api.create(body)

    def pod(self, name: str) -> Json:
        """A pod as it is now."""
        return self.api.get("Pod", name, self.namespace)

    def nodes_of(self, *names: str) -> list[str]:
        """The nodes of those pods that have one."""
        found = [self.pod(name)["spec"].get("nodeName") for name in names]
        return [name for name in found if name]

    def bound(self, *names: str) -> list[str]:
        """Wait until all these pods are bound; their nodes."""
        return wait_for(f"{names} to be bound", partial(self._all, names))

    def _all(self, names: tuple[str, ...]) -> list[str] | None:
        found = self.nodes_of(*names)
        return found if len(found) == len(names) else None

    def refusal(self, name: str, text: str) -> str:
        """Wait until the scheduler says this of a pod; all that it says."""

        def found() -> str | None:
            for condition in self.pod(name).get("status", {}).get("conditions", ()):
                if condition["type"] == "PodScheduled" and text in condition.get("message", ""):
                    return str(condition["message"])
            return None

        return wait_for(f"{text!r} of pod {name}", found)


@pytest.fixture
def stage(
    request: pytest.FixtureRequest,
    server: ControlPlane,
    scheduler: Callable[[str], Scheduler],
    tmp_path: Path,
) -> Iterator[Stage]:
    let_read(server)
    namespace = f"plugins-{zlib.crc32(request.node.name.encode())}"
    with closing(Api(server.admin)) as api:
        empty(api)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        yield Stage(server, api, namespace, scheduler(MOORAGE), tmp_path)
        empty(api)


@pytest.fixture
def harbour(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The stage with the kind Berth, and the rights that its plugins need and no more."""
    monkeypatch.setitem(KINDS, "Berth", BERTHS)
    definition, role, binding = yaml.safe_load_all((EXAMPLES / "berths.yaml").read_text())
    binding["subjects"] = [{"kind": "User", "name": SCHEDULER}]
    for body, path in (
        (definition, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
        (role, "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        (binding, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ):
        try:
            stage.api.call("POST", path, body)
        except ApiError as error:
            if error.code != 409:  # another test was here before
                raise

    def served() -> bool:
        try:
            stage.api.list("Berth")
        except ApiError as error:
            if error.code not in (404, 429):  # not known yet, or just being made
                raise
            return False
        return True

    wait_for("the kind Berth", served)
    return stage


def berth(name: str, node_name: str, length: int) -> Json:
    return {
        "apiVersion": "harbour.example/v1",
        "kind": "Berth",
        "metadata": {"name": name},
        "spec": {"node": node_name, "length": length},
    }


def group_pod(name: str, cpu: str) -> Json:
    return pod(name, cpu=cpu, labels={"pod-group": "crew", "min-available": "3"})


def co_scheduling(seconds: float) -> Json:
    return {
        "plugins": {"multiPoint": {"enabled": [{"name": "CoScheduling"}]}},
        "pluginConfig": [
            {"name": "CoScheduling", "args": {"permitWaitingTimeSeconds": seconds}},
        ],
    }


def test_three_pods_of_a_group_are_bound_together(stage: Stage) -> None:
    stage.api.create(node("n1", cpu="4"))
    with stage.moorage(["co_scheduling.py"], co_scheduling(60)):
        for name in ("a", "b"):
            stage.create(group_pod(name, "1"))
        stage.refusal("a", "pods of the group are missing")
        # It does not fit, so the first two have a node and wait.
        stage.create(group_pod("c", "5"))
        stage.refusal("c", "1 Insufficient cpu")
        assert stage.nodes_of("a", "b", "c") == []
        stage.api.create(node("n2", cpu="8"))
        assert stage.bound("a", "b", "c") == ["n1", "n1", "n2"]


def test_a_group_that_is_not_complete_in_time_frees_its_places(stage: Stage) -> None:
    stage.api.create(node("n1", cpu="4"))
    with stage.moorage(["co_scheduling.py"], co_scheduling(3)):
        for name, cpu in (("a", "1500m"), ("b", "1500m"), ("c", "8")):
            stage.create(group_pod(name, cpu))
        stage.refusal("c", "1 Insufficient cpu")
        stage.create(pod("other", cpu="2"))
        stage.refusal("other", "1 Insufficient cpu")
        assert stage.bound("other") == ["n1"]
        assert stage.nodes_of("a", "b", "c") == []


def test_a_custom_resource_decides_and_its_events_wake_pods(harbour: Stage) -> None:
    for name in ("n1", "n2"):
        harbour.api.create(node(name))
    harbour.create(berth("short", "n1", 50))
    profile = {"plugins": {"filter": {"enabled": [{"name": "NeedsBerth"}]}}}
    with harbour.moorage(["berths.py"], profile):
        harbour.create(pod("boat", labels={"ship-length": "20"}))
        assert harbour.bound("boat") == ["n1"]
        harbour.create(pod("ship", labels={"ship-length": "100"}))
        harbour.refusal("ship", "2 node(s) had no berth of this length")
        harbour.create(berth("long", "n2", 80))
        harbour.api.patch("Berth", "long", {"spec": {"length": 120}}, harbour.namespace)
        assert harbour.bound("ship") == ["n2"]


def test_a_plugin_writes_an_event_and_patches_a_custom_resource(harbour: Stage) -> None:
    harbour.api.create(node("n1"))
    harbour.create(berth("north", "n1", 200))
    profile = {
        "schedulerName": "harbour-master",
        "plugins": {"multiPoint": {"enabled": [{"name": "HarbourLog"}]}},
    }
    with harbour.moorage(["harbour_log.py"], profile):
        labels = {"ship-length": "100"}
        harbour.create(pod("ship", labels=labels, schedulerName="harbour-master"))
        harbour.bound("ship")

        def status() -> Json | None:
            found: Json | None = harbour.api.get("Berth", "north", harbour.namespace).get("status")
            return found

        assert wait_for("the berth's status", status) == {
            "ship": "ship",
            "scheduler": "harbour-master",
        }

        def moored() -> Json | None:
            events = harbour.api.list("Event", harbour.namespace)
            return next((event for event in events if event["reason"] == "Moored"), None)

        event = wait_for("the event", moored)
        assert event["note"] == "ship lies in berth north"
        assert event["reportingController"] == "harbour-master"
        assert event["regarding"]["name"] == "ship"
