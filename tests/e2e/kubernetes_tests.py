"""Kubernetes' own end-to-end tests: built from kubernetes/, run against a cluster.

Each run has a cluster to itself, because most of these tests expect that: they fill nodes and count
what is left over.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from e2e.binaries import Binaries
from e2e.client import Json
from e2e.go_programs import GoPrograms, kubernetes_link_flags
from e2e.schedulers import Scheduler
from e2e.whole_cluster import GATES, local_cluster, real_cluster
from moorage.controlplane.processes import ChildProcess
from moorage.version import KUBERNETES_VERSION

NODES = 4
UP, UP_GATED, REAL = "moorage-up", "moorage-up-with-gates", "kube-apiserver"
"""Names of runs; the last one has the tests of features behind gates, too."""
WORKLOADS = "moorage-up-workloads"
SCHEDULING, APPS = "[sig-scheduling]", "[sig-apps]"
"""What the names of tests begin with."""
CONFORMANCE = "[Conformance]"
_GATED = "Feature:OffByDefault"
_DOCS = Path(__file__).parents[2] / "docs" / "local-cluster.md"
_PROGRAM = "kubernetes-e2e"
_BUILT = GoPrograms(
    f"{_PROGRAM}-{KUBERNETES_VERSION}",
    Path(__file__).with_name("kubernetes"),
    {_PROGRAM: "."},
    kubernetes_link_flags(),
)
_MOST_SECONDS = 1500.0
# Most of the tests wait a minute for pods of these names on every node, and go on without them.
_SYSTEM_POD = "kube-proxy-fluentd-elasticsearch-node-problem-detector"


def docs(section: str) -> str:
    """What is said below a heading of docs/local-cluster.md."""
    return _DOCS.read_text().partition(f"# {section}\n")[2].partition("\n## ")[0]


def out_of_reach() -> list[str]:
    """What is in the names of tests that `moorage up` cannot pass, as the docs tell."""
    rows = re.findall(r"^\| (`[^|]+) \|", docs("Workloads"), re.MULTILINE)
    return [name for row in rows for name in re.findall("`([^`]+)`", row)]


class Outcome(NamedTuple):
    """What became of a test."""

    status: str
    """`passed`, `skipped`, or how it failed."""
    seconds: float
    message: str


class Run:
    """The tests at work on a cluster, until somebody asks what became of them."""

    def __init__(
        self, program: Path, kubeconfig: Path, folder: Path, focus: str, skip: str = ""
    ) -> None:
        self._report = folder / "report"
        flags = {
            "kubeconfig": kubeconfig,
            "provider": "skeleton",
            "num-nodes": NODES,
            # The embedded API server answers in nothing else.
            "kube-api-content-type": "application/json",
            "report-dir": self._report,
            "ginkgo.focus": focus,
            "ginkgo.skip": skip or "no name has this in it",
            "ginkgo.timeout": f"{_MOST_SECONDS:.0f}s",
            "ginkgo.no-color": "true",
        }
        self._process = ChildProcess(
            _PROGRAM,
            ["nice", program, *(f"--{name}={value}" for name, value in flags.items())],
            folder / f"{_PROGRAM}.log",
            os.environ,
        )

    def outcomes(self) -> Mapping[str, Outcome]:
        """By name: what became of the tests that were to run, when all of them have ended."""
        self._process.ended(_MOST_SECONDS + 60)
        files = list(self._report.glob("junit*.xml"))
        assert files, self._process.tail()
        cases = ET.parse(files[0]).iter("testcase")
        found = {case.get("name", "").removeprefix("[It] "): _outcome(case) for case in cases}
        # Those that the flags left out say no more than this; hooks are no tests.
        return {
            name: outcome
            for name, outcome in found.items()
            if name.startswith("[sig-") and outcome.message != "skipped"
        }

    def stop(self) -> None:
        """Break off what is still at work."""
        self._process.kill()


@contextmanager
def runs(
    program: Path, binaries: Binaries, scheduler: Scheduler, make_folder: Callable[[str], Path]
) -> Iterator[Mapping[str, Run]]:
    """Start every run, by its name; what has not ended in the end is broken off."""
    started = {}
    with ExitStack() as running:
        for name, (flags, focus, skip) in _runs().items():
            folder = make_folder(name)
            if name == REAL:
                cluster = real_cluster(binaries, folder, NODES, scheduler)
            else:
                cluster = local_cluster(folder, NODES, *flags)
            kubeconfig = running.enter_context(cluster)
            _prepare(binaries, kubeconfig)
            started[name] = Run(program, kubeconfig, folder, focus, skip)
            running.callback(started[name].stop)
        yield started


def _runs() -> dict[str, tuple[tuple[str, ...], str, str]]:
    """By name: flags of `moorage up`; what is in the names of tests that run, and that do not."""
    scheduling = re.escape(SCHEDULING)
    workloads = f"{re.escape(APPS)}.*{re.escape(CONFORMANCE)}"
    return {
        UP: ((), scheduling, _GATED),
        UP_GATED: (("--feature-gates", GATES), f"{scheduling}.*{_GATED}", ""),
        WORKLOADS: ((), workloads, "|".join(out_of_reach())),
        REAL: ((), scheduling, ""),
    }


def program() -> Path:
    """The program with the tests, built first where that is needed."""
    return _BUILT.built() / _PROGRAM


def all_tests(area: str) -> set[str]:
    """The names of all tests of an area in it."""
    said = subprocess.run([program(), "--list-tests"], capture_output=True, text=True, check=True)
    names = (line.partition(": ")[2] for line in said.stdout.splitlines())
    return {name for name in names if name.startswith(area)}


def _outcome(case: ET.Element) -> Outcome:
    skipped, failed = case.find("skipped"), case.find("failure")
    message = ""
    if skipped is not None:
        message = skipped.get("message", "")
    elif failed is not None:
        message = failed.text or ""
    return Outcome(case.get("status", ""), float(case.get("time", 0)), message)


def _prepare(binaries: Binaries, kubeconfig: Path) -> None:
    """Have on each node the pod that the tests wait for; its name is three in one."""
    subprocess.run(
        [binaries.kubectl, "--kubeconfig", kubeconfig, "create", "-f", "-"],
        input=json.dumps(_daemon_set()),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def _daemon_set() -> Json:
    labels = {"app": _SYSTEM_POD}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _SYSTEM_POD, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
