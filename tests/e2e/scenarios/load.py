"""A thousand pods at once: bound exactly once each, with every rule kept."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from e2e.client import Json, wait_for
from e2e.objects import ZONE, must_be_on, must_repel, spread, taint, toleration
from e2e.trial import Trial

_PODS = 1_000
_IMPOSSIBLE = 10
_ZONES = ("a", "b", "c", "d", "e")
_FAST = {"clientConnection": {"qps": 2000, "burst": 2000}}
_WEB = {"app": "web"}
_SHARD = {"app": "shard"}
_THOUSANDTHS = {"m": 1, "Mi": 1000 * 2**20, "Gi": 1000 * 2**30}


def thousand_pods(trial: Trial) -> Json:
    """Pods of many kinds arrive while the scheduler runs; the impossible ones are told why."""
    for number in range(60):
        special = number % 12 == 0
        trial.add_node(
            f"node-{number:02}",
            zone=_ZONES[number % len(_ZONES)],
            cpu=("8", "16", "32")[number % 3],
            memory=("32Gi", "64Gi", "128Gi")[number % 3],
            labels={"disk": "ssd" if number % 2 else "hdd"},
            taints=[taint("special")] if special else [],
        )
    trial.start(_FAST)
    for name, fields in _mixed_pods():
        trial.add_pod(name, **fields)
    bound = wait_for("all possible pods to be bound", lambda: _all_bound(trial), 120, pause=0.5)
    impossible = [f"impossible-{number}" for number in range(_IMPOSSIBLE)]
    for name in impossible:
        trial.refused(name)
    _check_rules(trial, bound)
    bindings = trial.server.bindings(trial.namespace)
    if bindings is not None:
        assert set(bindings.values()) == {1}, bindings.most_common(5)
        assert len(bindings) == len(bound)
    return {"bound": len(bound), **trial.observe(*impossible)}


def _mixed_pods() -> Iterator[tuple[str, dict[str, Any]]]:
    shapes: list[dict[str, Any]] = [
        {"cpu": "250m", "memory": "512Mi"},
        {"cpu": "500m", "memory": "1Gi", "nodeSelector": {"disk": "ssd"}},
        {"cpu": "100m", "memory": "256Mi", "affinity": must_be_on(ZONE, "In", "a", "b")},
        {"cpu": "200m", "memory": "2Gi", "tolerations": [toleration("special")]},
        {"cpu": "300m", "labels": _WEB, "topologySpreadConstraints": [spread(_WEB, skew=2)]},
        {},
    ]
    for number in range(_PODS - 50 - _IMPOSSIBLE):
        yield f"pod-{number:03}", shapes[number % len(shapes)]
        if number % 18 == 0 and number // 18 < 50:
            repelled = {"labels": _SHARD, "affinity": must_repel(_SHARD), "cpu": "100m"}
            yield f"shard-{number // 18:02}", repelled
        if number % 90 == 0 and number // 90 < _IMPOSSIBLE:
            yield f"impossible-{number // 90}", {"cpu": "64", "memory": "1Gi"}


def _all_bound(trial: Trial) -> list[Json] | None:
    pods = trial.api.list("Pod", trial.namespace)
    bound = [pod for pod in pods if "nodeName" in pod["spec"]]
    return bound if len(bound) == _PODS - _IMPOSSIBLE else None


def _check_rules(trial: Trial, bound: list[Json]) -> None:
    nodes = {item["metadata"]["name"]: item for item in trial.api.list("Node")}
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in bound:
        node = nodes[pod["spec"]["nodeName"]]
        requests = pod["spec"]["containers"][0]["resources"].get("requests", {})
        taken = used[node["metadata"]["name"]]
        taken["pods"] += 1
        for resource, amount in requests.items():
            taken[resource] += _milli(amount)
        _check_node(pod, node)
    for name, taken in used.items():
        allocatable = nodes[name]["status"]["allocatable"]
        assert taken["pods"] <= int(allocatable["pods"]), name
        for resource in ("cpu", "memory"):
            assert taken[resource] <= _milli(allocatable[resource]), (name, resource)
    zones: Counter[str] = Counter(dict.fromkeys(_ZONES, 0))
    shards: Counter[str] = Counter()
    for pod in bound:
        node = nodes[pod["spec"]["nodeName"]]
        app = pod["metadata"].get("labels", {}).get("app")
        zones[node["metadata"]["labels"][ZONE]] += app == "web"
        shards[node["metadata"]["name"]] += app == "shard"
    assert min(zones.values()) > 0, zones
    assert max(zones.values()) - min(zones.values()) <= 2, zones
    assert max(shards.values()) == 1, shards


def _check_node(pod: Json, node: Json) -> None:
    name, labels = pod["metadata"]["name"], node["metadata"]["labels"]
    for key, value in pod["spec"].get("nodeSelector", {}).items():
        assert labels[key] == value, name
    if "nodeAffinity" in pod["spec"].get("affinity", {}):
        assert labels[ZONE] in {"a", "b"}, name
    if node["spec"].get("taints"):
        assert any(item.get("key") == "special" for item in pod["spec"]["tolerations"]), name


def _milli(amount: str) -> int:
    """Thousandths of a quantity, of the few forms that are used here."""
    for unit, factor in _THOUSANDTHS.items():
        if amount.endswith(unit):
            return int(amount.removesuffix(unit)) * factor
    return int(amount) * 1000


SCENARIOS = (thousand_pods,)
