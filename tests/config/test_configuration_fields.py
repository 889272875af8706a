"""Every field of a configuration, row by row of the parity list: taken, defaulted or refused.

`fields.json` was recorded from the binary of kube-scheduler v1.37.1: each case's `text` was given
as `--config`, and either `error` is what it said when it refused to start, or `written` are the
top-level fields of what it wrote with `--write-config-to`, as far as they differ from `defaults`.
(Upstream's name of its table of kinds depends on how the binary was built; it is the one of its
releases here.) More cases of the same rows are in `upstream.json`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
    default_config,
    effective_profiles,
    encode_config,
    load_config,
    load_profile,
)
from moorage.config.args import NodeAffinityArgs
from moorage.config.as_built import as_built
from moorage.config.plugins import Implements, default_plugins, effective_plugins
from moorage.config.types import (
    API_VERSION,
    KIND,
    ExtensionPoint,
    PluginConfig,
    PluginRef,
    PluginSet,
)
from moorage.config.validation import validation_errors
from moorage.errors import ConfigError
from moorage.simulator.offline import PodOutcome, place_all
from moorage.simulator.world import World
from moorage.testing.builders import make_node, make_pod

FOLDER = Path(__file__).parent
RECORDED = json.loads((FOLDER / "fields.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = RECORDED["cases"]

ROWS = [f"CLI-{number:03}" for number in range(85, 172)]
"""The fields of a configuration (85-106), profiles (107-126), default plugins and MultiPoint
(127-139), arguments of plugins (140-159) and extenders (160-171)."""


def cases(kind: str) -> list[Any]:
    chosen = [case for case in CASES if kind in case]
    return [pytest.param(case, id=f"{case['row']} {case['name']}") for case in chosen]


def start(case: dict[str, Any], implements: Implements) -> KubeSchedulerConfiguration:
    """What a scheduler does with a file until its profiles stand."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **yaml.safe_load(case["text"])}
    config = load_config(json.dumps(document), "cfg", FeatureGates.parse(case["gates"]))
    built = as_built(config)
    effective_profiles(built, implements)
    return built


@pytest.mark.parametrize("case", cases("written"))
def test_what_is_given_and_what_is_not_is_written_as_upstream_writes_it(
    case: dict[str, Any], in_tree: Implements
) -> None:
    expected = {**RECORDED["defaults"][case["gates"]], **case["written"]}
    assert encode_config(start(case, in_tree)) == expected


@pytest.mark.parametrize("case", cases("error"))
def test_what_upstream_refuses_is_refused_in_its_words(
    case: dict[str, Any], in_tree: Implements
) -> None:
    with pytest.raises(ConfigError) as error:
        start(case, in_tree)
    assert str(error.value).removeprefix("cfg: ") == case["error"]


def test_cli_114_at_most_one_placement_generator(in_tree: Implements) -> None:
    def implements(name: str, point: ExtensionPoint) -> bool:
        return in_tree("TopologyPlacementGenerator" if name == "Other" else name, point)

    enabled = [{"name": "TopologyPlacementGenerator"}, {"name": "Other"}]
    profile = load_profile({"plugins": {"placementGenerate": {"enabled": enabled}}}, "x")
    expected = (
        "initializing profiles: creating profile for scheduler name default-scheduler: at most one "
        'placement generate plugin is allowed for profile with scheduler name "default-scheduler"'
    )
    with pytest.raises(ConfigError) as error:
        effective_plugins(profile, implements)
    assert str(error.value) == expected


def test_cli_117_arguments_must_be_of_the_kind_of_the_plugin() -> None:
    # No file can lead there, since decoding minds the kind: only a program can.
    config = default_config()
    wrong = (PluginConfig("InterPodAffinity", NodeAffinityArgs()),)
    profile = msgspec.structs.replace(config.profiles[0], plugin_config=wrong)
    broken = msgspec.structs.replace(config, profiles=(profile,))
    (text,) = validation_errors(broken, DEFAULT_FEATURE_GATES)
    assert text.startswith("profiles[0].pluginConfig[0].args: Invalid value: ")
    assert text.endswith(": has to match plugin args")


def test_cli_125_plugins_do_not_mind_in_which_order_they_are_built() -> None:
    names = [ref.name for ref in default_plugins(DEFAULT_FEATURE_GATES).multi_point.enabled]
    backwards = PluginSet(
        enabled=tuple(PluginRef(name) for name in reversed(names)), disabled=(PluginRef("*"),)
    )
    config = default_config()
    plugins = msgspec.structs.replace(config.profiles[0].plugins, multi_point=backwards)
    profile = msgspec.structs.replace(config.profiles[0], plugins=plugins)
    world = World(msgspec.structs.replace(config, profiles=(profile,)))
    filters = [plugin.name for plugin in world.profiles["default-scheduler"].filter]
    assert filters[0] == "NodeDeclaredFeatures"
    assert filters[-1] == "NodeName"


def test_cli_126_a_pod_belongs_to_the_profile_that_it_names() -> None:
    text = "profiles: [{schedulerName: a}, {schedulerName: b}]"
    header = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
    world = World(load_config(header + text, "cfg"))
    world.add_all(
        [
            make_node("n"),
            *(make_pod(f"of-{name}", spec={"schedulerName": name}) for name in ("a", "b", "c")),
        ]
    )
    outcomes = {record.name: record.outcome for record in place_all(world).pods}
    assert outcomes == {
        "of-a": PodOutcome.PLACED,
        "of-b": PodOutcome.PLACED,
        "of-c": PodOutcome.NOT_RESPONSIBLE,
    }


SINGLE: dict[str, Callable[..., None]] = {
    "CLI-114": test_cli_114_at_most_one_placement_generator,
    "CLI-117": test_cli_117_arguments_must_be_of_the_kind_of_the_plugin,
    "CLI-125": test_cli_125_plugins_do_not_mind_in_which_order_they_are_built,
    "CLI-126": test_cli_126_a_pod_belongs_to_the_profile_that_it_names,
}
"""Rows that no file of a configuration can show."""


def test_every_row_has_a_case() -> None:
    others = json.loads((FOLDER / "upstream.json").read_text("utf-8"))
    covered = {case["row"] for case in (*CASES, *others)} | SINGLE.keys()
    assert [row for row in ROWS if row not in covered] == []
