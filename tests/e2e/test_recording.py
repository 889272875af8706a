"""A real cluster is recorded while kube-scheduler, or Moorage, is at work, and decided again."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from e2e.client import Api, Json, wait_for
from e2e.cluster import ControlPlane, empty
from e2e.objects import HOSTNAME, ZONE, node, pod
from e2e.schedulers import MOORAGE, PEER, Scheduler
from moorage.config import default_config
from moorage.controlplane.processes import ChildProcess
from moorage.recordings.comparison import Agreement, compare
from moorage.recordings.recording_file import Recording
from moorage.simulator.world import World

_CONFIG: Json = {"percentageOfNodesToScore": 100}
_NODES, _PODS = 12, 200
_SECRET = "hunter2"


@pytest.mark.parametrize("name", [PEER, MOORAGE])
def test_every_recorded_decision_is_the_same_or_a_tie(
    name: str, server: ControlPlane, scheduler: Callable[[str], Scheduler], tmp_path: Path
) -> None:
    path, namespace = tmp_path / "recording.gz", f"recorded-{name}"
    with _cluster(server, namespace) as api:
        process = scheduler(name).start(server.scheduler_kubeconfig, _CONFIG, tmp_path, name)
        try:
            with _recording(server, path):
                _churn(api, namespace)
            with _recording(server, path, end=signal.SIGKILL):
                api.create(_placed_in(namespace, pod("late", cpu="1m")))
                wait_for("another pod", lambda: _node(api, "late", namespace))
            with _recording(server, path):
                pass  # what is torn is cut off, and the difference written
        finally:
            process.stop()
    recording = Recording(path)
    found = compare(recording, World(default_config()))
    assert not recording.is_cut_off
    differences = [one for one in found.decisions if one.agreement is Agreement.DIFFERENT]
    assert differences == []
    assert len(found.decisions) >= _PODS // 2
    if name == MOORAGE:
        assert found.count(Agreement.SAME) == len(found.decisions)
    else:
        assert found.count(Agreement.SAME) > found.count(Agreement.TIE) > 0
    assert not any(_SECRET.encode() in bytes(one.record.object) for one in Recording(path))


@contextmanager
def _cluster(server: ControlPlane, namespace: str) -> Iterator[Api]:
    """Unlike nodes, two priorities, and a namespace."""
    api = Api(server.admin)
    try:
        empty(api)
        for number in range(_NODES):
            api.create(node(f"n{number}", cpu=str(4 + 2 * (number % 3)), zone=f"z{number % 4}"))
        for priority, value in (("urgent", 1000), ("spare", -5)):
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            api.create({**head, "metadata": {"name": priority}, "value": value})
        head = {"apiVersion": "v1", "kind": "Namespace"}
        api.create({**head, "metadata": {"name": namespace}})
        yield api
    finally:
        empty(api)
        api.close()


@contextmanager
def _recording(
    server: ControlPlane, path: Path, end: signal.Signals = signal.SIGINT
) -> Iterator[None]:
    """`moorage record` at work, until it is ended."""
    log = path.with_name(f"record-{end.name}-{path.exists()}.log")
    words = [sys.executable, "-m", "moorage", "record", str(path)]
    words += ["--kubeconfig", str(server.admin_kubeconfig)]
    process = ChildProcess("moorage record", words, log)
    try:
        wait_for("the recorder", lambda: "objects, " in log.read_text())
        yield
    finally:
        process.send(end)
        code = process.ended()
    assert code == (0 if end is signal.SIGINT else -signal.SIGKILL)


def _churn(api: Api, namespace: str) -> None:
    """Unlike pods come; some go, some preempt others."""
    dice, left = Random(11), []
    for number in range(_PODS):
        name = f"p{number}"
        api.create(_placed_in(namespace, _some_pod(name, dice)))
        left.append(name)
        # One by one: of what happens at once, no recording tells what the scheduler knew first.
        _wait(api, namespace)
        gone = left[dice.randrange(len(left))]
        if dice.random() < 0.25 and _node(api, gone, namespace):
            api.delete("Pod", gone, namespace, grace=0)
            left.remove(gone)
    _wait(api, namespace)
    api.create(_placed_in(namespace, pod("last", cpu="1m", priorityClassName="urgent")))
    wait_for("the last pod", lambda: _node(api, "last", namespace))


def _wait(api: Api, namespace: str) -> None:
    """Until every pod was decided."""
    wait_for("decisions", lambda: all(map(_is_decided, api.list("Pod", namespace))))


def _some_pod(name: str, dice: Random) -> Json:
    app = dice.choice(["web", "db", "cache"])
    selector = {"matchLabels": {"app": app}}
    more: Json = {"terminationGracePeriodSeconds": 0}
    match dice.choice(["plain", "spread", "apart", "urgent", "spare"]):
        case "spread":
            action = dice.choice(["DoNotSchedule", "ScheduleAnyway"])
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action}
            more["topologySpreadConstraints"] = [{**spread, "labelSelector": selector}]
        case "apart":
            term = {"topologyKey": HOSTNAME, "labelSelector": selector}
            preferred = [{"weight": 50, "podAffinityTerm": term}]
            anti = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
            more["affinity"] = {"podAntiAffinity": anti}
        case "urgent" | "spare" as priority:
            more["priorityClassName"] = priority
    cpu = dice.choice(["50m", "250m", "500m", "1", "2"])
    made = pod(name, cpu=cpu, memory=dice.choice(["64Mi", "1Gi"]), labels={"app": app}, **more)
    made["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": _SECRET}]
    return made


def _placed_in(namespace: str, made: Json) -> Json:
    made["metadata"]["namespace"] = namespace
    return made


def _is_decided(found: Json) -> bool:
    return bool(found["spec"].get("nodeName") or found["status"].get("conditions"))


def _node(api: Api, name: str, namespace: str) -> str:
    found = api.find("Pod", name, namespace)
    return "" if found is None else str(found["spec"].get("nodeName", ""))
