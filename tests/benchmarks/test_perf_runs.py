"""`moorage bench perf` in process: an op list with every operation, and what is reported of it."""

import asyncio
import json
from pathlib import Path

import pytest

from cli.running import Run, Write
from moorage.apiserver.server import ApiServer
from moorage.benchmarks.perf.cases import load_workloads
from moorage.benchmarks.perf.clusters import gates_of
from moorage.benchmarks.perf.direct_client import DirectClient
from moorage.benchmarks.perf.operations import OPCODES
from moorage.benchmarks.perf.throughput import Samples
from moorage.errors import ApiError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.requests import MERGE, bind
from moorage.kube.resources import resource_for

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: "{{.prefix}}-{{.Index}}"}
status: {capacity: {pods: "20", cpu: "4", memory: 32Gi}}
"""
TAINTED = """\
apiVersion: v1
kind: Node
metadata: {name: "reef-{{.Index}}", labels: {hazard: rocks}}
spec: {taints: [{key: reef, effect: NoSchedule}]}
status: {capacity: {pods: "20", cpu: "4", memory: 32Gi}}
"""
CLEARED = TAINTED.replace("spec: {taints: [{key: reef, effect: NoSchedule}]}", "spec: {}")
POD = """\
apiVersion: v1
kind: Pod
metadata: {generateName: boat-, labels: {type: boat}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: hold, image: pause}]
"""
CREW = """\
apiVersion: v1
kind: Pod
metadata: {name: "sailor-{{.Index}}"}
spec:
  schedulingGroup: {podGroupName: "crew-{{DivideInt .Index .size}}"}
  priority: 7
  containers: [{name: bunk, image: pause, resources: {claims: [{name: gear}]}}]
  resourceClaims: [{name: gear, resourceClaimTemplateName: gear}]
"""
CREWS = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: "crew-{{.Index}}"}
spec:
  priority: 7
  schedulingPolicy: {gang: {minCount: {{.size}}}}
  resourceClaims: [{name: gear, resourceClaimTemplateName: gear}]
"""
STUCK = POD.replace("type: boat", "type: stuck").replace(
    "spec:", "spec:\n  nodeSelector: {hazard: rocks}"
)
CLAIMING = """\
apiVersion: v1
kind: Pod
metadata: {name: "diver-{{.Index}}"}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: hold, image: pause, resources: {claims: [{name: gear}]}}]
  resourceClaims: [{name: gear, resourceClaimTemplateName: gear}]
"""
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gear}
spec: {selectors: [{cel: {expression: 'device.driver == "gear.example.com"'}}]}
"""
SLICE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "{{.node}}-{{.Index}}"}
spec:
  driver: gear.example.com
  nodeName: {{.node}}-{{.Index}}
  pool: {name: "{{.node}}-{{.Index}}", generation: 1, resourceSliceCount: 1}
  devices:{{range .devices}}
  - name: suit-{{.}}{{end}}
"""
REQUEST = "devices: {requests: [{name: one, exactly: {deviceClassName: gear}}]}"
CLAIM = f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{generateName: kept-}}
spec: {{{REQUEST}}}
"""
CLAIM_TEMPLATE = f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: gear}}
spec: {{spec: {{{REQUEST}}}}}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {generateName: signal-}
spec: {selector: {type: boat}, ports: [{port: 80}]}
"""
VOLUME = """\
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  csi: {driver: ebs.csi.aws.com}
  persistentVolumeReclaimPolicy: Retain
"""
VOLUME_CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
"""
CONFIG = """\
- name: Everything
  featureGates:
    {DynamicResourceAllocation: true, GenericWorkload: true, DRAWorkloadResourceClaims: true}
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
    nodeTemplatePath: node.yaml
    templateParams: {prefix: pier}
    labelNodePrepareStrategy: {labelKey: topology.kubernetes.io/zone, labelValues: [east, west]}
  - opcode: createNodes
    count: 2
    nodeAllocatableStrategy:
      nodeAllocatable: {attachable-volumes-csi-ebs.csi.aws.com: "9"}
      csiNodeAllocatable: {ebs.csi.aws.com: {count: 9}}
  - {opcode: createNodes, count: 1, uniqueNodeLabelStrategy: {labelKey: berth}}
  - {opcode: createNamespaces, prefix: team, count: 2}
  - {opcode: churn, mode: create, number: 1, intervalMilliseconds: 1, templatePaths: [service.yaml]}
  - opcode: churn
    mode: recreate
    number: 2
    intervalMilliseconds: 5
    templatePaths: [service.yaml]
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  - opcode: createPodSets
    count: 2
    namespacePrefix: team
    createPodsOp:
      count: 3
      opcode: createPods
      persistentVolumeTemplatePath: volume.yaml
      persistentVolumeClaimTemplatePath: volume-claim.yaml
  - {opcode: startCollectingMetrics, name: freed, namespaces: [shoal], labelSelector: {type: stuck}}
  - {opcode: createNodes, count: 1, nodeTemplatePath: tainted.yaml}
  - opcode: createPods
    count: 2
    namespace: shoal
    podTemplatePath: stuck.yaml
    skipWaitToCompletion: true
  - opcode: barrier
    stageRequirement: Attempted
    namespaces: [shoal]
    labelSelector: {type: stuck}
  - {opcode: updateAny, templatePath: cleared.yaml, updatePerSecond: 1000}
  - {opcode: barrier, labelSelector: {type: stuck}, namespaces: [shoal]}
  - {opcode: stopCollectingMetrics}
  - opcode: deletePods
    namespace: shoal
    deletePodsPerSecond: 1000
    labelSelector: {type: stuck}
    skipWaitToCompletion: true
  - {opcode: deletePods, namespace: team-0}
  - {opcode: sleep, duration: 1ms}
  - opcode: createAny
    count: 4
    templatePath: slice.yaml
    templateParams: {devices: $devices|3, node: pier}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createResourceClaims, namespace: kept, count: 2, templatePath: claim.yaml}
  - {opcode: allocResourceClaims, namespace: kept}
  - {opcode: createAny, templatePath: claim-template.yaml, namespace: dive}
  - opcode: createPods
    namespace: dive
    countParam: $divers
    podTemplatePath: claiming.yaml
    collectMetrics: true
  - opcode: createNodes
    countParam: $crews
    nodeTemplatePath: node.yaml
    templateParams: {prefix: ship}
  - opcode: createAny
    countParam: $crews
    templatePath: slice.yaml
    templateParams: {devices: 1, node: ship}
  - {opcode: createAny, templatePath: claim-template.yaml, namespace: watch}
  - opcode: createPodGroups
    namespace: watch
    countParam: $crews
    templatePath: crews.yaml
    templateParams: {size: $size}
  - opcode: createPods
    namespace: watch
    countParam: $crews
    countMultiplierParam: $size
    signatureBatchSizeParam: $size
    podTemplatePath: crew.yaml
    templateParams: {size: $size}
    collectMetrics: true
  workloads:
  - name: small
    labels: [short]
    threshold: {THRESHOLD}
    params: {nodes: 4, pods: 10, divers: 10, crews: 2, size: 3}
