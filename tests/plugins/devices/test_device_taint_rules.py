"""DeviceTaintRules: taints that an administrator puts on devices."""

import msgspec

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import KubeSchedulerConfiguration, load_profile
from moorage.config.feature_gates import FeatureGates
from moorage.engine.clock import VirtualClock
from moorage.framework.plugin import PreFilterResult
from moorage.kube.live import build_scheduler
from moorage.model.decode import decode_object
from moorage.model.devices import DeviceTaintRule
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import cluster, make_node
from plugins.devices.device_objects import (
    DRIVER,
    claim,
    device,
    device_class,
    plugin,
    pod_with,
    request,
    slice_of,
)

ON = FeatureGates()
OFF = FeatureGates({"DRADeviceTaintRules": False})
OFFER = [device_class(), slice_of("s", [device("d0"), device("d1")], node="n")]


def rule(name: str = "rule", effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    made = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": name},
            "spec": {
                "deviceSelector": selector,
                "taint": {"key": "broken", "value": "yes", "effect": effect},
            },
        },
        "test object",
    )
    assert isinstance(made, DeviceTaintRule)
    return made


def feasible(state: ClusterState, gates: FeatureGates, count: int = 1, **exactly: object) -> bool:
    wanted = claim("a", request("r", count=count, **exactly))
    state.listers.of(type(wanted)).put(wanted)
    asked = plugin(state.listers, gates)
    nodes, pod = NodeView(state), pod_with("a")
    before = asked.pre_filter(pod, nodes)
    assert isinstance(before, PreFilterResult)
    return not asked.filter(pod, nodes, before.state).reasons_of(0)


def test_a_rule_with_an_empty_selector_taints_every_device_unless_the_gate_is_off() -> None:
    state = cluster([make_node("n")], others=[*OFFER, rule()])
    assert not feasible(state, ON)
    state = cluster([make_node("n")], others=[*OFFER, rule()])
    assert feasible(state, OFF)


def test_a_rule_without_selector_taints_nothing() -> None:
    everything = rule()
    spec = msgspec.structs.replace(everything.spec, device_selector=None)
    nothing = msgspec.structs.replace(everything, spec=spec)
    assert feasible(cluster([make_node("n")], others=[*OFFER, nothing]), ON)


def test_a_rule_taints_only_what_it_selects() -> None:
    def left(**selector: str) -> int:
        for count in (2, 1):
            state = cluster([make_node("n")], others=[*OFFER, rule(**selector)])
            if feasible(state, ON, count):
                return count
        return 0

    assert left(device="d1") == 1
    assert left(driver=DRIVER) == 0
    assert left(driver=DRIVER, pool="n", device="d0") == 1
    assert left(driver="other.example.com") == 2
    assert left(pool="other") == 2
    assert left(device="d7") == 2


def test_tolerations_answer_a_rules_taint() -> None:
    state = cluster([make_node("n")], others=[*OFFER, rule()])
    tolerant = [{"key": "broken", "operator": "Exists"}]
    assert feasible(state, ON, tolerations=tolerant)


def test_an_effect_that_blocks_nothing_blocks_nothing() -> None:
    state = cluster([make_node("n")], others=[*OFFER, rule(effect="None")])
    assert feasible(state, ON)


def test_a_rule_that_goes_or_changes_frees_the_devices_again() -> None:
    state = cluster([make_node("n")], others=[*OFFER, rule()])
    assert not feasible(state, ON)
    rules = state.listers.of(DeviceTaintRule)
    rules.put(rule(device="d0"))
    assert feasible(state, ON)
    rules.put(rule())
    assert not feasible(state, ON)
    rules.remove(rule())
    assert feasible(state, ON)


def test_rules_are_looked_up_unless_the_gate_is_off() -> None:
    state = cluster()
    assert DeviceTaintRule in plugin(state.listers, ON).looks_up
    assert DeviceTaintRule not in plugin(state.listers, OFF).looks_up


def test_a_pod_tries_again_when_a_rule_lets_a_device_go() -> None:
    clock = VirtualClock()
    config = KubeSchedulerConfiguration(profiles=(load_profile({}, "test"),))
    scheduler = build_scheduler(config, in_tree_registry(), ON, clock)
    handlers = scheduler.handlers
    handlers.add_node(make_node("n"))
    for offered in (*OFFER, claim("a"), rule()):
        handlers.add_object(offered)
    handlers.add_pod(pod_with("a"))

    def tried_again() -> bool:
        clock.advance(30)
        scheduler.run_timers()
        return scheduler.schedule_one()

    assert scheduler.schedule_one()
    assert not tried_again()
    handlers.add_object(rule("other", driver="other.example.com"))
    assert not tried_again()
    handlers.update_object(rule(), rule())
    assert not tried_again()
    handlers.update_object(rule(), rule(device="d0"))
    assert tried_again()
    assert scheduler.state.is_assumed(pod_with("a"))
