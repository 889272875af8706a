"""What befalls nodes in scenarios: by name, by group or by labels."""

from pathlib import Path
from typing import Any

import pytest

from moorage.config import default_config
from moorage.controllers.kubelet import KubeletOptions
from moorage.controllers.objects import Json, labels, meta, spec
from moorage.errors import InputError
from moorage.scenarios.events import NodeEvents
from moorage.scenarios.node_groups import GroupLimits, ScalingGroup, grouped_node
from moorage.scenarios.prices import Prices
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.simulation import Simulation
from moorage.simulator.node_shapes import parse_shape
from moorage.simulator.world import full_registry

ZONE = "topology.kubernetes.io/zone"
NODES = "4:cpu=4,memory=8Gi,name=quay"
WEB: Json = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


def simulation(folder: Path, *events: Json, seed: int = 1) -> Simulation:
    """Four nodes in three zones, four pods, and these events."""
    plain = {
        "apiVersion": "simulate.moorage.io/v1alpha1",
        "kind": "Scenario",
        "cluster": {"nodes": [NODES]},
        "events": list(events),
    }
    file = ScenarioFile(folder / "scenario.yaml", plain)
    options = KubeletOptions(lease_seconds=0, max_grace_seconds=5)
    run = Simulation(default_config(), full_registry(), kubelets=options)
    shape = parse_shape(NODES)
    for number in range(4):
        run.come(grouped_node(shape, number))
    run.come(WEB)
    NodeEvents(run, file, (), seed).plan()
    return run


def nodes(run: Simulation) -> dict[str, Json]:
    return {meta(node)["name"]: node for node in run.api.cluster.all("Node")}


def used_nodes(run: Simulation) -> set[str]:
    return {spec(pod).get("nodeName", "") for pod in run.api.cluster.all("Pod")} - {""}


def test_a_zone_fails_and_comes_back_empty(tmp_path: Path) -> None:
    where = {"selector": f"{ZONE}=zone-a"}
    fails = {"at": "1m", "what": "fail", **where}
    run = simulation(tmp_path, fails, {"at": "5m", "what": "repair", **where})
    before = nodes(run)
    run.play(120)
    assert {labels(node)[ZONE] for node in nodes(run).values()} == {"zone-b", "zone-c"}
    assert used_nodes(run) <= {"quay-1", "quay-2"}
    run.play(600)
    assert nodes(run).keys() == before.keys()
    assert labels(nodes(run)["quay-0"]) == labels(before["quay-0"])
    assert not used_nodes(run) & {"quay-0", "quay-3"}


def test_an_upgrade_takes_so_many_nodes_at_a_time(tmp_path: Path) -> None:
    upgrade = {"at": "1m", "what": "upgrade", "group": "quay", "atOnce": 2, "gone": "5m"}
    run = simulation(tmp_path, upgrade)
    versions = {name: meta(node)["uid"] for name, node in nodes(run).items()}
    seen = []
    for time in range(0, 900, 10):
        run.play(time)
        seen.append(len(nodes(run)))
        assert len(run.api.cluster.all("Pod")) >= 4
    assert min(seen) == 2
    # Five seconds of grace and five minutes, twice; then all are there, and none is the old one.
    assert seen.index(2) == 7
    assert all(count == 4 for count in seen[68:])
    assert all(meta(node)["uid"] != versions[name] for name, node in nodes(run).items())
    assert not any(spec(node).get("unschedulable") for node in nodes(run).values())


def test_a_reclaimed_node_is_drained_when_it_is_known(tmp_path: Path) -> None:
    reclaim = {"at": "1m", "what": "reclaim", "group": "quay", "count": 2, "notice": "30s"}
    gone = set()
    for seed in (1, 1, 2, 3, 4):
        run = simulation(tmp_path, reclaim, seed=seed)
        run.play(80)
        left = {name for name, node in nodes(run).items() if not spec(node).get("unschedulable")}
        assert (len(nodes(run)), len(left)) == (4, 2)
        assert used_nodes(run) <= left
        run.play(100)
        assert nodes(run).keys() == left
        gone.add(frozenset(left))
    assert 1 < len(gone) < 5, "chance decides, and the seed decides chance"


def test_a_taint_is_put_on_all_nodes_of_a_shape(tmp_path: Path) -> None:
    taint = {"what": "taint", "group": "quay", "taint": "dry=yes:NoExecute"}
    run = simulation(tmp_path, {"at": "1m", **taint}, {"at": "2m", **taint, "what": "untaint"})
    run.play(90)
    assert all(spec(node)["taints"] for node in nodes(run).values())
    assert used_nodes(run) == set()
    run.play(200)
    assert len(used_nodes(run)) > 1


def test_a_price_changes_for_nodes_that_are_there_and_for_those_to_come(tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "apiVersion": "simulate.moorage.io/v1alpha1",
        "kind": "Scenario",
        "cluster": {"nodeGroups": [{"name": "quay", "shape": "cpu=4,price=2", "min": 1, "max": 3}]},
        "events": [{"at": "1h", "what": "price", "group": "quay", "price": 5}],
    }
    file = ScenarioFile(tmp_path / "scenario.yaml", plain)
    run = Simulation(default_config(), full_registry(), kubelets=KubeletOptions(lease_seconds=0))
    prices = Prices(run)
    limits = GroupLimits(parse_shape("1:cpu=4,price=2,name=quay"), 1, 3, 60)
    group = ScalingGroup(run, prices, limits)
    group.fill()
    NodeEvents(run, file, [group], 0).plan()
    run.plan(3 * 3600, lambda: None)
    run.play(7200)
    assert prices.result()["cost"] == pytest.approx(2 + 5)
    group.start(1)
    run.play(3 * 3600)
    assert prices.result()["cost"] == pytest.approx(2 + 5 + 10)
    assert (len(nodes(run)), group.price) == (2, 5)


def test_a_node_that_is_not_there_is_told(tmp_path: Path) -> None:
    run = simulation(tmp_path, {"at": "1m", "what": "repair", "node": "quay-0"})
    with pytest.raises(InputError) as error:
        run.play(100)
    assert str(error.value).endswith(
        "events[0].node: expected a node that has failed by then, got quay-0"
    )
    run = simulation(tmp_path, {"at": "1m", "what": "fail", "selector": f"{ZONE}=zone-x"})
    run.play(100)
    assert len(nodes(run)) == 4, "of a zone that has no nodes none fails"