"""
FILES = {
    "node.yaml": NODE,
    "tainted.yaml": TAINTED,
    "cleared.yaml": CLEARED,
    "pod.yaml": POD,
    "stuck.yaml": STUCK,
    "claiming.yaml": CLAIMING,
    "crew.yaml": CREW,
    "crews.yaml": CREWS,
    "class.yaml": CLASS,
    "slice.yaml": SLICE,
    "claim.yaml": CLAIM,
    "claim-template.yaml": CLAIM_TEMPLATE,
    "service.yaml": SERVICE,
    "volume.yaml": VOLUME,
    "volume-claim.yaml": VOLUME_CLAIM,
}


def written(write: Write, threshold: float = 0.001) -> str:
    for name, text in FILES.items():
        write(name, text)
    return write("performance-config.yaml", CONFIG.replace("{THRESHOLD}", str(threshold)))


def test_the_list_has_every_operation(write: Write) -> None:
    text = Path(written(write)).read_text()
    assert [code for code in OPCODES if f"opcode: {code}" not in text] == []


def test_every_operation_runs_and_every_measured_phase_is_told(run: Run, write: Write) -> None:
    path = written(write)
    items = write("items.json", "")
    argv = ["--config", path, "--workload", "Everything/small", "--timeout", "20", "--json"]
    done = run("bench", "perf", *argv, "--data-items", items)
    assert done.code == 0, done.out + done.err
    (told,) = json.loads(done.out)
    assert (told["name"], told["reason"], told["threshold"]) == ("Everything/small", "", 0.001)
    phases = {phase["name"]: phase for phase in told["measured"]}
    # Four nodes of three devices, of which two went to claims without a pod: ten divers fit. Each
    # crew shares the one device of a ship.
    assert {name: phase["scheduled"] for name, phase in phases.items()} == {
        "namespace-6": 10,
        "freed": 2,
        "dive": 10,
        "watch": 6,
    }
    assert all(phase["overall"] > 0 for phase in phases.values())
    kept = json.loads(Path(items).read_text())
    assert kept["version"] == "v1"
    names = [item["labels"]["Name"] for item in kept["dataItems"]]
    assert names == [f"Everything/small/{name}" for name in phases]
    assert kept["dataItems"][0]["data"]["AverageThreshold"] == 0.001


def test_more_claims_than_devices_run_out_of_time(run: Run, write: Write) -> None:
    path = Path(written(write))
    path.write_text(path.read_text().replace("divers: 10", "divers: 11"))
    done = run("bench", "perf", "--config", str(path), "--workload", "*", "--timeout", "1")
    assert done.code == 1
    assert "10 of 11 pods of namespace dive were scheduled within 1 s" in done.out


def test_a_rate_below_the_threshold_fails(run: Run, write: Write) -> None:
    done = run("bench", "perf", "--config", written(write, 10_000_000), "--workload", "Everything")
    assert done.code == 1
    rows = [line.split() for line in done.out.splitlines() if line.startswith("Everything/")]
    assert [row[-2:] for row in rows] == [["1e+07", "FAIL"]] * 4


def test_pods_are_made_again_and_again_in_a_steady_state(run: Run, write: Write) -> None:
    written(write)
    text = """\
