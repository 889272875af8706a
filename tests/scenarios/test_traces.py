"""Traces in each layout: what is made of the rows, and what is said of wrong ones."""

import gzip
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from moorage.controllers.kubelet import FINISH_AFTER
from moorage.controllers.objects import Json
from moorage.errors import InputError
from moorage.gallery.gpus import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario import TraceOfPods
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.traces.azure import azure_changes
from moorage.scenarios.traces.borg import borg_changes
from moorage.scenarios.traces.changes import Machine, TraceChange
from moorage.scenarios.traces.layouts import trace_changes
from moorage.scenarios.traces.openb import openb_changes
from moorage.scenarios.traces.plain import plain_changes
from moorage.scenarios.traces.recordings import kwok_changes, simkube_changes

HEAD = "apiVersion: simulate.moorage.io/v1alpha1\nkind: Scenario\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nquay-a,16000,65536,1,T4\nquay-b,16000,65536,2,V100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)

MACHINE = Machine(32_000, 128 * 2**30)

Reader = Callable[[Path], Iterator[TraceChange]]


def only_pods(path: Path) -> Iterator[TraceChange]:
    return openb_changes(None, path)


def instances(path: Path) -> Iterator[TraceChange]:
    return borg_changes(path, None, MACHINE)


def azure_with(types: str) -> Reader:
    """Machines with these types."""

    def read(path: Path) -> Iterator[TraceChange]:
        table = write(path.parent, "types.csv", f"vmTypeId,machineId,core,memory\n{types}")
        return azure_changes(path, table, MACHINE)

    return read


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
    pods = run["pods"]
    assert (pods["created"], pods["placed"], pods["pending"]) == (5, 4, 0)
    assert (pods["preempted"], pods["removed"]) == (1, 5)
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
        (
            azure_with("7,0,1,0.1\n"),
            "vmId,tenantId,vmTypeId,priority,starttime,endtime\n1,1,9,0,0,1\n",
            ":2: vmTypeId: expected a type of the table vmType, got '9'",
        ),
        (
            azure_with("7,0,1,0.1\n"),
            "vmId,tenantId,vmTypeId,priority,starttime,endtime\n1,1,7,0,soon,1\n",
            ":2: starttime: expected a number, got 'soon'",
        ),
        (
            azure_with("7,0,1,0.1\n"),
            "vmId,tenantId,vmTypeId,priority,starttime,endtime\n1,1,7,0,2,1\n",
            ":2: endtime: expected no less than starttime",
        ),
        (
            instances,
            "time,type,collection_id,instance_index,priority,cpus,memory\n0,12,1,0,0,1,1\n",
            ":2: type: expected one of SUBMIT, QUEUE, ENABLE, SCHEDULE, EVICT, FAIL, FINISH, "
            "KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING or its number, got '12'",
        ),
        (
            kwok_changes,
            "kind: Pod\n---\n- 5\n",
            ":1: expected an object with kind and metadata.name",
        ),
        (
            kwok_changes,
            "kind: Node\nmetadata: {name: n}\nstatus: 5\n",
            ":1: status: expected a mapping",
        ),
        (kwok_changes, "a: [\n", ":2: expected YAML: did not find expected node content"),
        (
            kwok_changes,
            "---\nkind: ResourcePatch\nresource: {resource: pods}\ntarget: {name: p}\n"
            "durationNanosecond: soon\nmethod: delete\n",
            ":2: durationNanosecond: expected `int`, got `str`",
        ),
        (
            instances,
            "time,type,collection_id,instance_index,priority,cpus,memory\n0,0,1,0,0,-1,1\n",
            ":2: cpus: expected no less than 0, got -1.0",
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
        ("{file: pods.csv, layout: borg}", ":5: arrivals[0].trace.machine: expected cpu and mem"),
        ("{file: pods.csv, types: t.csv}", ":5: arrivals[0].trace.types: expected none: "),
        ("{file: pods.csv, sample: 2}", ":5: arrivals[0].trace.sample: expected a number above 0"),
        (
            "{file: pods.csv, layout: tape}",
            ":5: arrivals[0].trace.layout: expected one of azure, borg, csv, kwok, ",
        ),
    ],
)
def test_a_scenario_that_asks_for_the_wrong_files_is_told(
    tmp_path: Path, trace: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        play(tmp_path, f"cluster: {{}}\narrivals:\n- trace: {trace}\n")
    assert str(error.value).startswith(f"{tmp_path / 'scenario.yaml'}{message}")


TYPES = (
    "id,vmTypeId,machineId,core,memory,hdd,ssd,nic\n"
    "0,7,5,0.5,0.25,0,0,0.1\n1,7,3,0.25,0.125,0,0,0.1\n2,8,5,1,1,,0,0\n"
)
VMS = (
    "vmId,tenantId,vmTypeId,priority,starttime,endtime\n"
    "0,11,7,0,-3.5,0.5\n1,11,8,1,0.25,NULL\n2,12,7,1,1.5,1.75\n"
)


def azure_tables(folder: Path, *, sqlite: bool) -> tuple[Path, Path | None]:
    """The two tables, as they are published or as CSV."""
    if not sqlite:
        return write(folder, "vm.csv.gz", VMS), write(folder, "types.csv", TYPES)
    path = folder / "trace.sqlite"
    with closing(sqlite3.connect(path)) as base:
        for name, text in (("vm", VMS), ("vmType", TYPES)):
            header, *rows = (line.split(",") for line in text.splitlines())
            base.execute(f"CREATE TABLE {name} ({', '.join(header)})")
            places = ", ".join("?" * len(header))
            values = [[None if value == "NULL" else value for value in row] for row in rows]
            base.executemany(f"INSERT INTO {name} VALUES ({places})", values)
        base.commit()
    return path, None


@pytest.mark.parametrize("sqlite", [True, False])
def test_machines_of_azure_come_and_go_by_days_and_in_shares(tmp_path: Path, sqlite: bool) -> None:
    path, types = azure_tables(tmp_path, sqlite=sqlite)
    changes = list(azure_changes(path, types, MACHINE))
    assert [(one.at, one.what, one.object["metadata"]["name"]) for one in changes] == [
        (0, "create", "vm-0"),
        (43_200, "delete", "vm-0"),
        (21_600, "create", "vm-1"),
        (129_600, "create", "vm-2"),
        (151_200, "delete", "vm-2"),
    ]
    small, large = changes[0].object, changes[2].object
    assert requests(small) == {"cpu": "8000m", "memory": str(16 * 2**30)}
    assert requests(large) == {"cpu": "32000m", "memory": str(128 * 2**30)}
    assert (small["spec"]["priority"], large["spec"]["priority"]) == (100, 0)
    assert small["metadata"]["labels"] == {"tenant": "11", "vm-type": "7"}


INSTANCES = "time,type,collection_id,instance_index,priority,alloc_collection_id,cpus,memory\n"
MACHINES = "time,machine_id,type,switch_id,platform_id,cpus,memory\n"


def test_instances_of_borg_come_with_their_first_row_and_go_with_their_end(tmp_path: Path) -> None:
    text = (
        "0,SUBMIT,70,0,200,0,0.5,0.25\n"
        "1000000,3,70,0,200,0,0.5,0.25\n"
        "2000000,EVICT,70,0,200,0,0.5,0.25\n"  # Borg's own decision
        "2000000,SUBMIT,70,0,200,0,0.5,0.25\n"
        "3000000,SUBMIT,71,4,0,70,0.1,0.1\n"  # inside an allocation
        "4000000,5,70,0,200,0,0.5,0.25\n"
        "4000000,0,70,0,200,0,0.5,0.25\n"
        "5000000,SCHEDULE,72,1,,,,\n"  # it was there before the rows begin
        f"{2**63 - 1},FINISH,70,0,200,0,0.5,0.25\n"
    )
    machines = (
        "0,5,ADD,abc=,x/y+,0.5,0.25\n0,6,1,,,1,1\n"
        "3000000,6,UPDATE,,,0.5,1\n4000000,6,REMOVE,,,,\n5000000,6,ADD,,,1,1\n"
    )
    path, nodes = (
        write(tmp_path, "i.csv", INSTANCES + text),
        write(tmp_path, "m.csv", MACHINES + machines),
    )
    changes = list(borg_changes(path, nodes, MACHINE))
    assert [(one.at, one.what, one.object["metadata"]["name"]) for one in changes] == [
        (0, "create", "machine-5"),
        (0, "create", "machine-6"),
        (3, "patch", "machine-6"),
        (4, "delete", "machine-6"),
        (5, "create", "machine-6"),
        (0, "create", "70-0-0"),
        (4, "delete", "70-0-0"),
        (4, "create", "70-0-1"),
        (5, "create", "72-1-0"),
    ]
    assert changes[0].object["metadata"]["labels"] == {
        "kubernetes.io/hostname": "machine-5",
        "platform-id": "x-y",
        "switch-id": "abc",
    }
    assert changes[2].object["status"]["allocatable"]["cpu"] == "16000m"
    assert requests(changes[5].object) == {"cpu": "16000m", "memory": str(32 * 2**30)}
    assert changes[5].object["spec"]["priority"] == 200
    assert requests(changes[8].object) == {"cpu": "0m", "memory": "0"}


def test_machines_of_borg_fail_and_grow_in_a_run(tmp_path: Path) -> None:
    write(tmp_path, "m.csv", MACHINES + "0,1,1,,,0.5,0.5\n60000000,1,3,,,1,1\n120000000,1,2,,,,\n")
    rows = "0,0,7,0,0,,0.5,0.1\n0,0,8,0,0,,0.5,0.1\n"
    write(tmp_path, "i.csv", INSTANCES + rows)
    trace = "{file: i.csv, nodes: m.csv, layout: borg, machine: {cpu: 8000m, memory: 32Gi}}"
    run = play(tmp_path, f"cluster: {{}}\narrivals: [{{trace: {trace}}}]\n")
    assert run["pods"]["placed"] == 2
    assert run["waitingSeconds"]["p99"] == pytest.approx(60, abs=0.1)
    assert run["pods"]["removed"] == 2


def test_a_part_of_a_trace_is_taken_by_time_and_by_name(tmp_path: Path) -> None:
    rows = [f"{second}s,pod-{second},1,1Gi\n" for second in range(400)]
    write(tmp_path, "t.csv", "at,name,cpu,memory\n" + "".join(rows))
    file = ScenarioFile(write(tmp_path, "s.yaml", HEAD + "cluster: {}\n"))
    early = list(trace_changes(file, TraceOfPods("t.csv", until="199s")))
    assert len(early) == 200
    some = list(trace_changes(file, TraceOfPods("t.csv", sample=0.25)))
    assert len(some) == pytest.approx(100, abs=25)
    assert some == list(trace_changes(file, TraceOfPods("t.csv", sample=0.25)))


RECORDING = """
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: default, uid: u-1}
spec: {nodeName: quay, containers: [{name: main, image: main, resources: {requests: {cpu: "1"}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Node
metadata: {name: quay, resourceVersion: "7", labels: {a: b}}
status:
  allocatable: {cpu: "2", memory: 8Gi, pods: "10"}
  conditions: [{type: Ready, status: "False"}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: quay, namespace: kube-node-lease}
---
"""


def patch(kind: str, name: str, seconds: int, method: str, template: Json | None = None) -> str:
    return msgspec.yaml.encode(
        {
            "apiVersion": "action.kwok.x-k8s.io/v1alpha1",
            "kind": "ResourcePatch",
            "resource": {"version": "v1", "resource": kind},
            "target": {"name": name, "namespace": "" if kind == "nodes" else "default"},
            "durationNanosecond": seconds * 10**9,
            "method": method,
            **({"template": template} if template is not None else {}),
        }
    ).decode()


def recorded_pod(name: str) -> Json:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "now"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }


