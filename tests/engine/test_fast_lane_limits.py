"""Where the short way must give up, and what it must not leave behind."""

from collections.abc import Hashable
from typing import Any

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.framework.kept_rankings import MOST_RANKINGS, Rankings
from moorage.framework.plugin import Handle, ScorePlugin
from moorage.framework.profile import Profile, build_profiles
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Moody(ScorePlugin[None]):
    """Scores, raises, or names itself by something that cannot be a key, as a test says."""

    name = "Moody"
    reads = (Aspect.REQUESTED,)
    steady = True
    fails = ""

    def pod_key(self, pod: Pod) -> Hashable | None:
        if self.fails == "pod_key":
            raise KeyError("no key")
        return [] if self.fails == "unhashable" else 0  # type: ignore[return-value]

    def idle_for(self, pod: Pod) -> bool:
        if self.fails == "idle_for":
            raise KeyError("who knows")
        return False

    def score(self, pod: Pod, nodes: NodeView, state: Any) -> Ints:
        if self.fails == "score":
            raise KeyError("no score")
        return nodes.pod_count


def made(text: str = "", *plugins: type[Moody]) -> tuple[Cycle, Profile]:
    state = ClusterState()
    for index in range(4):
        state.add_node(make_node(f"n{index}", cpu="8"))
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    config = load_config(HEAD + text, "test")
    handle = Handle(state.listers, DEFAULT_FEATURE_GATES)
    [profile] = build_profiles(config, registry, handle).values()
    return Cycle(state, VirtualClock(0.0)), profile


def test_the_start_of_the_search_stays_within_the_nodes() -> None:
    short, profile = made()
    plain, same = made()
    for cycle in (short, plain):
        cycle._search.start = 7
    pod = make_pod("a", cpu="1")
    assert short.choose(profile, pod) == plain.attempt(same, pod)[0]
    assert short._search.start == plain._search.start


def test_a_plugin_whose_pre_filter_is_disabled_is_not_taken_for_idle() -> None:
    off = "profiles: [{plugins: {preFilter: {disabled: [{name: VolumeBinding}]}}}]"
    cycle, profile = made(off)
    assert cycle.choose(profile, make_pod("a", cpu="1")) is None


def test_a_plugin_that_fails_on_the_short_way_only_sends_pods_the_plain_way() -> None:
    enabled = "profiles: [{plugins: {score: {enabled: [{name: Moody}]}}}]"
    cycle, profile = made(enabled, Moody)
    moody = profile.plugins["Moody"]
    assert isinstance(moody, Moody)
    assert isinstance(cycle.choose(profile, make_pod("a", cpu="1")), Bind)
    for fails in ("pod_key", "unhashable", "idle_for"):
        moody.fails = fails
        # No twin of the first, whose key would be taken over.
        assert cycle.choose(profile, make_pod("b", cpu="2")) is None


def test_after_a_failure_the_ranking_is_worked_out_anew() -> None:
    enabled = "profiles: [{plugins: {score: {enabled: [{name: Moody, weight: 10}]}}}]"
    cycle, profile = made(enabled, Moody)
    moody = profile.plugins["Moody"]
    assert isinstance(moody, Moody)
    for name in ("a", "b", "c"):
        pod = make_pod(name, cpu="1")
        chosen = cycle.choose(profile, pod)
        assert chosen is not None
        cycle.state.assume(pod, chosen.node_name)
        moody.fails = "score"
        assert cycle.choose(profile, make_pod("x", cpu="1")) is None
        moody.fails = ""
        probe = make_pod("y", cpu="1")
        assert cycle.choose(profile, probe) == cycle.attempt(profile, probe)[0]


def test_rankings_that_lead_nowhere_are_bounded_too() -> None:
    cycle, profile = made()
    rankings = Rankings(cycle.state, limit_bytes=50_000)
    for index in range(300):
        field = {"key": "metadata.name", "operator": "In", "values": [f"n{index}"]}
        affinity = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [field]}]
                }
            }
        }
        pod = make_pod(f"p{index}", spec={"affinity": affinity})
        assert rankings.find(profile, pod, NodeView(cycle.state)) is None
    assert len(rankings) < 20


def test_rankings_of_a_small_cluster_are_bounded_by_their_number() -> None:
    cycle, profile = made()
    rankings = Rankings(cycle.state)
    for index in range(MOST_RANKINGS + 50):
        pod = make_pod(f"p{index}", cpu=f"{index + 1}m")
        rankings.find(profile, pod, NodeView(cycle.state))
    assert len(rankings) == MOST_RANKINGS
