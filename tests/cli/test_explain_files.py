"""`moorage explain pod|node -f`: a cluster in files, explained as it is."""

import io
import json
from importlib.resources import files
from typing import Any

import pytest
import yaml

from cli.running import NODE, POD, Finished, Run, Write

HARBOUR = str(files("moorage") / "samples" / "harbour.yaml")
SMALL = NODE.replace("quay-1", "quay-2").replace('"4"', '"2"')
REEF = NODE.replace("quay-1", "reef") + "spec: {taints: [{key: rocks, effect: NoSchedule}]}\n"
BIG = POD.replace('"1"', '"16"')


def cluster(*documents: str) -> str:
    return "---\n".join(documents)


def told(done: Finished) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def test_a_pod_that_fits_nowhere_names_every_rejection_and_a_fix(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, SMALL, REEF, BIG))
    done = run("explain", "pod", "fleet/ship", "-f", path, "-o", "json")
    assert done.code == 3, done.err
    answer = told(done)
    assert answer["schema"] == "moorage.explain/v1"
    assert (answer["pod"], answer["schedulable"], answer["nodes"]) == ("fleet/ship", False, 3)
    assert answer["source"] == "files"
    assert answer["message"].startswith("0/3 nodes are available: ")
    rejections = {(r["plugin"], r["reason"]): r for r in answer["rejections"]}
    assert set(rejections) == {
        ("NodeResourcesFit", "Insufficient cpu"),
        ("TaintToleration", "node(s) had untolerated taint(s)"),
    }
    fit = rejections["NodeResourcesFit", "Insufficient cpu"]
    assert (fit["nodes"], fit["only"]) == (3, 2)
    assert fit["examples"] == ["quay-1", "quay-2", "reef"]
    assert answer["scores"] == []
    lower = next(fix for fix in answer["fixes"] if fix["kind"] == "lowerRequest")
    assert lower["verified"]
    assert lower["nodesGained"] >= 1
    assert "cpu" in lower["change"]


def test_the_fix_that_is_proposed_makes_the_pod_schedulable(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, BIG))
    fixes = told(run("explain", "pod", "ship", "-f", path, "-o", "json"))["fixes"]
    (edit,) = next(fix for fix in fixes if fix["kind"] == "lowerRequest")["edits"]
    assert (edit["kind"], edit["name"]) == ("Pod", "fleet/ship")
    pod = yaml.safe_load(BIG)
    for step in edit["patch"]:
        *way, last = step["path"].strip("/").split("/")
        at = pod
        for key in way:
            at = at[int(key)] if isinstance(at, list) else at[key]
        at[last] = step["value"]
    fixed = write("fixed.yaml", cluster(NODE, yaml.safe_dump(pod)))
    done = run("explain", "pod", "ship", "-f", fixed, "-o", "json")
    assert (done.code, told(done)["node"]) == (0, "quay-1")


def test_no_fixes_are_looked_for_where_nobody_wants_them(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, BIG))
    done = run("explain", "pod", "ship", "-f", path, "-o", "json", "--no-fixes")
    assert (done.code, told(done)["fixes"]) == (3, [])


def test_a_pod_that_waits_is_explained_with_scores(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, SMALL, REEF, POD))
    done = run("explain", "pod", "fleet/ship", "-f", path, "-o", "json")
    assert done.code == 0
    answer = told(done)
    assert (answer["schedulable"], answer["feasible"], answer["node"]) == (True, 2, "quay-1")
    assert "placed" not in answer
    assert [score["node"] for score in answer["scores"]] == ["quay-1", "quay-2"]
    for score in answer["scores"]:
        assert sum(part["weighted"] for part in score["parts"]) == score["total"]


def test_other_waiting_pods_are_not_placed_first(run: Run, write: Write) -> None:
    # Either fits alone; `moorage schedule` would give the place to the one of higher priority.
    rival = POD.replace("name: ship", "name: rival").replace("spec: {", "spec: {priority: 100, ")
    path = write("c.yaml", cluster(NODE.replace('"4"', '"1"'), POD, rival))
    for name in ("ship", "rival"):
        assert run("explain", "pod", name, "-f", path).code == 0


