"""Feature gates: defaults, settings, and what is refused."""

import pytest

from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.config.gate_table import DEPENDENCIES, HISTORY, Stage
from moorage.config.plugins import default_plugins
from moorage.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("SchedulerAsyncAPICalls", False),
        ("NodeDeclaredFeatures", True),
        ("GenericWorkload", False),
        ("DRADeviceTaintRules", True),
        ("StorageCapacityScoring", True),
        ("CoordinatedLeaderElection", False),
        ("LoggingBetaOptions", True),
        ("NativeHistograms", True),
        ("AllAlpha", False),
    ],
)
def test_a_gate_that_nobody_set_has_its_default(name: str, on: bool) -> None:
    assert DEFAULT_FEATURE_GATES.enabled(name) is on


def test_a_gate_has_the_value_it_was_set_to() -> None:
    gates = FeatureGates.parse("GenericWorkload=true,CompositePodGroup=0,NodeDeclaredFeatures=true")
    assert gates.enabled("GenericWorkload")
    assert not gates.enabled("CompositePodGroup")
    assert not gates.enabled("TopologyAwareWorkloadScheduling")


def test_a_gate_that_does_not_exist_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        DEFAULT_FEATURE_GATES.enabled("NoSuch")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("NoSuch=true", "unrecognized feature gate: NoSuch", id="CLI-079 unknown"),
        *(
            pytest.param(f"{name}=true", f"unrecognized feature gate: {name}", id=f"{name} is gone")
            for name in ("GangScheduling", "SchedulerQueueingHints", "WorkloadAwarePreemption")
        ),
        pytest.param("=true", "unrecognized feature gate: ", id="CLI-079 without a name"),
        pytest.param(
            "NodeDeclaredFeatures=false,ImageVolume=false",
            "[cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true, "
            "cannot set feature gate ImageVolume to false, feature is locked to true]",
            id="CLI-080 locked",
        ),
        pytest.param("A", "missing bool value for A", id="CLI-082 missing value"),
        pytest.param(
            "A=maybe",
            'invalid value of A=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
            id="CLI-082 bad value",
        ),
        pytest.param(
            "CompositePodGroup=true,TopologyAwareWorkloadScheduling=true,GenericWorkload=true,"
            "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false,"
            "PodLevelResourcesFixDefaulting=false",
            "PodLevelResourcesFixKubeletQOSClass is enabled, but depends on features that are "
            "disabled: [PodLevelResources]",
            id="CLI-083 dependency",
        ),
        pytest.param(
            "kube:GenericWorkload=true,CompositePodGroup=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, "
            "do not mix use",
            id="CLI-066 prefixes are mixed",
        ),
        pytest.param("foo:A=true", "component not registered: foo", id="CLI-066 unknown component"),
    ],
)
def test_settings_that_are_refused(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        FeatureGates.parse(text)
    assert str(error.value) == expected


def test_cli_066_the_component_may_be_named() -> None:
    gates = FeatureGates.parse("kube:GenericWorkload=true, kube: NativeHistograms = T ,,")
    assert gates == FeatureGates({"GenericWorkload": True, "NativeHistograms": True})


def test_cli_084_all_alpha_leaves_what_was_set_and_other_stages_alone() -> None:
    gates = FeatureGates.parse("AllAlpha=true,GenericWorkload=true,DRADerivedAttributes=false")
    assert gates.enabled("CompositePodGroup")
    assert gates.enabled("AllAlpha")
    assert not gates.enabled("DRADerivedAttributes")
    assert not gates.enabled("SchedulerAsyncAPICalls")


def test_cli_084_all_beta_can_switch_off() -> None:
    gates = FeatureGates.parse("AllBeta=false,OpportunisticBatching=true")
    assert gates.enabled("OpportunisticBatching")
    assert gates.enabled("DynamicResourceAllocation")
    assert not gates.enabled("StorageCapacityScoring")


def test_gates_with_the_same_settings_are_equal() -> None:
    same = [FeatureGates({"AllBeta": False}), FeatureGates.parse("AllBeta=f")]
    assert same[0] == same[1]
    assert len({*same, DEFAULT_FEATURE_GATES}) == 2
    assert repr(same[0]) == "FeatureGates({'AllBeta': False})"


def test_the_table_is_sound() -> None:
    for name, needed in DEPENDENCIES.items():
        assert {name, *needed} <= HISTORY.keys()
    for history in HISTORY.values():
        assert list(history) == sorted(history)
        assert all(not gate.default for gate in history.values() if gate.stage is Stage.ALPHA)


def test_the_default_plugins_follow_the_gates() -> None:
    def names(gates: FeatureGates) -> list[str]:
        return [ref.name for ref in default_plugins(gates).multi_point.enabled]

    default = names(DEFAULT_FEATURE_GATES)
    assert default.index("DynamicResources") + 1 == default.index("DefaultPreemption")
    assert default[-1] == "NodeDeclaredFeatures"
    workload = FeatureGates.parse("GenericWorkload=true,TopologyAwareWorkloadScheduling=true")
    added = ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"]
    assert names(workload) == default + added
    assert names(FeatureGates.parse("AllBeta=false")) == default
    resizes = names(FeatureGates.parse("InPlacePodVerticalScalingSchedulerPreemption=true"))
    assert resizes.index("DeferredPodScheduling") + 1 == resizes.index("NodeResourcesFit")
    assert sorted(resizes) == sorted([*default, "DeferredPodScheduling"])
