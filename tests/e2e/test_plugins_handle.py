"""Plugins from files that wait for other pods, look at custom resources, write, fail and change."""

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
from e2e.pod_stream import pod_stream
from e2e.schedulers import MOORAGE, Scheduler

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
ELECTION = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
BERTHS = Kind("/apis/harbour.example/v1", "berths", True)


class Stage(NamedTuple):
    """An empty cluster with a namespace, and Moorage with plugins to start."""

    server: ControlPlane
    api: Api
    namespace: str
    scheduler: Scheduler
    folder: Path

    @contextmanager
    def moorage(
        self, files: list[str | Path], profile: Json, *more: str, elect: bool = False
    ) -> Iterator[Instance]:
        """Start it with plugins from files and one profile."""
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.server.scheduler_kubeconfig)},
            "leaderElection": {"leaderElect": elect, **ELECTION},
            "profiles": [profile],
        }
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        flags = [f"--plugin={EXAMPLES / file}" for file in files]
        words = (f"--config={path}", *flags, *more)
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


FAULTY = """
import time

import numpy as np

from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.plugin import (
    BindPlugin, FilterPlugin, PermitPlugin, PostBindPlugin, PostFilterPlugin, PostFilterResult,
    PreBindPlugin, PreEnqueuePlugin, PreFilterPlugin, PreFilterResult, PreScorePlugin,
    QueueSortPlugin, ReservePlugin, ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Status, Verdicts


def act(pod, point, right, size=0):
    if pod.labels.get("point") != point:
        return right
    match pod.labels["fault"]:
        case "raises":
            raise KeyError(point)
        case "hangs":
            time.sleep(3600)
        case "loops":
            while True:
                pass
        case "type":
            return "nonsense"
        case "shape":
            return np.zeros(size + 1, np.int64)
        case "nan":
            return np.full(size, np.nan)
        case "range":
            return np.full(size, 101)


class Faulty(
    PreEnqueuePlugin, QueueSortPlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin,
    PreScorePlugin, ScorePlugin, ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin,
    PostBindPlugin,
):
    name = "Faulty"

    def pre_enqueue(self, pod):
        return act(pod, "PreEnqueue", None)

    def sort_key(self, pod, timestamp):
        return act(pod, "QueueSort", timestamp)

    def events_to_register(self):
        return [on(EventResource.NODE, ActionType.ALL, self.hint)]

    def hint(self, pod, old, new):
        return act(pod, "QueueingHint", True)

    def pre_filter(self, pod, nodes):
        return act(pod, "PreFilter", PreFilterResult(None))

    def filter(self, pod, nodes, state):
        verdicts, point = Verdicts(len(nodes)), pod.labels.get("point")
        early = point == "QueueingHint" and nodes.row_of("late") is None
        if early or point == "PostFilter":
            return verdicts.reject(np.ones(len(nodes), bool), Reason("not yet"))
        return act(pod, "Filter", verdicts)

    def post_filter(self, pod, attempt):
        return act(pod, "PostFilter", PostFilterResult(Status(Code.UNSCHEDULABLE)))

    def pre_score(self, pod, nodes):
        return act(pod, "PreScore", None)

    def score(self, pod, nodes, state):
        return act(pod, "Score", np.zeros(len(nodes), np.int64), len(nodes))

    def reserve(self, pod, node_name):
        return act(pod, "Reserve", None)

    def unreserve(self, pod, node_name):
        act(pod, "Unreserve", None)

    def permit(self, pod, node_name):
        if pod.labels.get("point") == "Unreserve":
            return Status(Code.UNSCHEDULABLE, ("not yet",)), 0.0
        return act(pod, "Permit", (None, 0.0))

    async def pre_bind(self, pod, node_name, api):
        return act(pod, "PreBind", None)

    async def bind(self, pod, node_name, api):
        return act(pod, "Bind", SKIP)

    async def post_bind(self, pod, node_name):
        act(pod, "PostBind", None)


class NoEvents(FilterPlugin):
    name = "NoEvents"

    def filter(self, pod, nodes, state):
        return Verdicts(len(nodes))

    def events_to_register(self):
        raise KeyError("events")
"""
REFUSED = [
    *((point, "raises") for point in ("PreFilter", "Filter", "PreScore", "Score", "Reserve")),
    *((point, "type") for point in ("PreFilter", "Filter", "Score", "Reserve", "Permit")),
    *(("Score", fault) for fault in ("shape", "nan", "range", "hangs")),
    *((point, fault) for point in ("PreBind", "Bind") for fault in ("raises", "type")),
    *(("PostFilter", fault) for fault in ("raises", "type", "hangs")),
    ("Permit", "raises"),
    *(("Filter", "hangs"), ("Filter", "loops"), ("Reserve", "hangs")),
]
"""Faults that end an attempt."""
UNSCHEDULABLE = [("Unreserve", fault) for fault in ("raises", "hangs")]
"""Faults beside which the pod is refused as it would be without them."""
BOUND = [
    *(("QueueSort", fault) for fault in ("raises", "hangs")),
    *(("QueueingHint", fault) for fault in ("raises", "type", "loops")),
    ("PostBind", "raises"),
]
"""Faults in spite of which the pod gets its node."""
GATED = [("PreEnqueue", fault) for fault in ("raises", "type", "hangs")]


def faulty_pod(point: str, fault: str) -> Json:
    return pod(f"{point}-{fault}".lower(), cpu="10m", labels={"point": point, "fault": fault})