def test_a_pod_on_a_node_is_explained_as_if_it_were_not_there(run: Run, write: Write) -> None:
    aboard = POD.replace("spec: {", "spec: {nodeName: quay-1, ").replace('"1"', '"4"')
    path = write("c.yaml", cluster(NODE, SMALL, aboard))
    done = run("explain", "pod", "ship", "-f", path, "-o", "json")
    assert done.code == 0
    answer = told(done)
    assert (answer["placed"], answer["node"], answer["feasible"]) == (True, "quay-1", 1)
    assert [score["node"] for score in answer["scores"]] == ["quay-1"]
    assert run("explain", "pod", "ship", "-f", path).out.startswith(
        "Pod fleet/ship is on node quay-1; 1 of 2 nodes could take it."
    )


@pytest.mark.parametrize(("first", "expected"), [("default", "default"), ("fleet", "fleet")])
def test_a_bare_name_is_looked_for_in_namespace_default_first(
    run: Run, write: Write, first: str, expected: str
) -> None:
    pods = [POD.replace("fleet", first)]
    if first == "default":
        pods.append(POD)
    path = write("c.yaml", cluster(NODE, *pods))
    assert told(run("explain", "pod", "ship", "-f", path, "-o", "json"))["pod"] == (
        f"{expected}/ship"
    )


def test_why_not_that_node_is_told_by_verdict_and_by_score(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, SMALL, REEF, POD))
    asked = ("explain", "pod", "ship", "-f", path, "--node", "reef", "--node", "quay-2")
    rows = {row["node"]: row for row in told(run(*asked, "-o", "json"))["asked"]}
    assert not rows["reef"]["feasible"]
    refusing = [v["plugin"] for v in rows["reef"]["verdicts"] if v["verdict"] == "rejected"]
    assert refusing == ["TaintToleration"]
    assert rows["quay-2"]["total"] == sum(part["weighted"] for part in rows["quay-2"]["parts"])
    text = run(*asked).out
    assert "Why not reef: rejected by 1 plugin\n" in text
    assert "Why not quay-2: it is feasible and scores " in text
    assert " less than quay-1 (raw > weighted)\n" in text


def test_a_pod_is_compared_with_the_node_it_is_on(run: Run, write: Write) -> None:
    aboard = POD.replace("spec: {", "spec: {nodeName: quay-2, ")
    path = write("c.yaml", cluster(NODE, SMALL, aboard))
    text = run("explain", "pod", "ship", "-f", path, "--node", "quay-1").out
    assert "Why not quay-1: it is feasible and scores " in text
    assert " more than quay-2 (raw > weighted)\n" in text


@pytest.mark.parametrize("there", ["quay-2", "atlantis"], ids=["full by now", "not known"])
def test_a_pod_on_a_node_that_has_no_score_is_compared_with_none(
    run: Run, write: Write, there: str
) -> None:
    aboard = POD.replace("spec: {", f"spec: {{nodeName: {there}, ").replace('"1"', '"3"')
    path = write("c.yaml", cluster(NODE, SMALL, aboard))
    text = run("explain", "pod", "ship", "-f", path, "--node", "quay-1").out
    assert "Why not quay-1: no plugin rejects it, and it scores " in text
    assert f"; node {there}, where the pod is, is none that would take it now.\n" in text


def test_top_says_how_many_nodes_are_scored(run: Run) -> None:
    for asked, expected in ((("--top", "3"), 3), ((), 10)):
        done = run("explain", "pod", "harbour/tide-api-0", "-f", HARBOUR, "-o", "json", *asked)
        assert len(told(done)["scores"]) == expected


def test_the_matrix_has_every_plugin_about_every_node(run: Run) -> None:
    asked = ("explain", "pod", "batch/archive-0", "-f", HARBOUR, "--no-fixes")
    matrix = told(run(*asked, "--matrix", "-o", "json"))["matrix"]
    assert len(matrix["rows"]) == matrix["total"] == 24
    for row in matrix["rows"]:
        assert [verdict["plugin"] for verdict in row["verdicts"]] == matrix["plugins"]
    assert "matrix" not in told(run(*asked, "-o", "json"))
    lines = run(*asked, "-o", "wide").out.splitlines()
    control = next(line for line in lines if line.startswith("east-control"))
    assert control.endswith(
        "TaintToleration: node(s) had untolerated taint(s); NodeResourcesFit: Insufficient memory"
    )


def test_the_table_begins_with_one_sentence_and_ranks_fixes(run: Run) -> None:
    done = run("explain", "pod", "batch/archive-0", "-f", HARBOUR)
    assert done.code == 3
    lines = done.out.splitlines()
    assert lines[0].startswith(
        "Pod batch/archive-0 cannot be scheduled: 0/24 nodes are available: "
    )
    # Nodes that are rejected with different codes for the same reason are one line.
    fit = [line for line in lines if "Insufficient memory" in line and "NodeResourcesFit" in line]
    assert len(fit) == 1
    assert fit[0].split()[:3] == ["22", "5", "NodeResourcesFit"]
    assert "What would help, the best first" in lines
    assert any("lower the memory request of container archive" in line for line in lines)


