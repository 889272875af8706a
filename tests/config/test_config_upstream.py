"""Configurations whose outcome was recorded from the real kube-scheduler v1.37.1.

`upstream.json` holds the cases (`gates` and `text`) with the answers of upstream's own code, run
in turn: setting the gates, decoding, validating, building a scheduler. `stage` and `error` say
where it stopped. Otherwise, where `keep` asked for it, `config` has the top-level fields that
differ from the defaults, as upstream writes them, and `plugins` what runs at each extension point.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.config import (
    FeatureGates,
    default_config,
    effective_profiles,
    encode_config,
    load_config,
)
from moorage.config.as_built import with_extender_resources
from moorage.config.plugins import EffectivePlugins, Implements
from moorage.config.types import ExtensionPoint
from moorage.errors import ConfigError

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "upstream.json").read_text("utf-8")
)


def of(*stages: str) -> list[Any]:
    chosen = [case for case in CASES if case.get("stage", "") in stages]
    return [pytest.param(case, id=f"{case['row']} {case['name']}") for case in chosen]


def load(case: dict[str, Any]) -> Any:
    gates = FeatureGates.parse(case["gates"])
    return load_config(case["text"], "cfg.yaml", gates)


def one_line(text: str) -> str:
    """Upstream's text on one line; only its YAML library breaks lines."""
    return text.replace("errors:\n  ", "errors: ").replace("\n  ", "; ")


@pytest.mark.parametrize("case", of("gates"))
def test_feature_gates_are_refused_with_the_text_of_upstream(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        load(case)
    assert str(error.value) == case["error"]


@pytest.mark.parametrize("case", of("decode", "validate"))
def test_a_file_is_refused_with_the_text_of_upstream(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        load(case)
    assert str(error.value) == f"cfg.yaml: {one_line(case['error'])}"


@pytest.mark.parametrize("case", of("build"))
def test_a_profile_is_refused_with_the_text_of_upstream_when_built(
    case: dict[str, Any], in_tree: Implements
) -> None:
    config = load(case)
    with pytest.raises(ConfigError) as error:
        effective_profiles(with_extender_resources(config), in_tree)
    assert str(error.value) == case["error"]


@pytest.mark.parametrize("case", of(""))
def test_an_accepted_file_means_what_it_means_to_upstream(
    case: dict[str, Any], in_tree: Implements
) -> None:
    config = with_extender_resources(load(case))
    profiles = effective_profiles(config, in_tree)
    if "config" in case:
        defaults = encode_config(default_config())
        fields = encode_config(config)
        assert {k: v for k, v in fields.items() if v != defaults.get(k)} == case["config"]
    if "plugins" in case:
        assert {name: as_recorded(plugins) for name, plugins in profiles.items()} == case["plugins"]


def as_recorded(plugins: EffectivePlugins) -> dict[str, list[object]]:
    weights = {
        ExtensionPoint.SCORE: plugins.weights,
        ExtensionPoint.PLACEMENT_SCORE: plugins.placement_weights,
    }
    result: dict[str, list[object]] = {}
    for point in ExtensionPoint:
        of_point = weights.get(point)
        names = plugins.at(point)
        if names:
            shown = point.value[0].upper() + point.value[1:]
            result[shown] = [[name, of_point[name]] if of_point else name for name in names]
    return result


def test_every_recorded_row_has_cases_of_its_own() -> None:
    assert len(CASES) > 150
    assert len({(case["row"], case["name"]) for case in CASES}) == len(CASES)
