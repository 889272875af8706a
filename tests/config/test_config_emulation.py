"""Emulated versions: which gates there were, and which versions may be asked for.

`emulated_gates.json` holds stage and state of every gate as the real kube-scheduler v1.37.1
reports them on `/metrics` under `--emulated-version`.
"""

import json
from pathlib import Path

import pytest

from moorage.config import FeatureGates
from moorage.config.feature_gates import (
    CURRENT_VERSION,
    EffectiveVersion,
    MajorMinor,
    parse_semantic,
)
from moorage.errors import ConfigError

RECORDED: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "emulated_gates.json").read_text("utf-8")
)


def emulating(version: str, settings: str = "") -> FeatureGates:
    return FeatureGates.parse(settings, EffectiveVersion.parse([version], []))


@pytest.mark.parametrize("version", RECORDED)
def test_every_gate_is_what_it_was_in_that_version(version: str) -> None:
    shown = {
        feature.name: feature.stage.value + (" on" if feature.enabled else "")
        for feature in emulating(version).known()
    }
    assert shown == RECORDED[version]


def test_cli_081_a_gate_that_did_not_exist_yet_cannot_be_set() -> None:
    text = (
        "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated version "
        "1.34, min compatibility version 1.34"
    )
    with pytest.raises(ConfigError) as error:
        emulating("1.34", "GenericWorkload=true")
    assert str(error.value) == text
    assert not emulating("1.34").enabled("GenericWorkload")


def test_a_gate_that_was_not_locked_yet_can_be_set() -> None:
    settings = "DRAExtendedResource=false"
    assert not emulating("1.36", settings).enabled("DRAExtendedResource")
    with pytest.raises(ConfigError, match="feature is locked to true"):
        emulating("1.37", settings)


@pytest.mark.parametrize(("oldest", "on"), [([], False), (["1.36"], False), (["1.37"], True)])
def test_a_gate_that_concerns_peers_waits_until_all_understand_it(
    oldest: list[str], on: bool
) -> None:
    gates = FeatureGates(version=EffectiveVersion.parse([], oldest))
    assert gates.enabled("DRAFractionalCapacityRange") is on
    set_by_hand = FeatureGates.parse("DRAFractionalCapacityRange=true", gates.version)
    assert set_by_hand.enabled("DRAFractionalCapacityRange")


def test_cli_084_whole_stages_follow_the_version() -> None:
    on = emulating("1.35", "AllBeta=true")
    off = emulating("1.35", "AllBeta=false,DynamicResourceAllocation=true")
    assert on.enabled("SchedulerAsyncAPICalls")
    assert not off.enabled("SchedulerAsyncAPICalls")
    assert off.enabled("DynamicResourceAllocation")


def test_gates_of_different_versions_differ() -> None:
    assert emulating("1.36") != FeatureGates()
    assert emulating("1.37") == FeatureGates()
    assert "emulation" in repr(emulating("1.36"))
    assert hash(emulating("1.36")) == hash(emulating("1.36"))


def test_gates_that_will_go_are_told() -> None:
    gates = FeatureGates.parse("InformerResourceVersion=true,AllAlpha=false")
    assert [(name, value, stage.value) for name, value, stage in gates.warnings()] == [
        ("InformerResourceVersion", True, "GA")
    ]


@pytest.mark.parametrize(
    ("emulated", "oldest", "expected"),
    [
        ([], [], CURRENT_VERSION),
        (["1.35"], [], EffectiveVersion(MajorMinor(1, 35), MajorMinor(1, 34))),
        (["1.34"], [], EffectiveVersion(MajorMinor(1, 34), MajorMinor(1, 34))),
        (["kube= v1.36.0-rc.1"], [], EffectiveVersion(MajorMinor(1, 36), MajorMinor(1, 35))),
        ([], ["1.34"], EffectiveVersion(MajorMinor(1, 37), MajorMinor(1, 34))),
    ],
)
def test_versions_are_read(
    emulated: list[str], oldest: list[str], expected: EffectiveVersion
) -> None:
    found = EffectiveVersion.parse(emulated, oldest)
    assert found == expected
    assert found.errors() == []


@pytest.mark.parametrize(
    ("emulated", "text"),
    [
        (["x"], 'could not parse "x" as version'),
        (["2"], 'illegal version string "2"'),
        (["01.2"], 'illegal zero-prefixed version component "01" in "01.2"'),
        (["1.35.2"], "patch version not allowed, got: kube=1.35.2"),
        (["1.34", "kube=1.35"], "duplicate version flag, kube=1.34 and kube=1.35"),
        (["a=1.34"], "component not registered: a"),
    ],
)
def test_versions_that_cannot_be_read_are_refused(emulated: list[str], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        EffectiveVersion.parse(emulated, [])
    assert str(error.value) == text


def test_versions_have_limits() -> None:
    assert EffectiveVersion.parse(["1.20"], []).errors() == [
        "emulation version 1.20 is not between [1.34, 1.37.0]",
        "minCompatibilityVersion version 1.34 is not between [1.34, 1.20]",
    ]
    assert EffectiveVersion.parse(["1.35"], ["1.36"]).errors() == [
        "minCompatibilityVersion version 1.36 is not between [1.34, 1.35]"
    ]


@pytest.mark.parametrize("text", ["v1.37", "v1.37.04", "v1.37.1-01", "v1.37.1-a_b", "v"])
def test_a_strict_version_has_three_numbers_and_a_clean_ending(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_semantic(text)
    assert parse_semantic("v1.37.1-a.1+b") == (1, 37, 1)