- name: Ferry
  workloadTemplate:
  - {opcode: createNodes, count: 1, nodeTemplatePath: node.yaml, templateParams: {prefix: pier}}
  - opcode: createPods
    count: 5
    steadyStateParam: $steady
    durationParam: $duration
    podTemplatePath: pod.yaml
    collectMetrics: true
  workloads:
  - {name: all-day, params: {steady: true, duration: 2s}}
"""
    done = run("bench", "perf", "--config", write("ferry.yaml", text), "--workload", "*", "--json")
    assert done.code == 0, done.out + done.err
    # One node has room for twenty: more can only have come one after the other.
    assert json.loads(done.out)[0]["measured"][0]["scheduled"] > 20


def test_a_gate_that_is_switched_off_takes_with_it_what_depends_on_it(write: Write) -> None:
    written(write)
    text = """\
- name: Gated
  featureGates: {NodeDeclaredFeatures: false}
  workloadTemplate:
  - {opcode: createPods, count: 1, podTemplatePath: pod.yaml, collectMetrics: true}
  workloads:
  - {name: one}
"""
    [workload] = load_workloads(Path(write("gated.yaml", text)))
    gates = gates_of(workload)
    assert not gates.enabled("NodeDeclaredFeatures")
    assert not gates.enabled("InPlacePodLevelResourcesVerticalScaling")
    assert gates.enabled("PodLevelResources")


def test_thresholds_may_be_given_by_the_name_of_the_suite(write: Write) -> None:
    text = Path(written(write)).read_text().replace("threshold: 0.001", "threshold: {dra: 40}")
    other = Path(write("dra/performance-config.yaml", text))
    assert load_workloads(other)[0].threshold == 40
    assert load_workloads(Path(write("misc/performance-config.yaml", text)))[0].threshold == 0


def test_the_first_sample_is_left_out_and_quiet_intervals_are_joined() -> None:
    samples = Samples()
    for now, count in enumerate((0, 0, 100, 300, 300, 300, 900, 1000)):
        samples.take(float(now), count)
    assert samples.rates == [200.0, 200.0, 200.0, 200.0, 100.0]


def test_without_http_the_answers_are_the_same() -> None:
    async def compare() -> None:
        server = ApiServer()
        await server.start()
        direct = DirectClient(server)
        pods, nodes = resource_for("Pod"), resource_for("Node")
        async with KubeClient(Access(server=server.url), env={}) as http:
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "dinghy"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            made = await direct.create(pods, "default", body)
            assert made == await http.get(pods, "default", "dinghy")
            with pytest.raises(ApiError) as by_http:
                await http.create(pods, "default", body)
            with pytest.raises(ApiError) as directly:
                await direct.create(pods, "default", body)
            assert str(by_http.value) == str(directly.value)
            assert (by_http.value.status, directly.value.status) == (409, 409)
            label = {"metadata": {"labels": {"sail": "red"}}}
            changed = await direct.patch(pods, "default", "dinghy", label, content_type=MERGE)
            assert changed == await http.get(pods, "default", "dinghy")
            await direct.create(nodes, "", {"metadata": {"name": "quay"}})
            await direct.send(bind("default", "dinghy", made["metadata"]["uid"], "quay"))
            bound = await http.get(pods, "default", "dinghy")
            assert bound["spec"]["nodeName"] == "quay"
            one = await direct.list_all(pods, bytes, label_selector="sail=red")
            other = await http.list_all(pods, bytes, label_selector="sail=red")
            assert one == other
            assert len(one.items) == 1
            await direct.delete(pods, "default", "dinghy", grace_seconds=0)
            with pytest.raises(ApiError) as gone:
                await direct.get(pods, "default", "dinghy")
            assert gone.value.is_not_found
        await server.stop()

    asyncio.run(compare())
