"""Any cluster, any pod: fixes hold when the objects are really changed."""

from collections.abc import Iterable
from itertools import pairwise

import msgspec
from hypothesis import given, note
from hypothesis import strategies as st

from explain.fixed_objects import applied, named, plain
from framework.building import make_cycle, make_profile
from moorage.cluster.state import ClusterState
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.explain.fixes import smallest_fixes
from moorage.framework.profile import Profile
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import Pod
from properties import strategies as drawn
from properties.clusters import clusters, configs, crowded_clusters, sociable_clusters
from properties.harness import Noted, Twin, effort, profile_document
from properties.strategies import named as named_pod
from reference.scheduler import NaiveConfig

any_cluster = st.one_of(clusters(), crowded_clusters(), sociable_clusters())
any_pod = st.one_of(drawn.incoming_pods, drawn.demanding_pods, drawn.social_pods)


def objects_of(twin: Twin) -> list[Json]:
    everything: list[ApiObject] = [*twin.naive.nodes.values(), *twin.naive.objects.values()]
    everything += [pod.on_node(node) for pod, node in twin.naive.placed.values()]
    everything += [pod for pod, _ in twin.naive.nominated.values()]
    return [plain(obj) for obj in everything]


def rebuilt(
    objects: Iterable[Json], target: tuple[str, str], twin: Twin, document: Json
) -> tuple[Cycle, Profile, Pod]:
    """A new cluster from objects, and the pod to be placed in it."""
    state = ClusterState()
    decoded = [msgspec.convert(obj, KINDS[obj["kind"]].struct) for obj in objects]
    names = [named(obj) for obj in objects]
    found: Pod | None = None
    for obj, name in sorted(zip(decoded, names, strict=True), key=lambda one: one[1][0]):
        if isinstance(obj, Node):
            state.add_node(obj)
        elif not isinstance(obj, Pod):
            state.listers.of(type(obj)).put(obj)
        elif name == target:
            found = obj
        elif obj.spec.node_name:
            state.add_pod(obj)
    assert found is not None
    cycle = make_cycle(state)
    left = {obj.uid for obj in decoded if isinstance(obj, Pod)}
    for pod, node_name in twin.naive.nominated.values():
        if pod.uid in left:
            cycle.nominated.add(pod, node_name)
    return cycle, make_profile(state, document), found


def is_placed(cycle: Cycle, profile: Profile, pod: Pod) -> bool:
    try:
        decision, _ = cycle.decide(profile, pod)
    except PluginError:
        return False
    return isinstance(decision, Bind)


@effort(60)
@given(any_cluster, any_pod, st.one_of(st.just(NaiveConfig()), configs()))
def test_every_fix_makes_the_pod_schedulable_in_a_new_cluster(
    twin: Twin, body: Pod, config: NaiveConfig
) -> None:
    pod = named_pod(body, 900)
    note(Noted("fix", pod))
    document = profile_document(config)
    profile = make_profile(twin.state, document)
    placed = is_placed(twin.cycle, profile, pod)

    fixes = smallest_fixes(twin.cycle, profile, pod)

    assert not (placed and fixes)
    objects = [plain(pod), *objects_of(twin)]
    target = named(objects[0])
    for fix in fixes:
        note(f"{fix.change} {fix.edits}")
        assert fix.verified
        assert is_placed(*rebuilt(applied(fix, objects), target, twin, document))


@effort(40)
@given(any_cluster, any_pod)
def test_the_nodes_named_are_among_those_gained_and_the_best_come_first(
    twin: Twin, body: Pod
) -> None:
    profile = make_profile(twin.state)

    fixes = smallest_fixes(twin.cycle, profile, named_pod(body, 900), limit=4)

    assert len(fixes) <= 4
    assert len({fix.change for fix in fixes}) == len(fixes)
    for fix in fixes:
        assert 1 <= len(fix.examples) <= fix.nodes_gained
        new = {edit.name for edit in fix.edits if edit.kind == "Node" and edit.create}
        assert set(fix.examples) <= set(twin.naive.nodes) | new
        assert set(fix.victims) <= {pod.key for pod, _ in twin.naive.placed.values()}
    sizes = [fix.size for fix in fixes]
    assert all(one <= other + 0.5 for one, other in pairwise(sizes))