def test_preemption_is_told_with_its_victims(run: Run) -> None:
    done = run("explain", "pod", "vision/wreck-search", "-f", HARBOUR)
    assert "Preemption would help" in done.out
    lines = done.out.splitlines()
    assert "* east-gpu                0  vision/buoy-training-c1" in lines


@pytest.mark.parametrize("output", ["table", "wide"])
def test_it_is_said_once_that_preemption_does_not_help(run: Run, output: str) -> None:
    done = run("explain", "pod", "batch/archive-0", "-f", HARBOUR, "--no-fixes", "-o", output)
    assert done.out.splitlines().count("Preemption does not help") == 1


def test_yaml_says_the_same_as_json(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, BIG))
    asked = ("explain", "pod", "ship", "-f", path, "-o")
    assert yaml.safe_load(run(*asked, "yaml").out) == told(run(*asked, "json"))


def test_a_gated_pod_is_told_to_be_gated(run: Run, write: Write) -> None:
    gated = POD.replace("spec: {", "spec: {schedulingGates: [{name: example.com/crew}], ")
    path = write("c.yaml", cluster(NODE, gated))
    answer = told(run("explain", "pod", "ship", "-f", path, "-o", "json"))
    assert not answer["schedulable"]
    assert [(r["plugin"], r["point"]) for r in answer["rejections"]] == [
        ("SchedulingGates", "PreEnqueue")
    ]
    done = run("explain", "pod", "ship", "-f", path)
    assert done.code == 3
    assert "SchedulingGates" in done.out


def test_a_configuration_and_gates_change_the_answer(run: Run, write: Write) -> None:
    config = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tug
  plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
