"""Recorded cases in which no node takes the pod: every fix, applied to the objects, helps."""

from collections.abc import Iterator

import msgspec
import pytest

from explain.fixed_objects import applied, named
from explain.recorded import GOLDEN, hopeless, some
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.explain.fixes import smallest_fixes
from moorage.explain.report import Fix
from moorage.framework.registry import Registry
from moorage.simulator.replay import GoldenCase, read_lines, world_of
from moorage.simulator.world import full_registry

PARTS = 4

HOPELESS = {
    "dra": 89,
    "gates-features": 64,
    "images": 0,
    "interpod": 18,
    "mixed": 44,
    "node-affinity": 16,
    "ports": 40,
    "preemption": 264,
    "profiles": 19,
    "release-1.37": 90,
    "resources": 58,
    "spread": 12,
    "taints": 35,
    "volumes": 106,
}
"""How many cases of each family have no feasible node."""

WITHOUT_FIX = {"node-affinity-188"}
"""Its profile has an `addedAffinity` that no node meets: nothing about the pod can help."""
SHARED_HOST_PORT = {"preemption-254"}
"""Pods of one node have the same host port, which no kubelet runs. To a running scheduler, as to
upstream's, any of them frees the port as it leaves; to one that starts then the others have it."""


def is_schedulable(case: GoldenCase, registry: Registry) -> bool:
    world, profile, pod = world_of(case, registry)
    try:
        decision, _ = world.cycle.decide(profile, pod)
    except PluginError:
        return False
    return isinstance(decision, Bind)


def fixed(case: GoldenCase, fix: Fix) -> GoldenCase:
    """The case as recorded, after a fix."""
    pod = msgspec.json.decode(case.pod)
    objects = [msgspec.json.decode(raw) for raw in case.objects]
    changed = {named(obj): obj for obj in applied(fix, [pod, *objects])}
    target = changed.pop(named(pod))
    return msgspec.structs.replace(
        case,
        pod=msgspec.Raw(msgspec.json.encode(target)),
        objects=[msgspec.Raw(msgspec.json.encode(obj)) for obj in changed.values()],
    )


def useless(case: GoldenCase, fixes: tuple[Fix, ...], registry: Registry) -> Iterator[str]:
    for fix in fixes:
        if not is_schedulable(fixed(case, fix), registry):
            yield f"{case.name}: {fix.change}"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", HOPELESS)
def test_every_fix_makes_the_pod_schedulable(family: str, part: int) -> None:
    registry = full_registry()
    wrong: list[str] = []
    for case in some(hopeless(family))[part::PARTS]:
        world, profile, pod = world_of(case, registry)
        fixes = smallest_fixes(world.cycle, profile, pod, seconds=60.0)
        assert bool(fixes) == (case.name not in WITHOUT_FIX), case.name
        assert len(fixes) <= 10, case.name
        assert all(fix.verified and fix.edits and fix.nodes_gained for fix in fixes), case.name
        if case.name not in SHARED_HOST_PORT:
            wrong += useless(case, fixes, registry)
    assert not wrong, "\n".join(wrong)


def test_the_cases_are_all_there() -> None:
    assert {family: len(hopeless(family)) for family in HOPELESS} == HOPELESS


def test_a_pod_that_has_a_node_to_go_to_needs_no_fix() -> None:
    registry = full_registry()
    lines = list(read_lines(GOLDEN / "mixed.jsonl.gz"))[:60]
    cases = [case for line in lines if (case := line.decode()).expect["feasible"]]
    assert len(cases) > 20
    for case in cases:
        world, profile, pod = world_of(case, registry)
        assert smallest_fixes(world.cycle, profile, pod) == (), case.name
