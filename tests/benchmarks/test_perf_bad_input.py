"""`moorage bench perf`: files it cannot run are refused in one sentence that says where."""

import pytest

from cli.running import Run, Write

GOOD = """\
- name: Regatta
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - {opcode: createPods, count: 2, collectMetrics: true}
  workloads:
  - name: small
    labels: [short]
    params: {nodes: 3}
"""


def refused(run: Run, write: Write, text: str, *more: str) -> str:
    path = write("performance-config.yaml", text)
    done = run("bench", "perf", "--config", path, "--workload", "Regatta", *more)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert path in done.err
    return done.err.partition(path)[2].strip()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("createNodes", "sinkNodes", "Regatta/small: workloadTemplate[0].opcode: expected one of"),
        ("$nodes", "nodes", "workloadTemplate[0].countParam: expected a name after a $"),
        (
            "$nodes",
            "$ships",
            "Regatta/small: params.ships is not defined, but workloadTemplate[0].countParam",
        ),
        ("nodes: 3", "nodes: many", "workloadTemplate[0].count: expected `int`, got `str`"),
        ("nodes: 3", "nodes: 3, oars: 8", "Regatta/small: params.oars is used by no operation"),
        ("count: 2", "number: 2", "workloadTemplate[1]: object contains unknown field"),
        ("count: 2", "count: -2", "workloadTemplate[1].count: expected `int` >= 0"),
        ("collectMetrics: true", "collectMetrics: false", "no operation collects metrics"),
        ("params:", "parameters:", "Regatta.workloads[0]: object contains unknown field"),
        ("name: small", "names: small", "Regatta.workloads[0]: object"),
        ("- name: Regatta", "name: Regatta", "expected a list of test cases"),
    ],
)
def test_the_field_that_is_wrong_is_named(
    run: Run, write: Write, old: str, new: str, complaint: str
) -> None:
    text = GOOD.replace(old, new)
    if new == "name: Regatta":
        text = "name: Regatta\n"
    assert complaint in refused(run, write, text)


@pytest.mark.parametrize(
    ("operation", "complaint"),
    [
        ("{opcode: churn, mode: stir, templatePaths: [a]}", ": mode: expected create or recreate"),
        ("{opcode: churn, mode: recreate, templatePaths: [a]}", ": number: expected a number > 0"),
        ("{opcode: churn, mode: create}", ": object missing required field `templatePaths`"),
        ("{opcode: barrier, stageRequirement: Sunk}", ": stageRequirement: expected Scheduled or"),
        ("{opcode: startCollectingMetrics}", ": object missing required field `namespaces`"),
        ("{opcode: createAny}", ": object missing required field `templatePath`"),
        ("{opcode: updateAny, templatePath: ''}", ".templatePath: expected `str` of length >= 1"),
        (
            "{opcode: createResourceClaims, templatePath: a}",
            ": object missing required field `namespace`",
        ),
        (
            "{opcode: createPodGroups, templatePath: a}",
            ": object missing required field `namespace`",
        ),
        (
            "{opcode: createPods, skipWaitToCompletion: true, collectMetrics: true}",
            ": skipWaitToCompletion: cannot go with collectMetrics",
        ),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused(
    run: Run, write: Write, operation: str, complaint: str
) -> None:
    text = GOOD.replace("  workloads:", f"  - {operation}\n  workloads:")
    assert f"Regatta/small: workloadTemplate[2]{complaint}" in refused(run, write, text)


def test_a_wrong_workload_keeps_nobody_else_from_running(run: Run, write: Write) -> None:
    text = GOOD + "  - {name: large}\n"
    path = write("performance-config.yaml", text)
    done = run("bench", "perf", "--config", path, "--workload", "Regatta")
    assert done.code == 1
    assert "Regatta/small/namespace-1" in done.out
    assert f"Regatta/large: {path}: Regatta/large: params.nodes is not defined" in done.out


def test_a_missing_template_is_named_with_the_field_that_asks_for_it(
    run: Run, write: Write
) -> None:
    text = GOOD.replace("count: 2", "count: 2, podTemplatePath: sails.yaml")
    path = write("performance-config.yaml", text)
    done = run("bench", "perf", "--config", path, "--workload", "Regatta/small")
    assert done.code == 1
    assert "not run" in done.out
    assert "sails.yaml, which podTemplatePath of Regatta in" in done.out
    assert "cannot be read: No such file or directory" in done.out


def test_a_gate_that_does_not_exist_is_the_reason_why_a_workload_is_not_run(
    run: Run, write: Write
) -> None:
    text = GOOD.replace("labels: [short]", "featureGates: {Periscope: true}")
    done = run("bench", "perf", "--config", write("c.yaml", text), "--workload", "Regatta")
    assert done.code == 1
    assert "Regatta/small: unrecognized feature gate: Periscope" in done.out


def test_no_workload_of_that_name_is_an_error(run: Run, write: Write) -> None:
    done = run("bench", "perf", "--config", write("c.yaml", GOOD), "--workload", "Storm")
    assert done.code == 1
    assert "no workload is called Storm" in done.err


def test_labels_select_and_exclude(run: Run, write: Write) -> None:
    larger = "  - name: large\n    labels: [short, performance]\n    params: {nodes: 9}\n"
    path = write("c.yaml", GOOD + larger)

    def listed(label: str) -> list[str]:
        done = run("bench", "perf", "--config", path, "--label", label, "--list")
        return [line.split()[0] for line in done.out.splitlines()[1:]]

    assert listed("short") == ["Regatta/small", "Regatta/large"]
    assert listed("short,-performance") == ["Regatta/small"]
    assert listed("+performance") == ["Regatta/large"]


def test_a_file_that_is_not_there_is_said_in_one_sentence(run: Run) -> None:
    done = run("bench", "perf", "--config", "/no/such/file.yaml")
    assert (done.code, done.out) == (1, "")
    assert "/no/such/file.yaml cannot be read: No such file or directory" in done.err


def test_another_scheduler_needs_a_real_api_server(run: Run, write: Write) -> None:
    done = run("bench", "perf", "--config", write("c.yaml", GOOD), "--scheduler", "kube-scheduler")
    assert done.code == 1
    assert "--scheduler: only with --api" in done.err
