"""Recordings as the input of scenarios: what comes, changes and goes, and where pods go."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.controllers.objects import Json, phase, spec
from moorage.errors import InputError
from moorage.recordings.recording_file import (
    API_VERSION,
    KIND,
    Named,
    Record,
    RecordingHeader,
    RecordingWriter,
)
from moorage.scenarios.runs import play_until, run_scenario
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.simulation import Simulation
from scenarios.simulated import node_body, placements, pod_body

SCENARIO = (
    "{apiVersion: simulate.moorage.io/v1alpha1, kind: Scenario, cluster: {}, "
    "arrivals: [{trace: {file: r.jsonl.gz, layout: recording}}], "
)
DEFAULT = "schedulers: [{name: default}]}"
START = 1_700_000_000.0
WHOLE = Record(START + 1, complete=True)


def scenario(folder: Path, *records: Record, schedulers: str = DEFAULT) -> ScenarioFile:
    """A scenario of a recording with these records."""
    writer = RecordingWriter(folder / "r.jsonl.gz")
    writer.begin(RecordingHeader(API_VERSION, KIND, START))
    for record in records:
        writer.write(record)
    writer.close()
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO + schedulers)
    return ScenarioFile(path)


def there(at: float, body: Json, **metadata: Any) -> Record:
    """An object as the recorder writes it."""
    named = {"uid": body["metadata"]["name"], **body["metadata"], **metadata}
    return Record(START + at, object=msgspec.Raw(msgspec.json.encode({**body, "metadata": named})))


def on(node: str, body: Json) -> Json:
    running = {"phase": "Running", "startTime": "2023-11-14T22:00:00Z"}
    return {**body, "spec": {**body["spec"], "nodeName": node}, "status": running}


def gone(at: float, pod: str) -> Record:
    return Record(START + at, deleted=Named("Pod", pod, "default"))


def at(file: ScenarioFile, seconds: float) -> Simulation:
    """The run as it is after so many seconds."""
    runs: list[Simulation] = []
    play_until(file, file.scenario.schedulers[0], 0, f"{seconds}s", runs.append)
    return runs[0]


def first_run(file: ScenarioFile) -> Json:
    run: Json = run_scenario(file)["schedulers"][0]["runs"][0]
    return run


def test_a_recorded_cluster_goes_on_and_pods_run_as_long_as_they_did(tmp_path: Path) -> None:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    web = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}}
    selected = {"selector": {"matchLabels": {"app": "web"}}}
    labels = {"labels": {"app": "web"}, "ownerReferences": [owner]}
    ship, late = pod_body("ship"), pod_body("late")
    file = scenario(
        tmp_path,
        there(0, node_body("quay")),
        there(0, on("quay", pod_body("berth")), **labels),
        there(0, {**web, "metadata": {"name": "web", "namespace": "default"}, "spec": selected}),
        WHOLE,
        there(5, ship),
        there(9, late),
        gone(20, "berth"),
        there(21, on("quay", ship)),  # waited; here it takes the place at 20 s, too
        gone(31, "ship"),
        there(32, on("quay", late)),
        there(40, on("quay", late), deletionTimestamp="2023-11-14T22:13:45Z"),
        gone(41, "late"),
        there(50, late, uid="again"),
    )
    run = at(file, 6)
    assert placements(run) == {"berth": "quay", "ship": ""}
    run = at(file, 25)
    assert placements(run) == {"berth": "quay", "ship": "quay", "late": ""}
    assert phase(run.api.cluster.get("Pod", "default", "berth") or {}) == "Succeeded"
    assert placements(at(file, 35))["late"] == "quay"
    assert "late" not in placements(at(file, 45))
    assert placements(at(file, 51))["late"] == "quay"
    found = first_run(file)
    assert found["pods"]["created"] == 4
    assert found["waitingSeconds"]["p99"] == pytest.approx(21.2, abs=1)
    counts = {"same": 2, "tie": 0, "different": 0, "follows": 0}
    assert found["recorded"] == {**counts, "differences": []}


def test_nodes_change_as_they_did(tmp_path: Path) -> None:
    node, pod = node_body("quay"), pod_body("ship")
    closed = {**node, "spec": {"unschedulable": True}}
    silent = {**node, "status": {**node["status"], "conditions": [ready("Unknown")]}}
    file = scenario(
        tmp_path,
        there(0, node),
        WHOLE,
        there(2, closed),
        there(3, pod),
        there(10, node),
        there(20, silent),
        Record(START + 30, deleted=Named("Node", "quay")),
    )
    assert placements(at(file, 8)) == {"ship": ""}
    assert placements(at(file, 15)) == {"ship": "quay"}
    found = at(file, 25).api.cluster.get("Node", "", "quay") or {}
    assert {one["key"] for one in spec(found)["taints"]} == {"node.kubernetes.io/not-ready"}
    assert placements(at(file, 31)) == {}


def ready(word: str) -> Json:
    return {"type": "Ready", "status": word}


def test_placements_are_compared_with_the_recorded_ones(tmp_path: Path) -> None:
    nodes = [node_body("quay-1", cpu="4"), node_body("quay-2", cpu="8")]
    packed = (
        "schedulers: [{name: default}, {name: packed, config: {"
        "apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: "
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu}]}}}]}]}}]}"
    )
    file = scenario(
        tmp_path,
        *(there(0, node) for node in nodes),
        WHOLE,
        *placed(2, "a", "quay-2"),
        *placed(3, "b", "quay-2"),
        schedulers=packed,
    )
    first, second = (one["runs"][0]["recorded"] for one in run_scenario(file)["schedulers"])
    counts = {"same": 2, "tie": 0, "different": 0, "follows": 0}
    assert first == {**counts, "differences": []}
    a, b = second["differences"]
    assert (a["agreement"], a["plugin"]) == ("different", "NodeResourcesFit")
    assert (a["recorded"], a["ours"]) == ("quay-2", "quay-1")
    assert (b["agreement"], b["plugin"]) == ("follows", "NodeResourcesFit")


def test_a_tie_is_a_tie(tmp_path: Path) -> None:
    nodes = (there(0, node_body(name)) for name in ("quay-1", "quay-2"))
    recorded = first_run(scenario(tmp_path, *nodes, WHOLE, *placed(2, "a", "quay-2")))["recorded"]
    assert [one["agreement"] for one in recorded["differences"]] == ["tie"]


def placed(when: float, name: str, node: str) -> tuple[Record, Record]:
    pod = pod_body(name, cpu="1")
    return there(when, pod), there(when + 0.1, on(node, pod))


def test_a_bad_recording_is_refused_with_its_record(tmp_path: Path) -> None:
    bad = Record(START, object=msgspec.Raw(b'{"kind": "Ship"}'))
    with pytest.raises(InputError, match=r"r\.jsonl\.gz: record 2: object.kind: expected a kind"):
        run_scenario(scenario(tmp_path, bad))
