"""One test per rule for laying a user's plugin set over the default one."""

from moorage.config.plugins import merge_plugin_set, merge_plugins
from moorage.config.types import ExtensionPoint, PluginRef, Plugins, PluginSet

A1, B2, C3 = PluginRef("A", 1), PluginRef("B", 2), PluginRef("C", 3)
DEFAULTS = PluginSet(enabled=(A1, B2, C3))


def merged(enabled: tuple[PluginRef, ...] = (), disabled: tuple[str, ...] = ()) -> PluginSet:
    refs = tuple(PluginRef(name) for name in disabled)
    return merge_plugin_set(DEFAULTS, PluginSet(enabled=enabled, disabled=refs))


def test_cli_127_a_default_plugin_enabled_again_keeps_its_place_and_takes_the_users_weight() -> (
    None
):
    assert merged((PluginRef("B", 9),)).enabled == (A1, PluginRef("B", 9), C3)


def test_cli_128_new_plugins_come_after_the_defaults_in_the_given_order() -> None:
    z, y = PluginRef("Z"), PluginRef("Y", 4)
    assert merged((z, y)).enabled == (A1, B2, C3, z, y)


def test_cli_129_a_disabled_default_is_removed_and_remembered() -> None:
    result = merged(disabled=("B", "Unknown"))
    assert result.enabled == (A1, C3)
    assert result.disabled == (PluginRef("B"), PluginRef("Unknown"))


def test_cli_129_what_the_defaults_disable_is_remembered_after_what_the_user_disables() -> None:
    defaults = PluginSet(enabled=(A1, B2), disabled=(PluginRef("B"),))
    result = merge_plugin_set(defaults, PluginSet(disabled=(PluginRef("X", 5),)))
    assert result == PluginSet(enabled=(A1,), disabled=(PluginRef("X"), PluginRef("B")))


def test_cli_130_a_star_removes_all_defaults_and_is_remembered() -> None:
    result = merged((C3,), disabled=("*",))
    assert result == PluginSet(enabled=(C3,), disabled=(PluginRef("*"),))


def test_cli_131_a_star_at_multi_point_drops_the_default_plugins() -> None:
    default = Plugins(multi_point=DEFAULTS)
    custom = Plugins(multi_point=PluginSet(enabled=(C3, A1), disabled=(PluginRef("*"),)))
    assert merge_plugins(default, custom).multi_point.enabled == (C3, A1)


def test_cli_132_enabled_wins_over_disabled_but_loses_the_place_among_the_defaults() -> None:
    assert merged((A1,), disabled=("A",)).enabled == (B2, C3, A1)


def test_cli_133_each_extension_point_is_merged_on_its_own() -> None:
    default = Plugins(multi_point=DEFAULTS)
    custom = Plugins(score=PluginSet(enabled=(PluginRef("B", 7),)))
    result = merge_plugins(default, custom)
    assert result.multi_point == DEFAULTS
    assert result.at(ExtensionPoint.SCORE).enabled == (PluginRef("B", 7),)


def test_cli_139_nothing_is_expanded_by_merging() -> None:
    result = merge_plugins(Plugins(multi_point=DEFAULTS), Plugins())
    assert all(result.at(point) == PluginSet() for point in ExtensionPoint)


def test_a_plugin_enabled_twice_replaces_the_default_with_its_last_mention() -> None:
    first, last = PluginRef("B", 8), PluginRef("B", 9)
    assert merged((first, last)).enabled == (A1, last, C3, first)
