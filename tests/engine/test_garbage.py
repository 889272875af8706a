"""What is decided and what goes is freed at once: nothing waits for the garbage collector."""

import gc

import pytest

from moorage.benchmarks.workloads import WORKLOADS, made_before, make_pod
from moorage.config import default_config
from moorage.engine.decisions import Bind
from moorage.model.pod import Pod
from moorage.simulator.world import World

_NODES, _PODS, _AT_ONCE = 40, 300, 40


@pytest.mark.parametrize("workload", ["mixed", "distinct", "statefulset", "affinity", "spread"])
def test_pods_that_come_and_go_leave_no_cycles(workload: str) -> None:
    kind = WORKLOADS[workload]
    world = World(default_config())
    world.add_all(made_before(kind, _NODES, _PODS))
    pods = [make_pod(index, kind) for index in range(_PODS)]
    _come_and_go(world, pods[:_AT_ONCE])
    gc.collect()
    gc.disable()
    try:
        _come_and_go(world, pods[_AT_ONCE:])
        assert gc.collect() == 0
    finally:
        gc.enable()


def _come_and_go(world: World, pods: list[Pod]) -> None:
    profile = world.profiles["default-scheduler"]
    there: list[Pod] = []
    for pod in pods:
        decision, _ = world.cycle.decide(profile, pod)
        if isinstance(decision, Bind):
            world.state.assume(pod, decision.node_name)
            there.append(pod)
        if len(there) == _AT_ONCE:
            world.state.remove_pod(there.pop(0))
    for pod in there:
        world.state.remove_pod(pod)
