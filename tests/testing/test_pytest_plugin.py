"""The fixtures that Moorage brings to other people's pytest, and the example in docs/plugins.md."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from hypothesis import given

from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import strategies

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```", TEXT, re.M | re.S))

FAILING = """
from moorage.framework.plugin import NodeFilterPlugin

class Broken(NodeFilterPlugin):
    name = "Broken"

    def filter_node(self, pod, node):
        raise ValueError("broken")

def test_faults(scheduler, make_node, make_pod):
    scheduler(Broken).add(make_node("n1"), make_pod("a"))

def test_no_node(scheduler, make_pod, assert_placed):
    made = scheduler()
    made.add(make_pod("a"))
    assert_placed(made, "a")

def test_another_node(scheduler, make_pod, make_node, assert_placed):
    made = scheduler()
    made.add(make_node("n1"), make_pod("a"))
    assert_placed(made, "a", "n2")

def test_cluster(cluster, make_node):
    assert len(cluster([make_node("n1")])) == 1
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A pytest of somebody else's."""
    path = os.pathsep.join([str(ROOT / "src"), str(folder)])
    command = [sys.executable, "-m", "pytest", "-p", "moorage.pytest_plugin", "-W", "error"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-q", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tests_of_the_documentation_pass(tmp_path: Path) -> None:
    for name in ("one_per_team.py", "test_one_per_team.py"):
        (tmp_path / name).write_text(FILES[name])
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_what_a_plugin_does_wrong_and_pods_without_a_node_fail_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(FAILING)
    said = run(tmp_path).stdout
    assert 'AssertionError: running "Broken" filter plugin: ValueError: broken (' in said
    assert "pod a has no node: no nodes available to schedule pods" in said
    assert "pod a is on n1, not on n2" in said
    assert "2 failed, 2 passed, 1 error" in said


def test_it_is_an_entry_point_and_costs_nothing_until_a_fixture_is_asked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    code = f"import sys, {module}; print([m for m in sys.modules if m.startswith('moorage.')])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"['{module}']"
    assert not [name for name in project["dependencies"] if name.startswith(("pytest", "hypo"))]


@given(nodes=strategies.nodes(), node=strategies.node("quay"), pod=strategies.pods())
def test_strategies_make_nodes_and_pods(nodes: list[Node], node: Node, pod: Pod) -> None:
    assert [one.name for one in nodes] == [f"node-{i}" for i in range(len(nodes))]
    assert (node.name, pod.name, pod.spec.node_name) == ("quay", "pod", "")
