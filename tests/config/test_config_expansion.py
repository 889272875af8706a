"""One test per rule for what runs at an extension point, and for what cannot be built."""

import pytest

from moorage.config import KubeSchedulerConfiguration, KubeSchedulerProfile, effective_profiles
from moorage.config.plugins import EffectivePlugins, effective_plugins
from moorage.config.types import ExtensionPoint, PluginConfig, PluginRef, Plugins, PluginSet
from moorage.errors import ConfigError

SCORE, FILTER = ExtensionPoint.SCORE, ExtensionPoint.FILTER
POINTS = {
    "Sort": {ExtensionPoint.QUEUE_SORT},
    "OtherSort": {ExtensionPoint.QUEUE_SORT},
    "Bind": {ExtensionPoint.BIND},
    "FS": {FILTER, SCORE},
    "F": {FILTER},
    "S": {SCORE},
    "T": {SCORE},
    "P": {ExtensionPoint.PLACEMENT_SCORE},
    "Gen": {ExtensionPoint.PLACEMENT_GENERATE},
    "OtherGen": {ExtensionPoint.PLACEMENT_GENERATE},
    "All": set(ExtensionPoint) - {ExtensionPoint.QUEUE_SORT},
}


def implements(name: str, point: ExtensionPoint) -> bool:
    return point in POINTS.get(name, ())


def refs(*names: str | tuple[str, int]) -> tuple[PluginRef, ...]:
    return tuple(PluginRef(n) if isinstance(n, str) else PluginRef(*n) for n in names)


def enabled(*names: str | tuple[str, int]) -> PluginSet:
    return PluginSet(enabled=refs(*names))


def profile(
    *multi_point: str | tuple[str, int], name: str = "test", **sets: PluginSet
) -> KubeSchedulerProfile:
    plugins = Plugins(multi_point=enabled("Sort", "Bind", *multi_point), **sets)
    return KubeSchedulerProfile(scheduler_name=name, plugins=plugins)


def expand(*multi_point: str | tuple[str, int], **sets: PluginSet) -> EffectivePlugins:
    return effective_plugins(profile(*multi_point, name="test", **sets), implements)


def refusal(given: KubeSchedulerProfile) -> str:
    with pytest.raises(ConfigError) as error:
        effective_plugins(given, implements)
    prefix = f"initializing profiles: creating profile for scheduler name {given.scheduler_name}: "
    assert str(error.value).startswith(prefix)
    return str(error.value).removeprefix(prefix)


def test_multi_point_reaches_every_point_that_a_plugin_has() -> None:
    plugins = expand("FS", "F", "S")
    assert plugins.at(FILTER) == ("FS", "F")
    assert plugins.at(SCORE) == ("FS", "S")


def test_cli_137_multi_point_covers_all_fifteen_points() -> None:
    plugins = expand("All")
    covered = [point for point in ExtensionPoint if "All" in plugins.at(point)]
    assert len(ExtensionPoint) == 15
    assert set(covered) == POINTS["All"]


def test_cli_129_a_plugin_disabled_at_a_point_is_not_brought_back() -> None:
    plugins = expand("FS", "F", filter=PluginSet(disabled=refs("FS")))
    assert plugins.at(FILTER) == ("F",)
    assert plugins.at(SCORE) == ("FS",)


def test_cli_130_a_star_at_a_point_skips_the_expansion_there() -> None:
    chosen = PluginSet(enabled=refs("T"), disabled=refs("*"))
    assert expand("FS", "S", score=chosen).at(SCORE) == ("T",)


def test_cli_130_a_star_hides_even_an_unknown_plugin() -> None:
    every_point = {point.name.lower(): PluginSet(disabled=refs("*")) for point in ExtensionPoint}
    every_point["queue_sort"] = PluginSet(enabled=refs("Sort"), disabled=refs("*"))
    every_point["bind"] = PluginSet(enabled=refs("Bind"), disabled=refs("*"))
    assert expand("F", **every_point).at(FILTER) == ()


def test_cli_134_overrides_run_first_then_multi_point_then_the_points_own() -> None:
    plugins = expand("FS", "S", "All", score=enabled("T", "All", "S"))
    assert plugins.at(SCORE) == ("All", "S", "FS", "T")


def test_cli_123_a_weight_that_is_zero_or_not_given_is_one() -> None:
    assert expand("FS", ("S", 0), ("T", 5)).weights == {"FS": 1, "S": 1, "T": 5}


def test_cli_135_the_weight_at_score_wins_over_that_at_multi_point() -> None:
    plugins = expand(("FS", 3), ("S", 4), score=enabled(("S", 9)))
    assert plugins.weights == {"S": 9, "FS": 3}