"""
    path = write("c.yaml", cluster(NODE, BIG))
    flags = ("--config", write("s.yaml", config), "-o", "json")
    refused = run("explain", "pod", "ship", "-f", path, *flags)
    assert refused.code == 1
    assert "its schedulerName is default-scheduler, and the profiles are: tug" in refused.err
    done = run("explain", "pod", "ship", "-f", path, *flags, "--profile", "tug")
    assert done.code == 0, done.err
    assert told(done)["schedulerName"] == "tug"
    done = run("explain", "pod", "ship", "-f", path, "--feature-gates", "Kraken=true")
    assert done.code == 1
    assert "--feature-gates: " in done.err
    assert "Kraken" in done.err


def test_a_feature_gate_changes_the_answer(run: Run, write: Write) -> None:
    node = NODE + 'spec: {taints: [{key: rocks, value: "3", effect: NoSchedule}]}\n'
    more = 'tolerations: [{key: rocks, operator: Lt, value: "5"}], '
    path = write("c.yaml", cluster(node, POD.replace("spec: {", f"spec: {{{more}")))
    gate = "TaintTolerationComparisonOperators"
    for value, code in (("true", 0), ("false", 3)):
        done = run("explain", "pod", "ship", "-f", path, "--feature-gates", f"{gate}={value}")
        assert done.code == code, done.err


# Nodes.


def test_a_node_is_explained_with_its_pods_and_what_waits(run: Run, write: Write) -> None:
    aboard = POD.replace("spec: {", "spec: {nodeName: quay-1, ").replace("ship", "aboard")
    path = write("c.yaml", cluster(NODE, REEF, aboard, POD, BIG.replace("ship", "liner")))
    done = run("explain", "node", "quay-1", "-f", path, "-o", "json")
    assert done.code == 0, done.err
    answer = told(done)
    assert (answer["schema"], answer["source"]) == ("moorage.explain/v1", "files")
    assert [pod["pod"] for pod in answer["podList"]] == ["fleet/aboard"]
    assert answer["requested"]["cpu"] == "1"
    assert answer["accepts"] == ["fleet/ship"]
    (refusal,) = answer["refusals"]
    assert refusal["pod"] == "fleet/liner"
    assert [v["plugin"] for v in refusal["verdicts"]] == ["NodeResourcesFit"]
    text = run("explain", "node", "reef", "-f", path).out
    assert text.startswith("Node reef has 0 pods; of 2 waiting pods it could take 0.")
    assert "  rocks:NoSchedule\n" in text


def test_a_node_is_explained_with_the_profile_that_is_asked_for(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, POD.replace("spec: {", "spec: {schedulerName: tug, ")))
    asked = ("explain", "node", "quay-1", "-f", path, "-o", "json")
    assert "accepts" not in told(run(*asked))
    assert told(run(*asked, "--profile", "default-scheduler"))["accepts"] == ["fleet/ship"]


# What is wrong.


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("pod", "kraken"), "pod kraken is not among the 1 pods that wait or run"),
        (("pod", "navy/ship"), "pod navy/ship is not among the 1 pods"),
        (("pod", "ship", "--node", "atlantis"), "node atlantis is not one of the 1 nodes known"),
        (("node", "atlantis"), "node atlantis is not one of the 1 nodes in "),
        (("node", "quay-1", "--profile", "tug"), "--profile: there is no profile tug; there are: "),
    ],
)
def test_what_is_not_there_is_one_sentence(
    run: Run, write: Write, words: tuple[str, ...], named: str
) -> None:
    path = write("c.yaml", cluster(NODE, POD))
    done = run("explain", *words, "-f", path)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert named in done.err


@pytest.mark.parametrize("subject", ["pod", "node"])
def test_what_is_not_there_names_where_it_was_looked_for(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    path = write("empty.yaml", "")
    done = run("explain", subject, "ship", "-f", path, "-f", "-")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert f" the 0 {subject}s " in done.err
    assert f" in {path}, standard input" in done.err


def test_an_ambiguous_pod_lists_the_choices(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, POD, POD.replace("fleet", "navy")))
    done = run("explain", "pod", "ship", "-f", path)
    assert done.code == 1
    assert "several pods are called ship: fleet/ship, navy/ship; name one in full" in done.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("pod",), "NAMESPACE/NAME"),
        (("pod", "a", "-f", "x", "--ledger", "y"), "-f and --ledger: give one source only"),
        (("pod", "a", "-f", "x", "--server", "y"), "-f and --server: give one source only"),
        (("pod", "a", "-f", "x", "--kubeconfig", "y"), "--kubeconfig has no meaning with -f"),
        (("pod", "a", "-f", "x", "--token", "y"), "--token has no meaning with -f"),
        (("pod", "a", "--token", "y"), "--token has no meaning with a cluster that is read"),
        (("pod", "a", "--server", "x", "--config", "y"), "--config has no meaning with --server"),
        (("pod", "a", "--ledger", "x", "--profile", "y"), "--profile has no meaning with --ledger"),
        (("pod", "a", "-f", "x", "--top", "0"), "--top"),
        (("pod", "a", "--server", "x", "--client-key", "y"), "belong together"),
        (("pod", "a", "--server", "x", "--token", "y", "--token-file", "z"), "give one of them"),
        (("decision", "1"), "one of --ledger and --server is needed"),
        (("decision", "1", "-f", "x"), "-f"),
        (("pod", "a", "--server", ""), "argument --server: expected a URL, got nothing"),
        (("pod", "a", "--ledger", ""), "argument --ledger: expected a file or a directory, got"),
        (("decision", "--ledger", ""), "argument --ledger: expected a file or a directory, got"),
    ],
)
def test_wrong_usage_is_exit_code_two(run: Run, words: tuple[str, ...], named: str) -> None:
    done = run("explain", *words)
    assert (done.code, done.out) == (2, "")
    assert named in done.err


def test_a_name_that_was_typed_cannot_command_the_terminal(run: Run, write: Write) -> None:
    path = write("c.yaml", cluster(NODE, POD))
    for subject in ("pod", "node"):
        done = run("explain", subject, "q\x1b]0;pwned\x07", "-f", path)
        assert (done.code, done.out) == (1, "")
        assert "q\\x1b]0;pwned\\a" in done.err


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_tables_keep_to_the_width_of_the_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    texts = [
        run("explain", "pod", name, "-f", HARBOUR).out
        for name in ("batch/archive-0", "harbour/tide-api-0", "vision/wreck-search")
    ]
    texts.append(run("explain", "node", "east-gpu", "-f", HARBOUR).out)
    longest = max(len(line) for text in texts for line in text.splitlines())
    # A reason or a column of scores is not broken, however narrow the terminal is.
    assert longest <= max(width, 82)
    monkeypatch.delenv("COLUMNS")
    assert run("explain", "pod", "batch/archive-0", "-f", HARBOUR).out.count("\n") < 25
