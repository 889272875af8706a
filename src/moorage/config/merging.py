"""A user's plugin sets over the default ones.

Owns the rules by which the two become one `Plugins`, still unexpanded: that is the form in which a
profile is shown and written. Must not know where a plugin runs (`expansion`).
"""

from moorage.config.types import ExtensionPoint, PluginRef, Plugins, PluginSet

EVERYTHING = "*"
"""The name that disables all default plugins of a set."""


def merge_plugins(default: Plugins, custom: Plugins) -> Plugins:
    """Merge set by set, MultiPoint among them."""
    merged = {
        point.name.lower(): merge_plugin_set(default.at(point), custom.at(point))
        for point in ExtensionPoint
    }
    return Plugins(multi_point=merge_plugin_set(default.multi_point, custom.multi_point), **merged)


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Take out of the defaults what the user disables, then put in what the user enables.

    A plugin that is still among the defaults keeps its place there and takes the user's weight; any
    other comes after them. What is disabled is kept, so that MultiPoint does not bring it back.
    """
    disabled = tuple(PluginRef(ref.name) for ref in (*custom.disabled, *default.disabled))
    removed = {ref.name for ref in disabled}
    # A plugin enabled twice replaces a default with its last mention; the others are appended and
    # refused later, when the profile is built.
    last_mention = {ref.name: index for index, ref in enumerate(custom.enabled)}
    enabled: list[PluginRef] = []
    replaced: set[int] = set()
    if EVERYTHING not in removed:
        for ref in default.enabled:
            if ref.name in removed:
                continue
            index = last_mention.get(ref.name)
            if index is not None:
                replaced.add(index)
            enabled.append(ref if index is None else custom.enabled[index])
    enabled += [ref for index, ref in enumerate(custom.enabled) if index not in replaced]
    return PluginSet(enabled=tuple(enabled), disabled=disabled)
