"""Traces in each layout: what is made of the rows, and what is said of wrong ones."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.gallery.gpus import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.traces.changes import TraceChange
from moorage.scenarios.traces.openb import openb_changes
from moorage.scenarios.traces.plain import plain_changes

HEAD = "apiVersion: simulate.moorage.io/v1alpha1\nkind: Scenario\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nquay-a,16000,65536,1,T4\nquay-b,16000,65536,2,V100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)

Reader = Callable[[Path], Iterator[TraceChange]]


def only_pods(path: Path) -> Iterator[TraceChange]:
    return openb_changes(None, path)


def write(folder: Path, name: str, text: str) -> Path:
    path, data = folder / name, text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def play(folder: Path, scenario: str) -> Json:
    """The first run of a scenario."""
    path = write(folder, "scenario.yaml", HEAD + scenario)
    run: Json = run_scenario(ScenarioFile(path))["schedulers"][0]["runs"][0]
    return run


def requests(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0]["resources"]["requests"]
    return found


def test_a_plain_table_tells_when_pods_come_and_how_long_they_run(tmp_path: Path) -> None:
    text = "at,name,cpu,memory,runTime\n1m,a,500m,1Gi,30s\n2m,b,1,2Gi,\n"
    first, second = plain_changes(write(tmp_path, "t.csv.gz", text))
    assert (first.at, first.what) == (60, "create")
    assert first.object["metadata"]["annotations"] == {FINISH_AFTER: "30.000s"}
    assert requests(second.object) == {"cpu": "1", "memory": "2Gi"}
    assert "annotations" not in second.object["metadata"]


def test_pods_of_openb_ask_for_gpus_by_annotations_and_as_a_resource(tmp_path: Path) -> None:
    text = (
        "p-0,4000,1024,1,250,T4|V100,LS,Running,5,90,7\n"
        "p-1,4000,1024,2,1000,,BE,Running,6,80,6\n"
        "p-2,500,1024,0,0,,BE,Pending,8,8,\n"
    )
    nodes = write(tmp_path, "nodes.csv", NODES)
    changes = list(openb_changes(nodes, write(tmp_path, "pods.csv", PODS + text)))
    kinds = [change.object["kind"] for change in changes]
    assert kinds == ["Node"] * 2 + ["Pod"] * 6
    node = changes[1].object
    assert node["metadata"]["labels"][GPU_MODEL] == "V100"
    assert (node["status"]["allocatable"][GPU_COUNT], node["status"]["allocatable"][GPU_MILLI]) == (
        "2",
        "2000",
    )
    pods = [(change.at, change.what, change.object["metadata"]["name"]) for change in changes[2:]]
    assert pods == [
        (5, "create", "p-0"),
        (90, "delete", "p-0"),
        (6, "create", "p-1"),
        (80, "delete", "p-1"),
        (8, "create", "p-2"),
        (8, "delete", "p-2"),
    ]
    part, whole, without = (changes[number].object for number in (2, 4, 6))
    assert part["metadata"]["annotations"] == {
        GPU_COUNT: "1",
        GPU_MILLI: "250",
        GPU_MODEL: "T4|V100",
    }
    assert part["spec"]["priority"] == 200
    assert requests(part)[GPU_MILLI] == "250"
    assert requests(whole) == {"cpu": "4000m", "memory": "1024Mi", GPU_MILLI: "2000"}
    assert "affinity" not in whole["spec"]
    assert GPU_MILLI not in requests(without)
    assert without["metadata"]["annotations"] == {}


def test_pods_of_openb_come_wait_preempt_and_go(tmp_path: Path) -> None:
    text = (
        "batch,1000,1024,1,1000,T4,BE,Running,0,900,0\n"  # preempted by service
        "service,1000,1024,1,1000,T4,LS,Running,60,600,60\n"
        "waits,1000,1024,1,1000,T4,BE,Running,300,1200,300\n"  # until service has gone
        "elsewhere,1000,1024,1,1000,,BE,Running,310,400,310\n"
        "too-late,1000,1024,1,1000,T4,BE,Pending,320,330,\n"
    )
    write(tmp_path, "nodes.csv", NODES)
    write(tmp_path, "pods.csv", PODS + text)
    trace = "{file: pods.csv, layout: openb, nodes: nodes.csv}"
    run = play(tmp_path, f"cluster: {{}}\narrivals: [{{trace: {trace}}}]\n")
    assert run["pods"] == {
        "created": 5,
        "placed": 4,
        "pending": 0,
        "finished": 0,
        "preempted": 1,
        "evicted": 3,
        "removed": 5,
        "moved": 0,
    }
    assert run["waitingSeconds"]["p99"] == pytest.approx(301, abs=0.1)  # one second of grace
    assert run["seconds"] == pytest.approx(1201, abs=0.1)


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (plain_changes, "at,name,cpu\n", ":1: expected the column memory"),
        (
            plain_changes,
            "at,name,cpu,memory\n1m,a,,1Gi\n",
            ":2: cpu: expected a value, got nothing",
        ),
        (
            plain_changes,
            "at,name,cpu,memory\n1m,a,1,1Gi\nlate,b,1,1Gi\n",
            ":3: at: expected a duration such as 90s or 1h30m, got 'late'",
        ),
        (
            plain_changes,
            "at,name,cpu,memory\n1m,a,much,1Gi\n",
            ":2: cpu: expected a quantity such as 500m, got 'much'",
        ),
        (
            plain_changes,
            "at,name,cpu,memory\n1m,A b,1,1Gi\n",
            ":2: name: expected a name of a-z, 0-9, - and ., got 'A b'",
        ),
        (
            only_pods,
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n",
            ":1: expected the column qos",
        ),
        (
            only_pods,
            PODS + "p,1,1,1,1000,,LS,Running,5,4,5\n",
            ":2: deletion_time: expected no less than creation_time (5)",
        ),
        (
            only_pods,
            PODS + "p,1,1,1,1000,,XL,Running,5,6,5\n",
            ":2: qos: expected one of BE, Burstable, LS, Guaranteed, got 'XL'",
        ),
        (
            only_pods,
            PODS + f"p,{'9' * 5000},1,1,1000,,LS,Running,5,6,5\n",
            f":2: cpu_milli: expected a whole number, got '{'9' * 40}'",
        ),
    ],
)
def test_a_row_that_is_wrong_is_told_by_line_and_column(
    tmp_path: Path, reader: Reader, text: str, message: str
) -> None:
    path = write(tmp_path, "t.csv", text)
    with pytest.raises(InputError) as error:
        list(reader(path))
    assert str(error.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ("{file: pods.csv, nodes: nodes.csv}", ":5: arrivals[0].trace.nodes: expected none: "),
        ("{file: pods.csv, layout: tape}", ":5: arrivals[0].trace.layout: invalid enum value"),
    ],
)
def test_a_scenario_that_asks_for_the_wrong_files_is_told(
    tmp_path: Path, trace: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        play(tmp_path, f"cluster: {{}}\narrivals:\n- trace: {trace}\n")
    assert str(error.value).startswith(f"{tmp_path / 'scenario.yaml'}{message}")
