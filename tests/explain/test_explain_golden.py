"""Recorded cases in which no node takes the pod: nobody who rejects one is left out."""

from collections import Counter

import msgspec
import pytest

from explain.recorded import GOLDEN, hopeless, some
from explain.single_plugins import said_by_single_plugins
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation
from moorage.framework.profile import Profile
from moorage.framework.reserving import assumed, reserve
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.simulator.replay import GoldenCase, read_lines, world_of
from moorage.simulator.world import World, full_registry

FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz"))
PARTS = 2
FEWEST = 500
"""How many of the recorded cases have no feasible node, at least."""


def without_errors(family: str) -> list[GoldenCase]:
    return [case for case in hopeless(family) if "error" not in case.expect]


def in_matrix(told: PodExplanation) -> dict[tuple[str, str], set[str]]:
    """(plugin, reason) -> the nodes, as the matrix has it."""
    assert told.matrix is not None
    said: dict[tuple[str, str], set[str]] = {}
    for row in told.matrix.rows:
        for verdict in row.verdicts:
            for reason in verdict.reasons:
                said.setdefault((verdict.plugin, reason), set()).add(row.node)
    return said


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_plugin_that_rejects_and_every_reason_is_named(family: str, part: int) -> None:
    registry = full_registry()
    for case in some(without_errors(family))[part::PARTS]:
        expected = said_by_single_plugins(*world_of(case, registry))

        world, profile, pod = world_of(case, registry)
        told = explain_pod(
            world.cycle, profile, pod, source="files", matrix=(0, 10_000), fixes=False
        )

        plain = [one for one in told.rejections if not one.with_nominated_pods]
        found = {(one.plugin, one.point, one.reason): one.nodes for one in plain}
        assert found == {key: len(nodes) for key, nodes in expected.items()}, case.name
        for one in plain:
            nodes = expected[one.plugin, one.point, one.reason]
            assert set(one.examples) <= nodes, case.name
            assert len(one.examples) == min(5, len(nodes)), case.name
        rows = in_matrix(told)
        for (plugin, _, reason), nodes in expected.items():
            assert nodes <= rows[plugin, reason], case.name
        assert alone(told) == {
            (one.plugin, one.reason): one.only for one in told.rejections if one.only
        }, case.name
        assert not told.schedulable, case.name
        assert told.feasible == 0, case.name
        # A recorded pod that never got past the gates has no event.
        assert told.message == case.expect.get("fitError", told.message), case.name


def alone(told: PodExplanation) -> dict[tuple[str, str], int]:
    """(plugin, reason) -> how many nodes nobody but the plugin rejects, by the matrix."""
    assert told.matrix is not None
    counts: Counter[tuple[str, str]] = Counter()
    for row in told.matrix.rows:
        against = [verdict for verdict in row.verdicts if verdict.verdict == "rejected"]
        if len(against) == 1:
            counts.update((against[0].plugin, reason) for reason in against[0].reasons)
    return dict(counts)


def test_there_are_cases_without_a_feasible_node() -> None:
    assert sum(len(without_errors(family)) for family in FAMILIES) >= FEWEST


@pytest.mark.parametrize("family", ["dra", "volumes"])
def test_plugins_with_books_decide_afterwards_as_if_nobody_had_asked(family: str) -> None:
    """These note in themselves what they were last asked, and keep it for Reserve."""
    registry = full_registry()
    cases = [line.decode() for line in read_lines(GOLDEN / f"{family}.jsonl.gz")]
    for case in some(cases):
        plain, asked = world_of(case, registry), world_of(case, registry)
        expected = outcome(*plain, explained=False)
        assert outcome(*asked, explained=True) == expected, case.name


def outcome(world: World, profile: Profile, pod: Pod, *, explained: bool) -> object:
    """A decision and what Reserve makes of it, with or without a question in between."""
    other = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, name="other", uid="other")
    )

    def ask() -> None:
        if explained:
            for one in (pod, other):
                explain_pod(world.cycle, profile, one, source="live", fixes=False)

    ask()
    try:
        decision, _ = world.cycle.decide(profile, pod)
    except PluginError as error:
        return str(error)
    ask()
    if not isinstance(decision, Bind):
        return decision, leftover(profile)
    changed = assumed(profile, pod, decision.node_name)
    ask()
    refusal = reserve(profile, pod, decision.node_name)
    held = [plugin.has_pre_bind_work(pod, decision.node_name) for plugin in profile.pre_bind]
    return decision, changed, refusal, held, leftover(profile)


def leftover(profile: Profile) -> int:
    """How much was left to be written?"""
    plugin = profile.plugins.get("DynamicResources")
    return len(plugin.work) if isinstance(plugin, DynamicResources) else 0
