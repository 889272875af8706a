"""`--plugin FILE.py[:Class]` of the commands that take a configuration."""

from pathlib import Path

import pytest

from cli.running import NODE, POD, Run, Write

PLUGIN = """\
from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import Reason

class Closed(NodeFilterPlugin):
    name = "Closed"
    closed = Reason("node(s) are closed")

    def filter_node(self, pod, node):
        return self.closed
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {filter: {enabled: [{name: Closed}]}}}]
"""


@pytest.mark.parametrize(
    ("command", "code", "shown"),
    [
        (["schedule", "-f", "CLUSTER", "--config", "CONFIG"], 0, "1 node(s) are closed"),
        (["explain", "pod", "ship", "-f", "CLUSTER", "--config", "CONFIG"], 3, "are closed"),
        (["config", "validate", "CONFIG"], 0, "valid"),
        (["config", "view", "CONFIG"], 0, "name: Closed"),
        (["config", "diff", "CONFIG"], 1, "Closed"),
        (["bench", "engine", "--nodes", "3", "--pods", "1", "--config", "CONFIG"], 0, "0 of 1"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_plugin_of_a_file_is_used(
    command: list[str], code: int, shown: str, run: Run, write: Write
) -> None:
    files = {"CLUSTER": write("c.yaml", f"{NODE}---\n{POD}"), "CONFIG": write("s.yaml", CONFIG)}
    command = [files.get(word, word) for word in command]
    done = run(*command, "--plugin", write("closed.py", PLUGIN))
    assert done.code == code
    assert shown in done.out
    assert run(*command).code != code, "without the file the name is unknown"


@pytest.mark.parametrize(
    "command",
    [
        ["schedule", "-f", "CLUSTER"],
        ["explain", "pod", "ship", "-f", "CLUSTER"],
        ["config", "validate", "CLUSTER"],
        ["config", "view"],
        ["up", "--once"],
        ["bench", "engine", "--nodes", "3", "--pods", "1"],
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_a_broken_file_is_one_sentence_with_file_and_line(
    command: list[str], run: Run, write: Write
) -> None:
    cluster = write("c.yaml", CONFIG if command[0] == "config" else f"{NODE}---\n{POD}")
    broken = write("broken.py", "x = 1\ny = unknown\n")
    command = [cluster if word == "CLUSTER" else word for word in command]
    done = run(*command, "--plugin", broken)
    assert done.code == 1
    assert f"{broken}:2: NameError: name 'unknown' is not defined" in done.err
    assert "Traceback" not in done.err


def test_plugins_have_no_meaning_for_a_recorded_explanation(run: Run, write: Write) -> None:
    plugin = write("closed.py", PLUGIN)
    done = run("explain", "pod", "ship", "--ledger", "x", "--plugin", plugin)
    assert done.code == 2
    assert "--plugin has no meaning with --ledger" in done.err


HARBOUR = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: CoScheduling}, {name: NeedsBerth}]}}
"""
SHIP = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {ship-length: "80", pod-group: fleet, min-available: "2"}}
spec: {containers: [{name: main, image: main}]}
"""
BERTH = """
apiVersion: harbour.example/v1
kind: Berth
metadata: {name: north}
spec: {node: quay-1, length: 100}
"""


def test_a_group_and_a_custom_resource_in_files(run: Run, write: Write) -> None:
    examples = Path(__file__).parents[2] / "examples" / "plugins"
    plugins = [f"--plugin={examples / name}" for name in ("co_scheduling.py", "berths.py")]
    crd = (examples / "berths.yaml").read_text().partition("---")[0]
    ships = "---".join(SHIP % name for name in ("a", "b"))
    cluster = write("cluster.yaml", f"{crd}---{BERTH}---\n{NODE}---{ships}")
    done = run("schedule", "-f", cluster, "--config", write("c.yaml", HARBOUR), *plugins)
    assert done == (
        0,
        "NAMESPACE  POD  NODE    MESSAGE\n"
        "default    a    quay-1\n"
        "default    b    quay-1\n"
        "\n"
        "2 pods to schedule: 2 placed\n",
        "",
    )
    done = run("up", "--once", "-f", cluster, "--config", write("c.yaml", HARBOUR), *plugins)
    assert done.code == 0
    assert "default    a    quay-1\ndefault    b    quay-1\n" in done.out
    assert "skipped" not in done.err
    done = run("explain", "pod", "a", "-f", cluster, "--config", write("c.yaml", HARBOUR), *plugins)
    assert (done.code, done.err) == (0, "")


def test_pods_on_which_a_plugin_always_fails_are_not_waited_for(run: Run, write: Write) -> None:
    broken = PLUGIN.replace("return self.closed", 'raise ValueError("no tide")')
    pod = POD.replace("name: hold", "name: hold, image: sail")
    config = f"{CONFIG}podMaxBackoffSeconds: 1\n"
    done = run(
        *("up", "--once", "-f", write("c.yaml", f"{NODE}---\n{pod}")),
        *("--config", write("s.yaml", config), "--plugin", write("broken.py", broken)),
    )
    assert done.code == 1
    assert "had not settled" not in done.err
    assert "1 pod: every attempt ends in an error" in done.err
    assert 'running "Closed" filter plugin: ValueError: no tide' in done.out


@pytest.mark.parametrize("name", ["Two Words", " Closed", "Bell\\a"])
def test_a_name_is_one_word(name: str, run: Run, write: Write) -> None:
    plugin = PLUGIN.replace('"Closed"', f'"{name}"')
    done = run("plugin", "check", write("blank.py", plugin))
    assert done.code == 1
    assert "class Closed has the name" in done.err
    assert "expected one word" in done.err
