"""What becomes of the predicates and priorities of a policy, row by row of the parity list."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.config import effective_profiles, load_config
from moorage.config.args import InterPodAffinityArgs, NodeResourcesFitArgs, PodTopologySpreadArgs
from moorage.config.as_built import as_built
from moorage.config.legacy_policy_conversion import (
    Conversion,
    convert_algorithm_provider,
    convert_policy,
    policy_table,
)
from moorage.config.plugins import Implements
from moorage.config.types import ExtensionPoint
from moorage.errors import ConfigError

TABLE = policy_table()
HEADER = {"apiVersion": "v1", "kind": "Policy"}
LATER = ("DynamicResources", "NodeDeclaredFeatures")
"""Filters that policies could not name and every profile needs."""


def convert(**fields: Any) -> Conversion:
    return convert_policy({**HEADER, **fields})


def at(conversion: Conversion, point: str) -> dict[str, int]:
    """The plugins of a point, in order, with their weights; those that all profiles have left out.

    Read from the document, since that is what a user gets.
    """
    plugins = conversion.document["profiles"][0]["plugins"]
    refs = plugins.get(point, {}).get("enabled", [])
    return {ref["name"]: ref.get("weight", 0) for ref in refs if ref["name"] not in LATER}


def args(conversion: Conversion, name: str) -> Any:
    return conversion.config.profiles[0].args_for(name)


def told(conversion: Conversion) -> dict[str, bool]:
    return {one.item: one.changes_decisions for one in conversion.dropped}


PREDICATES = [
    (
        "CLI-192",
        "GeneralPredicates",
        ["NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"],
    ),
    ("CLI-193", "PodFitsResources", ["NodeResourcesFit"]),
    ("CLI-194", "HostName", ["NodeName"]),
    ("CLI-195", "PodFitsHostPorts", ["NodePorts"]),
    ("CLI-195", "PodFitsPorts", ["NodePorts"]),
    ("CLI-196", "MatchNodeSelector", ["NodeAffinity"]),
    ("CLI-197", "PodToleratesNodeTaints", []),
    ("CLI-198", "CheckNodeUnschedulable", []),
    ("CLI-199", "NoDiskConflict", ["VolumeRestrictions"]),
    ("CLI-200", "NoVolumeZoneConflict", ["VolumeZone"]),
    ("CLI-201", "CheckVolumeBinding", ["VolumeBinding"]),
    ("CLI-202", "MaxCSIVolumeCountPred", ["NodeVolumeLimits"]),
    ("CLI-203", "MaxEBSVolumeCount", ["NodeVolumeLimits"]),
    ("CLI-203", "MaxGCEPDVolumeCount", ["NodeVolumeLimits"]),
    ("CLI-203", "MaxAzureDiskVolumeCount", ["NodeVolumeLimits"]),
    ("CLI-203", "MaxCinderVolumeCount", ["NodeVolumeLimits"]),
    ("CLI-204", "MatchInterPodAffinity", ["InterPodAffinity"]),
    ("CLI-205", "EvenPodsSpread", ["PodTopologySpread"]),
    ("CLI-206", "CheckNodeLabelPresence", []),
    ("CLI-207", "CheckServiceAffinity", []),
]


@pytest.mark.parametrize(
    ("name", "plugins"),
    [pytest.param(*case, id=f"{row} {case[0]}") for row, *case in PREDICATES],
)
def test_a_predicate_becomes_plugins(name: str, plugins: list[str]) -> None:
    conversion = convert(predicates=[{"name": name}], priorities=[])
    mandatory = ("NodeUnschedulable", "TaintToleration")
    assert [one for one in at(conversion, "filter") if one not in mandatory] == plugins
    assert {*mandatory} <= at(conversion, "filter").keys()
    assert [*at(conversion, "preFilter")] == [*at(conversion, "filter")]
    assert conversion.refused == ()


def test_cli_201_binding_volumes_takes_more_than_filtering() -> None:
    conversion = convert(predicates=[{"name": "CheckVolumeBinding"}])
    assert [*at(conversion, "reserve")] == ["VolumeBinding"]
    assert [*at(conversion, "preBind")] == ["VolumeBinding"]


PRIORITIES = [
    ("CLI-208", "LeastRequestedPriority", "NodeResourcesFit"),
    ("CLI-209", "MostRequestedPriority", "NodeResourcesFit"),
    ("CLI-211", "BalancedResourceAllocation", "NodeResourcesBalancedAllocation"),
    ("CLI-212", "SelectorSpreadPriority", "PodTopologySpread"),
    ("CLI-212", "ServiceSpreadingPriority", "PodTopologySpread"),
    ("CLI-213", "EvenPodsSpreadPriority", "PodTopologySpread"),
    ("CLI-214", "InterPodAffinityPriority", "InterPodAffinity"),
    ("CLI-215", "NodeAffinityPriority", "NodeAffinity"),
    ("CLI-216", "TaintTolerationPriority", "TaintToleration"),
    ("CLI-217", "ImageLocalityPriority", "ImageLocality"),
]


@pytest.mark.parametrize(
    ("name", "plugin"), [pytest.param(*case, id=f"{row} {case[0]}") for row, *case in PRIORITIES]
)
def test_a_priority_becomes_a_weighted_plugin(name: str, plugin: str) -> None:
    conversion = convert(predicates=[], priorities=[{"name": name, "weight": 7}])
    assert at(conversion, "score") == {plugin: 7}
    assert [*at(conversion, "preScore")] == ([] if plugin == "ImageLocality" else [plugin])
    assert conversion.dropped == ()


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        pytest.param("LeastRequestedPriority", "LeastAllocated", id="CLI-208"),
        pytest.param("MostRequestedPriority", "MostAllocated", id="CLI-209"),
    ],
)
def test_use_of_resources_is_a_strategy_today(name: str, strategy: str) -> None:
    fit = args(convert(priorities=[{"name": name, "weight": 1}]), "NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.type == strategy


@pytest.mark.parametrize("name", ["RequestedToCapacityRatioPriority", "RequestedToCapacityRatio"])
def test_cli_210_a_curve_is_a_strategy_today(name: str) -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    resources = [{"name": "example.com/foo", "weight": 3}, {"name": "cpu"}]
    ratio = {"requestedToCapacityRatioArguments": {"shape": shape, "resources": resources}}
    conversion = convert(priorities=[{"name": name, "weight": 2, "argument": ratio}])
    assert at(conversion, "score") == {"NodeResourcesFit": 2}
    strategy = args(conversion, "NodeResourcesFit").scoring_strategy
    assert strategy.type == "RequestedToCapacityRatio"
    assert [(one.name, one.weight) for one in strategy.resources] == [
        ("example.com/foo", 3),
        ("cpu", 1),
    ]
    points = strategy.requested_to_capacity_ratio.shape
    assert [(point.utilization, point.score) for point in points] == [(0, 0), (100, 10)]


def test_cli_208_strategies_exclude_one_another() -> None:
    priorities = [
        {"name": "LeastRequestedPriority", "weight": 2},
        {"name": "MostRequestedPriority", "weight": 3},
    ]
    conversion = convert(priorities=priorities)
    assert at(conversion, "score") == {"NodeResourcesFit": 3}
    assert args(conversion, "NodeResourcesFit").scoring_strategy.type == "MostAllocated"
    assert told(conversion) == {'priority "LeastRequestedPriority"': True}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["SelectorSpreadPriority"], "System"),
        (["EvenPodsSpreadPriority"], "List"),
        (["EvenPodsSpreadPriority", "SelectorSpreadPriority"], "System"),
    ],
)
def test_cli_213_only_spreading_by_selector_brings_default_constraints(
    names: list[str], expected: str
) -> None:
    priorities = [{"name": name, "weight": 1} for name in names]
    spread = args(convert(priorities=priorities), "PodTopologySpread")
    assert isinstance(spread, PodTopologySpreadArgs)
    assert (spread.defaulting_type, spread.default_constraints) == (expected, ())


def test_cli_213_two_ways_to_spread_have_the_weight_of_the_first() -> None:
    # Upstream means to take the larger one and changes a copy.
    priorities = [
        {"name": "SelectorSpreadPriority", "weight": 5},
        {"name": "EvenPodsSpreadPriority", "weight": 2},
    ]
    assert at(convert(priorities=priorities), "score") == {"PodTopologySpread": 2}


def test_cli_177_no_predicates_mean_the_default_ones() -> None:
    assert [*at(convert(), "filter")] == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "NodeName",
        "NodePorts",
        "NodeAffinity",
        "VolumeRestrictions",
        "TaintToleration",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert convert(predicates=None).document == convert().document


def test_cli_177_an_empty_list_of_predicates_leaves_the_mandatory_ones() -> None:
    assert [*at(convert(predicates=[]), "filter")] == ["NodeUnschedulable", "TaintToleration"]


def test_cli_179_mandatory_predicates_join_those_that_are_named() -> None:
    assert [*at(convert(predicates=[{"name": "NoDiskConflict"}]), "filter")] == [
        "NodeUnschedulable",
        "VolumeRestrictions",
        "TaintToleration",
    ]


def test_cli_178_no_priorities_mean_the_default_ones() -> None:
    assert at(convert(), "score") == {
        "NodeResourcesBalancedAllocation": 1,
        "PodTopologySpread": 2,
        "ImageLocality": 1,
        "InterPodAffinity": 1,
        "NodeResourcesFit": 1,
        "NodeAffinity": 1,
        "TaintToleration": 1,
    }
    assert at(convert(priorities=[]), "score") == {}


def test_cli_180_queue_preemption_and_binding_are_always_there() -> None:
    conversion = convert(predicates=[], priorities=[])
    assert [*at(conversion, "queueSort")] == ["PrioritySort"]
    assert [*at(conversion, "postFilter")] == ["DefaultPreemption"]
    assert [*at(conversion, "bind")] == ["DefaultBinder"]
    assert [*at(conversion, "preEnqueue")] == ["SchedulingGates", "DefaultPreemption"]


def test_cli_181_the_symmetric_weight_becomes_an_argument() -> None:
    affinity = args(convert(hardPodAffinitySymmetricWeight=30), "InterPodAffinity")
    assert isinstance(affinity, InterPodAffinityArgs)
    assert affinity.hard_pod_affinity_weight == 30
    unset = args(convert(hardPodAffinitySymmetricWeight=0), "InterPodAffinity")
    assert unset.hard_pod_affinity_weight == 1


def test_cli_182_checking_all_predicates_is_only_mentioned() -> None:
    conversion = convert(priorities=[], alwaysCheckAllPredicates=True)
    assert told(conversion) == {"alwaysCheckAllPredicates": False}
    conversion.check()


def test_cli_187_extenders_are_taken_over() -> None:
    extender = {
        "urlPrefix": "https://127.0.0.1:1/e",
        "filterVerb": "f",
        "preemptVerb": "pre",
        "prioritizeVerb": "p",
        "weight": 5,
        "bindVerb": "b",
        "enableHttps": True,
        "tlsConfig": {"insecure": True, "caData": "aGk="},
        "httpTimeout": 1_500_000_000,
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
        "ignorable": True,
    }
    conversion = convert(predicates=[], priorities=[], extenders=[extender])
    expected = {**extender, "enableHTTPS": True, "httpTimeout": "1.5s"}
    del expected["enableHttps"]
    assert conversion.document["extenders"] == [expected]
    # NodeResourcesFit is nowhere, but its arguments must be: see CLI-169.
    as_built(conversion.config)


def test_cli_187_extenders_are_read_in_any_case_and_without_strictness() -> None:
    extender = {"URLPrefix": "http://x", "FILTERVERB": "f", "TLSConfig": {"Insecure": True}, "a": 1}
    assert convert(extenders=[extender]).document["extenders"] == [
        {"urlPrefix": "http://x", "filterVerb": "f", "tlsConfig": {"insecure": True}}
    ]


def test_cli_188_filters_run_in_their_old_order_whatever_the_order_of_the_policy() -> None:
    names = sorted(TABLE.predicate_plugins, reverse=True)
    conversion = convert(predicates=[{"name": name} for name in names], priorities=[])
    assert [*at(conversion, "filter")] == [*at(convert(), "filter")]


@pytest.mark.parametrize(
    ("provider", "strategy"),
    [
        pytest.param("DefaultProvider", "LeastAllocated", id="CLI-189"),
        pytest.param("ClusterAutoscalerProvider", "MostAllocated", id="CLI-190"),
    ],
)
def test_algorithm_providers_have_the_filters_and_weights_of_old(
    provider: str, strategy: str
) -> None:
    conversion = convert_algorithm_provider(provider)
    assert [*at(conversion, "filter")] == [*TABLE.provider_filters]
    assert at(conversion, "score") == {
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "InterPodAffinity": 1,
        "NodeResourcesFit": 1,
        "NodeAffinity": 1,
        "PodTopologySpread": 2,
        "TaintToleration": 1,
    }
    assert args(conversion, "NodeResourcesFit").scoring_strategy.type == strategy
    assert args(conversion, "PodTopologySpread").defaulting_type == "System"
    assert told(conversion) == {'priority "NodePreferAvoidPodsPriority"': False}


def test_cli_191_other_algorithm_providers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r'^algorithm provider "Tide" is not registered$'):
        convert_algorithm_provider("Tide")


def presence(*labels: str, present: bool) -> dict[str, Any]:
    return {"labelsPresence": {"labels": [*labels], "presence": present}}


def test_cli_206_labels_of_nodes_become_an_added_affinity() -> None:
    predicates = [
        {"name": "MatchNodeSelector"},
        {"name": "Racked", "argument": presence("rack", "row", present=True)},
        {"name": "Sound", "argument": presence("retiring", present=False)},
    ]
    conversion = convert(predicates=predicates, priorities=[])
    assert conversion.dropped == ()
    assert args(conversion, "NodeAffinity").added_affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "rack", "operator": "Exists"},
                        {"key": "row", "operator": "Exists"},
                        {"key": "retiring", "operator": "DoesNotExist"},
                    ]
                }
            ]
        }
    }


def test_cli_206_without_node_selectors_labels_have_no_counterpart() -> None:
    predicate = {"name": "Racked", "argument": presence("rack", present=True)}
    conversion = convert(predicates=[predicate], priorities=[])
    assert told(conversion) == {'predicate "Racked" (labelsPresence)': True}
    assert "NodeAffinity" not in at(conversion, "filter")


def test_cli_206_the_argument_of_a_predefined_predicate_never_counted() -> None:
    predicate = {"name": "CheckNodeLabelPresence", "argument": presence("rack", present=True)}
    conversion = convert(predicates=[{"name": "GeneralPredicates"}, predicate], priorities=[])
    assert told(conversion) == {'predicate "CheckNodeLabelPresence"': False}
    assert args(conversion, "NodeAffinity").added_affinity is None


@pytest.mark.parametrize(
    ("field", "item", "instead"),
    [
        pytest.param(
            "predicates",
            {"name": "Mine", "argument": {"serviceAffinity": {"labels": ["zone"]}}},
            "podAffinity",
            id="CLI-207",
        ),
        pytest.param(
            "priorities",
            {"name": "NodePreferAvoidPodsPriority", "weight": 10000},
            "PreferNoSchedule",
            id="CLI-218",
        ),
        pytest.param(
            "priorities",
            {"name": "Mine", "weight": 1, "argument": {"labelPreference": {"label": "zone"}}},
            "addedAffinity",
            id="CLI-220 labelPreference",
        ),
        pytest.param(
            "priorities",
            {"name": "Mine", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "zone"}}},
            "topologySpreadConstraints",
            id="CLI-220 serviceAntiAffinity",
        ),
    ],
)
def test_what_is_no_more_is_refused_with_advice(
    field: str, item: dict[str, Any], instead: str
) -> None:
    conversion = convert(**{"predicates": [], "priorities": [], field: [item]})
    (refused,) = conversion.refused
    assert str(item["name"]) in refused.item
    assert instead in refused.reason
    with pytest.raises(ConfigError, match=r"^this has no counterpart in v1\.37: "):
        conversion.check()
    # Whoever agrees to lose it gets the rest.
    assert conversion.document == convert(predicates=[], priorities=[]).document


def test_cli_219_equal_priority_is_skipped() -> None:
    conversion = convert(priorities=[{"name": "EqualPriority", "weight": 1}])
    assert at(conversion, "score") == {}
    assert conversion.dropped == ()


def test_the_scheduler_may_have_a_name() -> None:
    conversion = convert_policy(HEADER, scheduler_name="old")
    assert [profile.scheduler_name for profile in conversion.config.profiles] == ["old"]


def test_every_row_is_named_by_a_test() -> None:
    here = Path(__file__).parent
    files = [
        here / "test_legacy_policy.py",
        here / "test_legacy_conversion.py",
        here.parent / "cli" / "test_config_command.py",
    ]
    texts = "".join(file.read_text("utf-8") for file in files)
    named = {int(number) for number in re.findall(r'(?:def test_cli_|"CLI-)([0-9]{3})', texts)}
    # 172 and 173 are about flags of the scheduler.
    assert [row for row in range(174, 221) if row not in named] == []


NAMES = st.lists(st.sampled_from(sorted(TABLE.predicate_plugins)), unique=True)
WEIGHTS = st.dictionaries(
    st.sampled_from(sorted(TABLE.priority_plugins.keys() - {"RequestedToCapacityRatio"})),
    st.integers(1, 1000),
)


@settings(deadline=None)
@given(NAMES, WEIGHTS)
def test_any_policy_gives_a_configuration_that_loads_and_runs_just_that(
    in_tree: Implements, names: list[str], weights: dict[str, int]
) -> None:
    conversion = convert(
        predicates=[{"name": name} for name in names],
        priorities=[{"name": name, "weight": weight} for name, weight in weights.items()],
    )
    loaded = load_config(json.dumps(conversion.document), "converted")
    assert loaded == conversion.config
    (plugins,) = effective_profiles(as_built(loaded), in_tree).values()
    wanted = {
        plugin
        for name in (*names, *TABLE.mandatory_predicates)
        for plugin in TABLE.predicate_plugins[name]
    }
    filters = plugins.at(ExtensionPoint.FILTER)
    assert {*filters} - {*LATER} == wanted
    # A filter relies on its own PreFilter.
    needing = [name for name in filters if in_tree(name, ExtensionPoint.PRE_FILTER)]
    assert [*plugins.at(ExtensionPoint.PRE_FILTER)] == needing
    scores = {*plugins.at(ExtensionPoint.SCORE)} - {"DynamicResources"}
    assert scores == {TABLE.priority_plugins[name] for name in weights}
    for name in scores:
        assert plugins.weights[name] in [
            weight for other, weight in weights.items() if TABLE.priority_plugins[other] == name
        ]
