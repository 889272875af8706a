from typing import Any

import pytest

from framework.building import make_profile, make_state, only
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.config import load_config
from moorage.config.types import ExtensionPoint
from moorage.engine.decisions import Bind
from moorage.errors import ConfigError
from moorage.framework.plugin import FilterPlugin, Handle
from moorage.framework.status import Reason, Verdicts
from moorage.model.pod import Pod
from moorage.simulator.world import World
from reference.objects import make_node, make_pod


class Picky(FilterPlugin[None]):
    """Refuses nodes whose name does not start as configured."""

    name = "Picky"
    other = Reason("node(s) had the wrong name")

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        if not isinstance(args, dict) or "prefix" not in args:
            raise ConfigError("args must have a prefix")

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        for row, name in enumerate(nodes.names()):
            if not name.startswith(self.args["prefix"]):
                verdicts.reject(row, self.other)
        return verdicts


def enabled(point: str, *names: str) -> dict[str, Any]:
    return {"plugins": {point: {"enabled": [{"name": name} for name in names]}}}


def test_the_default_profile_runs_filters_in_upstreams_order() -> None:
    profile = make_profile(make_state())
    assert [plugin.name for plugin in profile.filter] == [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ]
    assert list(profile.pre_filter_names) == [plugin.name for plugin in profile.filter]
    assert [plugin.name for plugin in profile.post_filter] == [
        "DynamicResources",
        "DefaultPreemption",
    ]


def test_the_default_weights_are_upstreams() -> None:
    profile = make_profile(make_state())
    assert {name: profile.weights[name] for name in [s.name for s in profile.score]} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_a_plugin_is_made_once_per_profile_and_serves_all_its_points() -> None:
    profile = make_profile(make_state())
    fit = profile.plugins["NodeResourcesFit"]
    for plugins in (profile.filter, profile.score, profile.pre_filter, profile.pre_score):
        assert [id(plugin) for plugin in plugins if plugin.name == fit.name] == [id(fit)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (enabled("filter", "Nonesuch"), 'FilterPlugin "Nonesuch" does not exist'),
        (enabled("multiPoint", "Nonesuch"), '"Nonesuch" does not exist'),
        (enabled("score", "NodeName"), 'plugin "NodeName" does not extend ScorePlugin plugin'),
        (enabled("queueSort", "NodeName"), "does not extend QueueSortPlugin plugin"),
        (
            {"plugins": {"bind": {"disabled": [{"name": "*"}]}}},
            "at least one bind plugin is needed for profile",
        ),
        (
            {"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}},
            "only one queue sort plugin required for profile",
        ),
    ],
    ids=[
        "an unknown plugin at a point",
        "an unknown plugin everywhere",
        "a plugin at a point it has not",
        "a plugin that cannot sort the queue",
        "no binder",
        "no queue sort",
    ],
)
def test_a_profile_that_cannot_be_built_says_why(document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_profile(make_state(), document)
    assert message in str(caught.value)
    assert "default-scheduler" in str(caught.value)


def test_a_third_partys_plugin_gets_the_arguments_of_its_profile() -> None:
    state = make_state([make_node("east-1"), make_node("west-1")])
    document = enabled("filter", "Picky") | {
        "pluginConfig": [{"name": "Picky", "args": {"prefix": "east"}}]
    }
    profile = make_profile(state, document, [Picky])
    picky = profile.plugins["Picky"]
    assert picky.args == {"prefix": "east"}
    assert profile.filter[-1] is picky


def test_a_plugin_that_refuses_its_arguments_is_named() -> None:
    with pytest.raises(ConfigError, match='initializing plugin "Picky": args must have a prefix'):
        make_profile(make_state(), enabled("filter", "Picky"), [Picky])


def test_a_plugin_that_reads_what_is_no_aspect_is_refused() -> None:
    class Forgetful(Picky):
        name = "Forgetful"
        reads = Aspect.PODS  # type: ignore[assignment]  # the comma that makes a tuple is missing

    document = enabled("filter", "Forgetful") | {
        "pluginConfig": [{"name": "Forgetful", "args": {"prefix": "east"}}]
    }
    with pytest.raises(ConfigError, match=r"plugin Forgetful: reads: expected a tuple of Aspects"):
        make_profile(make_state(), document, [Forgetful])


def test_only_the_plugins_of_a_profile_are_made() -> None:
    profile = make_profile(make_state(), only("NodeName"))
    assert set(profile.plugins) == {"PrioritySort", "DefaultBinder", "NodeName"}
    assert profile.score == ()


def test_a_profiles_percentage_wins_over_the_global_one() -> None:
    document = {"percentageOfNodesToScore": 30}
    assert make_profile(make_state(), document, percentage=70).percentage_of_nodes_to_score == 30
    assert make_profile(make_state(), percentage=70).percentage_of_nodes_to_score == 70


def test_a_profiles_percentage_of_zero_hides_the_global_one() -> None:
    document = {"percentageOfNodesToScore": 0}
    assert make_profile(make_state(), document, percentage=70).percentage_of_nodes_to_score == 0


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
  plugins:
    multiPoint:
      enabled: [{name: NodeResourcesFit, weight: 10}]
      disabled: [{name: NodeResourcesBalancedAllocation}]
- schedulerName: spreading
"""


def test_each_profile_of_a_configuration_decides_with_its_own_plugins() -> None:
    world = World(load_config(CONFIG, "test"))
    world.add_all(
        [
            make_node("busy"),
            make_node("idle"),
            make_pod("there", node="busy", cpu="1"),
        ]
    )
    placed = {}
    for name in ("packing", "spreading"):
        decision, _ = world.cycle.decide(world.profiles[name], make_pod("new", cpu="1"))
        assert isinstance(decision, Bind)
        placed[name] = decision.node_name
    assert placed == {"packing": "busy", "spreading": "idle"}


def test_profiles_do_not_share_kept_answers() -> None:
    world = World(load_config(CONFIG, "test"))
    world.add_all([make_node(f"n{i}") for i in range(8)])
    pod = make_pod("new", cpu="1")
    for _ in range(2):
        totals = []
        for name in ("packing", "spreading"):
            decision, _ = world.cycle.decide(world.profiles[name], pod)
            assert isinstance(decision, Bind)
            totals.append(decision.total_score)
        assert totals[0] != totals[1]


def test_the_points_of_a_profile_are_those_of_its_configuration() -> None:
    profile = make_profile(make_state())
    assert profile.queue_sort.name == "PrioritySort"
    assert [plugin.name for plugin in profile.bind] == ["DefaultBinder"]
    assert [plugin.name for plugin in profile.pre_enqueue] == [
        "SchedulingGates",
        "DynamicResources",
        "DefaultPreemption",
    ]
    assert ExtensionPoint.PERMIT.value == "permit"
    assert profile.permit == ()
