"""Who has which part in a ranking: kept in advance, asked for every pod, or nothing to say.

Owns the choice, by what plugins promise, and the keys of pods that follow from it. What becomes of
the parts, `framework.rankings` says.
"""

from collections.abc import Hashable, Sequence

from moorage.framework.plugin import Plugin, PreFilterPlugin, PreScorePlugin
from moorage.framework.profile import Profile
from moorage.model.pod import Pod

IDLE = object()
"""The role of a plugin that has nothing to say about a pod."""
LIVE = object()
"""The role of a plugin that is asked for every pod."""


class Roles:
    """Who does what in a profile, worked out once."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        plugins = (*profile.pre_filter, *profile.filter, *profile.pre_score, *profile.score)
        self._live = frozenset(p for p in plugins if not _may_be_kept(p))
        distinct = tuple(dict.fromkeys(plugins))
        self._keyed = tuple(plugin for plugin in distinct if plugin not in self._live)
        self._maybe_idle = frozenset(
            plugin
            for plugin in distinct
            if type(plugin).idle_for is not Plugin.idle_for and not _lacks_a_part(plugin, profile)
        )
        self.keyed_by_spec = all(map(_keyed_by_spec, (*self._keyed, *self._maybe_idle)))
        """Do keys follow from pods' spec and status alone?"""

    def key(self, pod: Pod) -> Hashable | None:
        """Pods with equal keys share a ranking; None if a plugin can say nothing in advance."""
        parts: list[Hashable] = [plugin.idle_for(pod) for plugin in self._maybe_idle]
        for plugin in self._keyed:
            part = plugin.pod_key(pod)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    def role(self, plugin: Plugin, pod: Pod) -> object:
        """`IDLE`, `LIVE`, or None for a plugin whose part is kept."""
        if plugin in self._maybe_idle and plugin.idle_for(pod):
            return IDLE
        return LIVE if plugin in self._live else None


def _lacks_a_part(plugin: Plugin, profile: Profile) -> bool:
    """Is a point disabled at which the plugin would say that it has nothing to do?"""
    pairs: tuple[tuple[type[Plugin], Sequence[Plugin], Sequence[Plugin]], ...] = (
        (PreFilterPlugin, profile.pre_filter, profile.filter),
        (PreScorePlugin, profile.pre_score, profile.score),
    )
    return any(
        isinstance(plugin, kind) and plugin in second and plugin not in first
        for kind, first, second in pairs
    )


def _keyed_by_spec(plugin: Plugin) -> bool:
    """Does it promise so? Not a class that inherits the promise and overrides what it is about."""
    family = type(plugin).__mro__

    def depth(name: str) -> int:
        return next(place for place, one in enumerate(family) if name in vars(one))

    overridden = min(depth("pod_key"), depth("idle_for"))
    return plugin.keyed_by_spec and depth("keyed_by_spec") <= overridden


def _may_be_kept(plugin: Plugin) -> bool:
    return plugin.steady and plugin.row_local and bool(plugin.reads) and not plugin.by_node
