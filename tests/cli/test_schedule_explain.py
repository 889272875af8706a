"""`moorage schedule --explain`: one pod explained in the cluster that it meets."""

import json

from cli.running import NODE, POD, Run, Write

TWO_NODES = NODE + "---\n" + NODE.replace("quay-1", "quay-2").replace('"4"', '"2"') + "---\n"
TAINTED = (
    NODE.replace("quay-1", "reef").replace('"4"', '"0"')
    + "spec: {taints: [{key: rocks, effect: NoSchedule}]}\n---\n"
)


def test_every_plugin_is_asked_about_every_node(run: Run, write: Write) -> None:
    done = run("schedule", "-f", write("c.yaml", TWO_NODES + TAINTED + POD), "--explain", "ship")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == (
        "Pod fleet/ship can be scheduled: 2 of 3 nodes could take it, it would go to quay-1."
    )
    reef = next(line for line in lines if line.startswith("reef"))
    # Upstream would stop at the taint; the table goes on.
    assert reef.endswith(
        "TaintToleration: node(s) had untolerated taint(s); NodeResourcesFit: Insufficient cpu"
    )
    assert any(line.startswith("* quay-1") for line in lines)


def test_the_json_form_is_that_of_moorage_explain(run: Run, write: Write) -> None:
    path = write("c.yaml", TWO_NODES + TAINTED + POD)
    done = run("schedule", "-f", path, "--explain", "fleet/ship", "-o", "json")
    told = json.loads(done.out)
    assert told["pod"] == "fleet/ship"
    (attempt,) = told["attempts"]
    assert attempt["node"] == "quay-1"
    alone = run("explain", "pod", "fleet/ship", "-f", path, "--matrix", "-o", "json")
    assert attempt == {k: v for k, v in json.loads(alone.out).items() if k != "fixes"}
    nodes = {node["node"]: node for node in attempt["matrix"]["rows"]}
    assert [name for name, node in nodes.items() if node["feasible"]] == ["quay-1", "quay-2"]
    refusals = [v for v in nodes["reef"]["verdicts"] if v["verdict"] == "rejected"]
    assert [(v["plugin"], v["code"], v["reasons"]) for v in refusals] == [
        (
            "TaintToleration",
            "UnschedulableAndUnresolvable",
            ["node(s) had untolerated taint(s)"],
        ),
        ("NodeResourcesFit", "UnschedulableAndUnresolvable", ["Insufficient cpu"]),
    ]
    skipped = {v["plugin"] for v in nodes["reef"]["verdicts"] if v["verdict"] == "skipped"}
    assert skipped == set(attempt["skippedFilterPlugins"])
    for name in ("quay-1", "quay-2"):
        parts = nodes[name]["parts"]
        assert sum(part["weighted"] for part in parts) == nodes[name]["total"]
        assert [p["weighted"] for p in parts if p["plugin"] == "TaintToleration"] == [300]


def test_pods_that_come_before_are_placed_first(run: Run, write: Write) -> None:
    first = POD.replace("ship", "ferry").replace("spec: {", "spec: {priority: 1, ")
    path = write("c.yaml", TWO_NODES + POD.replace('"1"', '"4"') + "---\n" + first)
    done = run("schedule", "-f", path, "--explain", "ship")
    assert "Pod fleet/ship cannot be scheduled: 0/2 nodes are available" in done.out


def test_an_eviction_is_explained_before_and_after(run: Run, write: Write) -> None:
    lesser = POD.replace("ship", "ferry").replace('"1"', '"3"')
    lesser = lesser.replace("spec: {", "spec: {nodeName: quay-1, ")
    greater = POD.replace('"1"', '"4"').replace("spec: {", "spec: {priority: 9, ")
    path = write("c.yaml", f"{NODE}---\n{lesser}---\n{greater}")
    done = run("schedule", "-f", path, "--explain", "ship")
    before, after = done.out.split("After the eviction:\n")
    assert "Pod fleet/ship cannot be scheduled: 0/1 nodes are available: " in before
    assert ["*", "quay-1", "0", "fleet/ferry"] in [line.split() for line in before.splitlines()]
    assert after.startswith("Pod fleet/ship can be scheduled: 1 of 1 node could take it")


def test_long_names_do_not_break_the_table(run: Run, write: Write) -> None:
    long = "quay-" + "x" * 55
    done = run(
        "schedule",
        "-f",
        write("c.yaml", NODE.replace("quay-1", long) + "---\n" + POD),
        "--explain",
        "ship",
    )
    header = next(line for line in done.out.splitlines() if line.startswith("NODE"))
    row = next(line for line in done.out.splitlines() if line.startswith(long))
    assert header.index("FEASIBLE") == row.index("yes")


def test_an_unknown_pod_is_one_sentence(run: Run, write: Write) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD}")
    done = run("schedule", "-f", path, "--explain", "kraken")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "pod kraken is not among the 1 pods that wait or run" in done.err


def test_an_ambiguous_name_lists_the_choices(run: Run, write: Write) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD}---\n{POD.replace('fleet', 'navy')}")
    done = run("schedule", "-f", path, "--explain", "ship")
    assert done.code == 1
    assert "fleet/ship, navy/ship" in done.err


def test_a_pod_on_a_node_has_nothing_to_explain(run: Run, write: Write) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD.replace('spec: {', 'spec: {nodeName: quay-1, ')}")
    done = run("schedule", "-f", path, "--explain", "ship")
    assert done.code == 1
    assert "is on node quay-1 already" in done.err


def test_a_pod_of_another_scheduler_is_said_to_be_one(run: Run, write: Write) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD.replace('spec: {', 'spec: {schedulerName: tug, ')}")
    done = run("schedule", "-f", path, "--explain", "ship")
    assert done.code == 0
    assert "not responsible: schedulerName is tug, not default-scheduler" in done.out


def test_a_refusal_before_any_node_is_told(run: Run, write: Write) -> None:
    # Two terms of metadata.name that no single node satisfies.
    conflict = """\
apiVersion: v1
kind: Pod
metadata: {name: ship}
spec:
  containers: [{name: hold}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchFields:
          - {key: metadata.name, operator: In, values: [a]}
          - {key: metadata.name, operator: In, values: [b]}
"""
    done = run("schedule", "-f", write("c.yaml", f"{NODE}---\n{conflict}"), "--explain", "ship")
    assert done.code == 0
    assert "NodeAffinity  PreFilter  pod affinity terms conflict" in done.out
