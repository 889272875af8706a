"""`moorage plugin`: expressions tried on the nodes of manifests, the plugins of a file checked."""

import json

import pytest

from cli.running import POD, Run, Write
from moorage.framework import pacing

NODES = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {disk: ssd}}, status: {allocatable: {cpu: "2"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {disk: hdd}}, status: {allocatable: {cpu: "8"}}}
- {apiVersion: v1, kind: Node, metadata: {name: c}, status: {allocatable: {cpu: "4"}}}
"""  # noqa: E501


@pytest.fixture
def nodes(write: Write) -> str:
    return write("nodes.yaml", NODES)


def test_nodes_that_pass_come_first_and_failures_last(run: Run, nodes: str) -> None:
    done = run("plugin", "try", 'node.labels.disk == "hdd"', "-f", nodes)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "NODE  PASSES  ERROR\n"
        "b     true\n"
        "a     false\n"
        "c     -       no such key: disk\n"
        "\n"
        "3 nodes: 1 pass, 1 do not, 1 failed (no such key: disk); evaluated for all nodes at once\n"
    )


def test_the_best_nodes_are_shown(run: Run, nodes: str) -> None:
    done = run("plugin", "try", "node.allocatable.cpu - 3000", "-f", nodes, "--top", "2")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "NODE  VALUE  ERROR",
        "b      5000",
        "c      1000",
        "",
        "3 nodes: 3 with a value; evaluated for all nodes at once",
    ]


def test_a_pod_can_be_asked_about(run: Run, nodes: str, write: Write) -> None:
    pods = write("pods.yaml", f"{POD}---\n{POD.replace('ship', 'raft')}")
    expression = "node.allocatable.cpu > pod.requests.cpu && node.pods.all(p, p.name != 'x')"
    refused = run("plugin", "try", expression, "-f", nodes, "-f", pods)
    assert (refused.code, refused.out) == (1, "")
    assert "2 pods wait for a node: --pod names one" in refused.err
    done = run("plugin", "try", expression, "-f", nodes, "-f", pods, "--pod", "ship")
    assert "3 nodes for pod fleet/ship: 3 pass; evaluated node by node" in done.out


def test_one_pod_that_waits_needs_no_name(run: Run, nodes: str, write: Write) -> None:
    done = run(
        *("plugin", "try", "pod.requests.cpu - node.allocatable.cpu", "-o", "json"),
        *("-f", nodes, "-f", write("pod.yaml", POD)),
    )
    found = json.loads(done.out)
    assert found["pod"] == "fleet/ship"
    assert [(node["name"], node["value"]) for node in found["nodes"]] == [
        ("a", -1000),
        ("c", -3000),
        ("b", -7000),
    ]


def test_the_exit_code_says_that_no_node_passes(run: Run, nodes: str) -> None:
    assert run("plugin", "try", "size(node.pods) > 0", "-f", nodes).code == 3


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("node.nam", "the expression: line 1, column 5: undefined field 'nam'"),
        ("node.name", "the expression: must evaluate to bool or int, not string"),
        ("1" * 11_000, "the expression is longer than 10240 characters"),
        ("", "the expression: line 1, column 1: Syntax error"),
    ],
)
def test_a_faulty_expression_is_one_sentence(
    run: Run, nodes: str, expression: str, complaint: str
) -> None:
    done = run("plugin", "try", expression, "-f", nodes)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"moorage: error: {complaint}")
    assert done.err.count("\n") == 1


ONE_NODE_AND_POD = """\
{apiVersion: v1, kind: Node, metadata: {name: quay}, status: {allocatable: {cpu: 1, pods: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ship}, spec: {containers: [{name: c, image: i}]}}
"""
PLUGINS = """\
from moorage.framework.plugin import NodeFilterPlugin, NodeScorePlugin


class Sound(NodeFilterPlugin):
    name = "Sound"

    def filter_node(self, pod, node):
        return None


class TooMuch(NodeScorePlugin):
    name = "TooMuch"

    def score_node(self, pod, node):
        return self.args["points"] if self.args else 50
"""


def test_the_plugins_of_a_file_are_checked(run: Run, write: Write, nodes: str) -> None:
    file = write("plugins.py", PLUGINS)
    done = run("plugin", "check", file, "-f", nodes)
    assert (done.code, done.err) == (0, "")
    assert done.out == "Sound: passed all checks\nTooMuch: passed all checks\n"


def test_a_plugin_that_does_not_pass_is_named_with_its_place(run: Run, write: Write) -> None:
    file = write("plugins.py", PLUGINS)
    config = write(
        "config.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: TooMuch, args: {points: 300}}]}]\n",
    )
    done = run("plugin", "check", file, "--config", config)
    assert (done.code, done.out) == (1, "Sound: passed all checks\n")
    assert done.err.startswith(f"moorage: error: {file}:11: class TooMuch: running Score")
    assert "returns an invalid score 300, it should in the range of [0, 100]" in done.err
    assert f"({file}:14)" in done.err
    assert "Traceback" not in done.err


def test_a_name_that_somebody_else_has_does_not_pass(run: Run, write: Write) -> None:
    for name in ("Sound", "NodeName"):
        file = write("plugins.py", PLUGINS.replace('"TooMuch"', f'"{name}"'))
        done = run("plugin", "check", file)
        assert done.code == 1
        assert done.err.startswith(f"moorage: error: a plugin named {name} already exists: ")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("raise KeyError('lost')", "KeyError: 'lost' ("),
        ("return 7", "instead of a Reason"),
        ("return node.missing", "has no attribute 'missing' ("),
    ],
)
def test_faults_are_one_sentence(run: Run, write: Write, line: str, complaint: str) -> None:
    file = write("plugins.py", PLUGINS.replace("return None", line))
    done = run("plugin", "check", f"{file}:Sound")
    assert done.code == 1
    assert done.err.startswith(f"moorage: error: {file}:4: class Sound: running ")
    assert complaint in done.err
    assert len(done.err.splitlines()) == 1


ENABLES_SOUND = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {filter: {enabled: [{name: Sound}]}}}]
"""


@pytest.mark.parametrize("line", ["while True: pass", "import time; time.sleep(100)"])
def test_a_call_that_hangs_is_ended_in_every_command(
    run: Run, write: Write, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "DEFAULT_CALL_SECONDS", 0.3)
    file = write("plugins.py", PLUGINS.replace("return None", line))
    cluster = write("one.yaml", ONE_NODE_AND_POD)
    options = "-f", cluster, "--plugin", file, "--config", write("config.yaml", ENABLES_SOUND)
    said = f"no answer within 0.3s ({file}:8)"
    assert said in run("plugin", "check", f"{file}:Sound").err
    assert said in run("schedule", *options).out
    done = run("explain", "pod", "ship", *options)
    assert said in done.out + done.err


def test_kinds_that_cannot_be_followed_are_a_fault_of_the_configuration(
    run: Run, write: Write
) -> None:
    text = PLUGINS.replace('name = "Sound"', 'name = "Sound"\n    looks_up = 3')
    file, config = write("plugins.py", text), write("config.yaml", ENABLES_SOUND)
    sentence = f"{config}: plugin Sound: looks_up: expected a tuple of kinds, got 3\n"
    assert run("config", "validate", "--plugin", file, config).out == sentence
    cluster = write("one.yaml", ONE_NODE_AND_POD)
    done = run("schedule", "-f", cluster, "--plugin", file, "--config", config)
    assert (done.code, done.err) == (1, f"moorage: error: {sentence}")


def test_a_file_that_cannot_be_used_is_named(run: Run, write: Write) -> None:
    file = write("plugins.py", "x = 1\nimport nothing_of_this_name\n")
    done = run("plugin", "check", file)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"moorage: error: {file}:2: ModuleNotFoundError: No module named 'nothing_of_this_name'\n"
    )