def test_a_recording_of_kwok_is_scheduled_anew(tmp_path: Path) -> None:
    new = recorded_pod("new")
    new["spec"]["nodeName"] = "elsewhere"
    patches = [
        patch("nodes", "quay", 5, "patch", {"status": {"conditions": [{"type": "Ready"}]}}),
        patch("pods", "new", 10, "create", new),
        patch("pods", "waits", 11, "create", recorded_pod("waits")),
        patch("pods", "new", 12, "patch", {"spec": {"nodeName": "quay"}}),
        patch("pods", "new", 13, "patch", {"status": {"phase": "Running"}}),
        patch("pods", "new", 43, "patch", {"status": {"phase": "Succeeded"}}),
        patch("nodes", "quay", 50, "patch", {"spec": {"unschedulable": True}}),
        patch("pods", "old", 60, "patch", {"metadata": {"deletionTimestamp": "now"}}),
        patch("pods", "old", 61, "delete"),
    ]
    path = write(tmp_path, "r.yaml", RECORDING + "---\n".join(patches))
    changes = list(kwok_changes(path))
    told = [(one.at, one.what, one.object["metadata"]["name"]) for one in changes]
    assert told == [
        (0, "create", "quay"),
        (0, "create", "old"),
        (10, "create", "new"),
        (11, "create", "waits"),
        (50, "patch", "quay"),
        (60, "delete", "old"),
        (61, "delete", "old"),
    ]
    assert changes[0].object["metadata"] == {"name": "quay", "labels": {"a": "b"}}
    assert set(changes[0].object["status"]) == {"allocatable"}
    assert changes[1].object["spec"]["nodeName"] == "quay"
    assert "nodeName" not in changes[2].object["spec"]
    assert changes[2].object["metadata"]["annotations"] == {FINISH_AFTER: "30.000s"}
    run = play(tmp_path, "cluster: {}\narrivals: [{trace: {file: r.yaml, layout: kwok}}]\n")
    assert (run["pods"]["placed"], run["pods"]["finished"]) == (3, 1)
    assert run["waitingSeconds"]["p99"] == pytest.approx(29, abs=0.1)  # until new has ended