def test_every_kind_of_fault_stays_with_its_pod_while_200_others_are_bound(stage: Stage) -> None:
    file = stage.folder / "faulty.py"
    file.write_text(FAULTY)
    for name in ("n1", "n2", "n3"):
        stage.api.create(node(name, cpu="1000", memory="1000Gi", pods="10000"))
    profile = {
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Faulty"}, {"name": "NoEvents"}]},
            "bind": {"enabled": [{"name": "Faulty"}, {"name": "DefaultBinder"}]},
            "postFilter": {"enabled": [{"name": "Faulty"}, {"name": "DefaultPreemption"}]},
            "queueSort": {"enabled": [{"name": "Faulty"}], "disabled": [{"name": "*"}]},
        }
    }
    flags = ("--plugin-call-timeout=700ms", "--plugin-faults-in-a-row=3")
    names = [f"sound-{index}" for index in range(200)]
    with stage.moorage([file], profile, *flags, elect=True) as running:
        running.wait("the lease", running.leads)
        faulty = [*REFUSED, *UNSCHEDULABLE, *BOUND, *GATED]
        for index, name in enumerate(names):
            stage.create(pod(name, cpu="10m"))
            if index % 5 == 0 and faulty:
                stage.create(faulty_pod(*faulty.pop()))
        assert not faulty
        for point, fault in REFUSED:
            name = faulty_pod(point, fault)["metadata"]["name"]
            said = stage.refusal(name, "Faulty")
            assert f"({file}:" in said, (name, said)
            conditions = stage.pod(name)["status"]["conditions"]
            assert [one["reason"] for one in conditions] == ["SchedulerError"], name
        for point, fault in UNSCHEDULABLE:
            name = faulty_pod(point, fault)["metadata"]["name"]
            stage.refusal(name, "not yet")
            conditions = stage.pod(name)["status"]["conditions"]
            assert [one["reason"] for one in conditions] == ["Unschedulable"], name
        stage.api.create(node("late"))
        bound = [*names, *(faulty_pod(*one)["metadata"]["name"] for one in BOUND)]
        wait_for("all sound pods to be bound", lambda: len(stage.nodes_of(*bound)) == len(bound))
        counted = running.samples("moorage_plugin_faults_total")
        for point, fault in (*REFUSED, *UNSCHEDULABLE, *BOUND, *GATED):
            kind = {"raises": "exception", "range": "score", "hangs": "timeout", "loops": "timeout"}
            assert counted[point, kind.get(fault, "answer"), "Faulty"] >= 1, (point, fault)
        assert counted["EventsToRegister", "exception", "NoEvents"] >= 1
        bindings = stage.server.bindings(stage.namespace)
        assert {name: bindings[name] for name in names} == dict.fromkeys(names, 1)
        assert running.leads()
        assert running.serving()
        notes = [
            event["note"]
            for event in stage.api.list("Event", "kube-system")
            if event["reason"] == "PluginKeepsFailing"
        ]
        assert any("plugin Faulty" in note and "stays enabled" in note for note in notes)


CHANGING = """
from moorage.framework.plugin import NodeScorePlugin, PermitPlugin, ReservePlugin


class Changing(NodeScorePlugin, ReservePlugin, PermitPlugin):
    name = "Changing"

    def score_node(self, pod, node):
        return 100 if node.node.name == "%s" else 0

    def reserve(self, pod, node_name):
        pass

    def unreserve(self, pod, node_name):
        pass

    def permit(self, pod, node_name):
        return None, 0.0
"""


def test_a_file_changed_under_load_loses_no_pod_and_binds_none_twice(stage: Stage) -> None:
    file = stage.folder / "changing.py"

    def save(text: str) -> None:
        (stage.folder / "new").write_text(text)
        (stage.folder / "new").rename(file)

    nodes = ("n1", "n2", "n3")
    for name in nodes:
        stage.api.create(node(name, cpu="1000", memory="1000Gi", pods="10000"))
    save(CHANGING % "n1")
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "Changing", "weight": 1000}]}},
    }
    reloads = "moorage_plugin_reloads_total"
    with (
        stage.moorage([file], profile) as running,
        pod_stream(stage.server, stage.namespace, "pod", cpu="10m") as pods,
    ):
        for round_, name in enumerate((*nodes[1:], *nodes), 1):
            save(CHANGING % name)
            done = partial(_counted, running, reloads, "success", round_)
            running.wait(f"reload {round_}", done)
            wait_for("more pods", partial(pods.has, len(pods.names) + 5))
            stage.create(pod(f"after-{round_}", cpu="10m"))
            assert stage.bound(f"after-{round_}") == [name]
        save((CHANGING % "n1").replace("return 100", "return 10**6"))
        running.wait("a refusal", partial(_counted, running, reloads, "error", 1))
        pods.stop()
        wait_for("all pods to be bound", pods.all_bound)
        names = [*pods.names, *(f"after-{round_}" for round_ in range(1, 6))]
        bindings = stage.server.bindings
        wait_for("bindings", lambda: bindings(stage.namespace).total() >= len(names))
        assert bindings(stage.namespace) == dict.fromkeys(names, 1)
        assert not running.samples("moorage_plugin_faults_total")


def _counted(running: Instance, family: str, result: str, times: int) -> bool:
    return running.samples(family).get((result,), 0.0) == times