def test_cli_135_placement_weights_are_kept_apart() -> None:
    plugins = expand(("All", 3), ("P", 4), placement_score=enabled(("P", 9)))
    assert plugins.placement_weights == {"P": 9, "All": 3}
    assert plugins.weights == {"All": 3}


def test_cli_123_weights_that_could_overflow_are_refused() -> None:
    text = "score plugins: total score of Score plugins could overflow"
    assert refusal(profile(("S", 2**63 // 100 + 1))) == text
    assert refusal(profile(("S", 2**62 // 100), ("T", 2**62 // 100 + 2))) == text


def test_cli_123_placement_weights_that_could_overflow_are_refused() -> None:
    text = "placement score plugins: total score of Score plugins could overflow"
    assert refusal(profile(("P", 2**62))) == text


def test_cli_123_a_plugin_after_a_negative_weight_is_refused_as_upstream_does() -> None:
    text = "score plugins: total score of Score plugins could overflow"
    assert refusal(profile(("S", -1), "T")) == text
    assert expand("S", ("T", -1)).weights == {"S": 1, "T": -1}


def test_cli_112_exactly_one_queue_sort_plugin_is_needed() -> None:
    text = 'only one queue sort plugin required for profile with scheduler name "test", but got'
    assert refusal(profile("OtherSort")) == f"{text} 2"
    none = PluginSet(disabled=refs("*"))
    assert refusal(profile(queue_sort=none)) == f"{text} 0"


def test_cli_113_a_bind_plugin_is_needed() -> None:
    text = 'at least one bind plugin is needed for profile with scheduler name "test"'
    assert refusal(profile(bind=PluginSet(disabled=refs("Bind")))) == text


def test_cli_114_at_most_one_placement_generate_plugin_is_allowed() -> None:
    text = 'at most one placement generate plugin is allowed for profile with scheduler name "test"'
    assert refusal(profile("Gen", "OtherGen")) == text


def test_cli_115_repeated_arguments_are_refused() -> None:
    plugins = profile().plugins
    entries = (PluginConfig("X"), PluginConfig("Y"), PluginConfig("X"))
    given = KubeSchedulerProfile(scheduler_name="test", plugins=plugins, plugin_config=entries)
    assert refusal(given) == "repeated config for plugin X"


def test_cli_120_an_unknown_plugin_does_not_exist() -> None:
    assert refusal(profile(pre_score=enabled("X"))) == 'PreScorePlugin "X" does not exist'
    assert refusal(profile("X")) == 'PreFilterPlugin "X" does not exist'


def test_cli_121_a_plugin_listed_at_a_point_must_have_it() -> None:
    assert refusal(profile(score=enabled("F"))) == 'plugin "F" does not extend ScorePlugin plugin'


def test_cli_122_a_plugin_may_be_listed_once_at_a_point() -> None:
    text = 'plugin "S" already registered as "ScorePlugin"'
    assert refusal(profile(score=enabled("S", "S"))) == text


def test_cli_136_a_plugin_may_be_listed_once_at_multi_point() -> None:
    assert refusal(profile("F", "F")) == 'plugin "F" already registered as "FilterPlugin"'


def test_without_multi_point_only_the_points_count() -> None:
    plugins = Plugins(queue_sort=enabled("Sort"), bind=enabled("Bind"), score=enabled("T", "S"))
    given = KubeSchedulerProfile(scheduler_name="test", plugins=plugins)
    assert effective_plugins(given, implements).at(SCORE) == ("T", "S")


def test_cli_112_profiles_must_sort_the_queue_alike() -> None:
    other = Plugins(multi_point=enabled("OtherSort", "Bind"))
    profiles = (profile(name="a"), KubeSchedulerProfile(scheduler_name="b", plugins=other))
    with pytest.raises(ConfigError) as error:
        effective_profiles(KubeSchedulerConfiguration(profiles=profiles), implements)
    assert str(error.value) == (
        "initializing profiles: different queue sort plugins for profile "
        '"b": "OtherSort", first: "Sort"'
    )


def test_cli_112_profiles_must_give_the_queue_sort_plugin_the_same_arguments() -> None:
    plugins = profile().plugins
    args = (PluginConfig("Sort", {"x": 1}),)
    profiles = (
        profile(name="a"),
        KubeSchedulerProfile(scheduler_name="b", plugins=plugins, plugin_config=args),
    )
    with pytest.raises(ConfigError) as error:
        effective_profiles(KubeSchedulerConfiguration(profiles=profiles), implements)
    text = 'initializing profiles: different queue sort plugin args for profile "b"'
    assert str(error.value) == text


def test_profiles_are_expanded_by_name() -> None:
    config = KubeSchedulerConfiguration(profiles=(profile("S", name="a"), profile("T", name="b")))
    result = effective_profiles(config, implements)
    assert {name: plugins.at(SCORE) for name, plugins in result.items()} == {
        "a": ("S",),
        "b": ("T",),
    }
