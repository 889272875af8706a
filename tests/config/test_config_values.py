"""Defaults, durations, and the rules that no file can break but a value made by hand can."""

import json
import re

import pytest

from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    encode_config,
    load_config,
    load_profile,
    read_config,
    validate_config,
)
from moorage.config.args import (
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
)
from moorage.config.as_built import extenders_in_order, with_extender_resources
from moorage.config.defaulting import default_args
from moorage.config.field_errors import quoted
from moorage.config.types import (
    ExtenderConfig,
    ExtenderManagedResource,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
)
from moorage.errors import ConfigError
from moorage.model.duration import Duration, parse_duration

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_the_default_configuration_is_that_of_an_empty_file() -> None:
    assert default_config() == load_config(HEADER, "cfg.yaml")


def test_the_default_configuration_has_upstreams_values() -> None:
    config = default_config()
    assert config.parallelism == 16
    assert config.leader_election.lease_duration.seconds == 15
    assert config.client_connection.qps == 50
    assert config.enable_contention_profiling is True
    assert config.profiles[0].scheduler_name == "default-scheduler"


def test_a_configuration_that_is_written_reads_the_same() -> None:
    text = json.dumps(encode_config(default_config()))
    assert load_config(text, "cfg.json") == default_config()


def test_cli_124_every_enabled_plugin_that_takes_arguments_has_them() -> None:
    profile = default_config().profiles[0]
    fit = profile.args_for("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.type == "LeastAllocated"
    assert fit.scoring_strategy.resources == (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))
    assert profile.args_for("NodeAffinity") == NodeAffinityArgs()
    assert profile.args_for("NodeName") is None


def test_cli_119_arguments_of_a_foreign_plugin_stay_as_they_are() -> None:
    profile = load_profile({"pluginConfig": [{"name": "X", "args": {"a": [1]}}]}, "golden")
    assert profile.args_for("X") == {"a": [1]}


def test_cli_144_an_added_affinity_becomes_a_mapping_with_the_required_fields() -> None:
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": None}]}
    entry = {"name": "NodeAffinity", "args": {"addedAffinity": affinity}}
    args = load_profile({"pluginConfig": [entry]}, "golden").args_for("NodeAffinity")
    assert isinstance(args, NodeAffinityArgs)
    assert args.added_affinity == {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]
    }


def test_cli_157_time_limits_are_off_where_their_features_are() -> None:
    gates = FeatureGates.parse("DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false")
    args = default_args("DynamicResources", gates)
    assert args == DynamicResourcesArgs(filter_timeout=None, binding_timeout=None)
    assert default_args("DynamicResources", DEFAULT_FEATURE_GATES) == DynamicResourcesArgs()


def test_cli_008_a_file_can_be_read_before_it_is_validated() -> None:
    config = read_config(HEADER + "parallelism: 0", "cfg.yaml")
    with pytest.raises(ConfigError, match=r"^cfg\.yaml: parallelism: Invalid value: 0: should"):
        validate_config(config, "cfg.yaml")


def invalidity(config: KubeSchedulerConfiguration) -> str:
    with pytest.raises(ConfigError) as error:
        validate_config(config, "made by hand")
    return str(error.value).removeprefix("made by hand: ")


def test_cli_092_names_of_the_lease_are_required() -> None:
    election = LeaderElectionConfiguration(
        resource_lock="", resource_name="", resource_namespace=""
    )
    config = KubeSchedulerConfiguration(
        leader_election=election, profiles=default_config().profiles
    )
    assert invalidity(config) == (
        "[leaderElection.resourceLock: Required value, "
        "leaderElection.resourceNamespace: Required value, "
        "leaderElection.resourceName: Required value, "
        'leaderElection.resourceLock: Invalid value: "": resourceLock value must be "leases"]'
    )


def test_cli_103_a_profile_is_required() -> None:
    assert invalidity(KubeSchedulerConfiguration()) == "profiles: Required value"


def test_cli_117_arguments_must_be_those_of_the_plugin() -> None:
    entries = (
        PluginConfig("NodeAffinity", InterPodAffinityArgs(3)),
        PluginConfig("InterPodAffinity", {"a": 1}),
    )
    profile = KubeSchedulerProfile(scheduler_name="a", plugin_config=entries)
    assert invalidity(KubeSchedulerConfiguration(profiles=(profile,))) == (
        "[profiles[0].pluginConfig[0].args: Invalid value: "
        '{"hardPodAffinityWeight":3,"ignorePreferredTermsOfExistingPods":false}: '
        "has to match plugin args, profiles[0].pluginConfig[1].args: Invalid value: "
        '{"a":1}: has to match plugin args]'
    )


def test_cli_169_resources_of_extenders_replace_those_ignored_by_the_profile() -> None:
    managed = (ExtenderManagedResource("a.io/x", True), ExtenderManagedResource("a.io/y"))
    entry = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["b.io/z"]}}
    profile = load_profile({"pluginConfig": [entry]}, "golden")
    config = KubeSchedulerConfiguration(
        profiles=(profile,), extenders=(ExtenderConfig(managed_resources=managed),)
    )
    args = with_extender_resources(config).profiles[0].args_for("NodeResourcesFit")
    assert isinstance(args, NodeResourcesFitArgs)
    assert args.ignored_resources == ("a.io/x",)


def test_cli_170_ignorable_extenders_come_last() -> None:
    may_fail = ExtenderConfig("a", ignorable=True)
    config = KubeSchedulerConfiguration(
        extenders=(may_fail, ExtenderConfig("b"), ExtenderConfig("c"))
    )
    assert [e.url_prefix for e in extenders_in_order(config)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("text", "nanoseconds", "shown"),
    [
        ("0", 0, "0s"),
        ("+5s", 5 * 10**9, "5s"),
        ("-5s", -5 * 10**9, "-5s"),
        ("1h30m", 5400 * 10**9, "1h30m0s"),
        ("90m", 5400 * 10**9, "1h30m0s"),
        ("1m.5s", 60_500_000_000, "1m0.5s"),
        ("1.s", 10**9, "1s"),
        ("100ms", 10**8, "100ms"),
        ("1.5us", 1500, "1.5µs"),
        ("3µs", 3000, "3µs"),
        ("7ns", 7, "7ns"),
        ("0.3333333333333333333h", 1200 * 10**9, "20m0s"),
        ("2562047h47m16.854775807s", 2**63 - 1, "2562047h47m16.854775807s"),
    ],
)
def test_durations_are_read_and_shown_as_go_does(text: str, nanoseconds: int, shown: str) -> None:
    duration = parse_duration(text)
    assert duration == Duration(nanoseconds)
    assert str(duration) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("3", 'time: missing unit in duration "3"'),
        ("3 s", 'time: unknown unit " s" in duration "3 s"'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        ("2562047h47m16.854775808s", 'time: invalid duration "2562047h47m16.854775808s"'),
    ],
)
def test_durations_that_go_refuses_are_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        parse_duration(text)


def test_strings_are_quoted_as_go_does() -> None:
    assert quoted('a"b\\\n\té\x01\u200b\U000e0001') == '"a\\"b\\\\\\n\\té\\x01\\u200b\\U000e0001"'
