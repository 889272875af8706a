"""Configurations given to the real kube-scheduler: it writes what Moorage shows, or refuses as it.

The recorded cases of tests/config are asked again here, so that a recording cannot drift from the
binary; and configurations made from policies must be good enough for it.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.binaries import Binaries
from e2e.client import Access
from e2e.cluster import write_kubeconfig
from moorage.config import FeatureGates, encode_config, load_config
from moorage.config.as_built import as_built
from moorage.config.legacy_policy_conversion import (
    Conversion,
    convert_algorithm_provider,
    convert_policy,
)
from moorage.config.types import API_VERSION, KIND
from moorage.controlplane.processes import free_port

RECORDED = json.loads((Path(__file__).parent.parent / "config" / "fields.json").read_text("utf-8"))
_SCHEME_OF_RELEASES = "pkg/scheduler/apis/config/scheme/scheme.go:29"
_SCHEME_OF_MODULES = "pkg/runtime/scheme.go:111"
_WAIT_SECONDS = 30.0

Ask = Callable[..., tuple[dict[str, Any] | None, str]]


@pytest.fixture
def ask(binaries: Binaries, tmp_path: Path) -> Ask:
    """Give kube-scheduler a configuration: what it writes, or what it says against it."""
    # Nobody listens there: the configuration is written before the first request.
    access = Access(f"http://127.0.0.1:{free_port()}", "")
    kubeconfig = str(write_kubeconfig(tmp_path / "kubeconfig", access))

    def run(document: Mapping[str, Any], gates: str = "") -> tuple[dict[str, Any] | None, str]:
        given, written = tmp_path / "given.json", tmp_path / "written.yaml"
        connection = {"kubeconfig": kubeconfig, **(document.get("clientConnection") or {})}
        is_ours = document["kind"] == KIND and document["apiVersion"] == API_VERSION
        added = {"clientConnection": connection} if is_ours else {}
        given.write_text(json.dumps({**document, **added}))
        command = [
            str(binaries.kube_scheduler),
            f"--config={given}",
            f"--write-config-to={written}",
            f"--feature-gates={gates}",
            "--secure-port=0",
            "--authentication-skip-lookup",
            "--logging-format=json",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_WAIT_SECONDS, check=False
        )
        if written.exists():
            shown = yaml.safe_load(written.read_text())
            shown["clientConnection"]["kubeconfig"] = ""
            return shown, ""
        lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        (error,) = [line["err"] for line in lines if line["msg"] == "command failed"]
        return None, error.replace(_SCHEME_OF_MODULES, _SCHEME_OF_RELEASES)

    return run


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{case['row']} {case['name']}") for case in RECORDED["cases"]],
)
def test_a_recorded_case_is_still_true(ask: Ask, case: dict[str, Any]) -> None:
    document = {"apiVersion": API_VERSION, "kind": KIND, **yaml.safe_load(case["text"])}
    written, error = ask(document, case["gates"])
    if "error" in case:
        assert (written, error) == (None, case["error"])
    else:
        assert written == {**RECORDED["defaults"][case["gates"]], **case["written"]}


@pytest.mark.parametrize(
    "gates", ["", "StorageCapacityScoring=true", "DRASchedulerFilterTimeout=false"]
)
def test_the_default_configuration_is_the_same(ask: Ask, gates: str) -> None:
    document = {"apiVersion": API_VERSION, "kind": KIND}
    config = load_config(json.dumps(document), "x", FeatureGates.parse(gates))
    assert encode_config(as_built(config)) == ask(document, gates)[0]


def policy(**fields: Any) -> Conversion:
    return convert_policy({"apiVersion": "v1", "kind": "Policy", **fields})


_CURVE = {
    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
    "resources": [{"name": "example.com/foo", "weight": 3}, {"name": "cpu"}],
}
_EXTENDER = {
    "urlPrefix": "https://127.0.0.1:1/e",
    "filterVerb": "f",
    "prioritizeVerb": "p",
    "weight": 5,
    "enableHttps": True,
    "httpTimeout": 1_500_000_000,
    "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
}

CONVERSIONS = {
    "DefaultProvider": convert_algorithm_provider("DefaultProvider"),
    "ClusterAutoscalerProvider": convert_algorithm_provider("ClusterAutoscalerProvider"),
    "the default policy": policy(),
    "a policy of nothing": policy(predicates=[], priorities=[]),
    "a curve": policy(
        priorities=[
            {
                "name": "RequestedToCapacityRatioPriority",
                "weight": 2,
                "argument": {"requestedToCapacityRatioArguments": _CURVE},
            },
            {"name": "EvenPodsSpreadPriority", "weight": 3},
            {"name": "InterPodAffinityPriority", "weight": 7},
        ],
        hardPodAffinitySymmetricWeight=10,
    ),
    "labels": policy(
        predicates=[
            {"name": "GeneralPredicates"},
            {"name": "R", "argument": {"labelsPresence": {"labels": ["rack"], "presence": True}}},
        ],
        priorities=[{"name": "MostRequestedPriority", "weight": 1}],
    ),
    "an extender without NodeResourcesFit": policy(
        predicates=[], priorities=[], extenders=[_EXTENDER]
    ),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_converted_policy_is_taken_as_moorage_takes_it(ask: Ask, name: str) -> None:
    conversion = CONVERSIONS[name]
    written, error = ask(conversion.document)
    assert error == ""
    assert written == encode_config(as_built(conversion.config))