def test_a_trace_of_simkube_has_workloads_that_controllers_make_pods_of(tmp_path: Path) -> None:
    pod = recorded_pod("web")
    web: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "u-2"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]},
        },
    }
    more = {**web, "spec": {**web["spec"], "replicas": 3}}
    events = [
        {"ts": 1_700_000_000, "applied_objs": [web], "deleted_objs": []},
        {"ts": 1_700_000_060, "applied_objs": [more], "deleted_objs": []},
        {"ts": 1_700_000_600, "applied_objs": [], "deleted_objs": [more]},
    ]
    trace = {"version": 3, "config": {}, "events": events, "index": {"apps/v1.Deployment": {}}}
    path = tmp_path / "trace.sk"
    path.write_bytes(msgspec.msgpack.encode(trace))
    told = [(one.at, one.what) for one in simkube_changes(path)]
    assert told == [(0, "create"), (60, "patch"), (600, "delete")]
    scenario = (
        "cluster: {nodes: ['2:cpu=4']}\narrivals: [{trace: {file: trace.sk, layout: simkube}}]\n"
    )
    run = play(tmp_path, scenario)
    assert (run["pods"]["placed"], run["pods"]["removed"]) == (3, 3)
    path.write_bytes(b"\x91\x01")
    with pytest.raises(InputError, match="expected a trace of SimKube: "):
        list(simkube_changes(path))
