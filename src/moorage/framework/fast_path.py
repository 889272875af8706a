"""The fast path: what plugins said to pods that are alike, as far as each of them looks.

A plugin may look at nothing but the row it answers for (`row_local`), what it `reads` there, and
what its `pod_key` names of the pod. Then it says the same to all pods with equal keys, but for rows
that changed since, and placing a pod changes one row. So the answers of such plugins are kept for
the few keys seen last, and corrected instead of worked out again. All other plugins are asked about
every pod.

Owns what is kept; `framework.runner` asks the plugins either way, and returns the same result.
tests/properties/test_fast_path.py compares both.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.stamps import Aspect, bits_of
from moorage.cluster.view import NodeView
from moorage.errors import PluginError
from moorage.framework.guard import (
    FAULTS,
    ask_filter,
    ask_pre_filter,
    ask_pre_score,
    raw_scores,
    surprise,
    wrong_answer,
)
from moorage.framework.plugin import Plugin, PreFilterResult, SingleRowMixin
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Verdicts
from moorage.model.pod import Pod

MOST_KEYS = 16
"""For so many different pods a plugin's answers are kept."""
# Past so many changes one pass over all rows is cheaper than asking about each.
_MOST_CHANGES = 24


def is_cacheable(plugin: Plugin) -> bool:
    """May a plugin's answers be kept, for pods of which it names the key?"""
    overridden = type(plugin).pod_key is not Plugin.pod_key
    return overridden and plugin.row_local and bool(plugin.reads)


class KeptAnswers:
    """What a plugin says to pods with one key about every node, as of one generation."""

    def __init__(self, profile: Profile, plugin: Any, pod: Pod, nodes: NodeView) -> None:
        """Ask about all nodes; PluginError if the plugin fails or does not look at all of them."""
        self._plugin, self._pod = plugin, pod
        self._aspects = (Aspect.MEMBERSHIP, *plugin.reads)
        self._as_of = nodes.stamps.generation
        self._state: Any = None
        self.pre_filter: Any = None
        """What PreFilter answered, a result or SKIP."""
        self.pre_score: Any = None
        """What PreScore worked out, or SKIP."""
        self.verdicts: Verdicts | None = None
        self.rejected: Bools = np.zeros(0, np.bool_)
        """The rows that the verdicts are against."""
        self.raw: Ints | None = None
        if plugin in profile.pre_filter:
            self.pre_filter = answer = ask_pre_filter(plugin, pod, nodes)
            if isinstance(answer, PreFilterResult) and answer.node_names is None:
                self._state = answer.state
            elif answer is not SKIP:
                raise PluginError(plugin.name, "PreFilter", "not all nodes are looked at")
        if plugin in profile.filter and self.pre_filter is not SKIP:
            self.verdicts = ask_filter(plugin, pod, nodes, self._state)
            self.rejected = self.verdicts.rejected
        if plugin in profile.pre_score:
            self.pre_score = ask_pre_score(plugin, pod, nodes)
        if plugin in profile.score and self.pre_score is not SKIP:
            self.raw = raw_scores(plugin, pod, nodes, self.pre_score).copy()

    def refresh(self, nodes: NodeView) -> bool:
        """Ask again about rows that changed; False if these are too many."""
        stamps, as_of = nodes.stamps, self._as_of
        if stamps.unchanged(self._aspects, as_of):
            return True
        changes = stamps.log_since(as_of)
        if as_of < stamps.latest(Aspect.MEMBERSHIP) or changes is None:
            return False
        if len(changes) > _MOST_CHANGES:
            return False
        aspects = bits_of(self._aspects)
        for row in {row for row, bits in changes if bits & aspects}:
            self._refresh_row(nodes, row)
        self._as_of = stamps.generation
        return True

    def _refresh_row(self, nodes: NodeView, row: int) -> None:
        plugin, pod, phase = self._plugin, self._pod, "Filter"
        one, by_itself = np.array([row]), isinstance(plugin, SingleRowMixin)
        try:
            if self.verdicts is not None:
                if by_itself and not plugin.rejects_row(pod, nodes, row, self._state):
                    self.verdicts.bits[row] = 0
                else:
                    answer = ask_filter(plugin, pod, nodes.take(one), self._state)
                    self.verdicts.splice(one, answer)
                self.rejected[row] = self.verdicts.bits[row] != 0
            phase = "Score"
            if self.raw is not None and by_itself:
                self.raw[row] = plugin.score_row(pod, nodes, row, self.pre_score)
            elif self.raw is not None:
                self.raw[one] = raw_scores(plugin, pod, nodes.take(one), self.pre_score)
        except FAULTS as error:
            raise surprise(plugin, phase, error) from error


_Kept = KeptAnswers | Literal[False]
"""False: a pod with the key was seen. Only if there are more, answers are worth keeping."""

_Cache = OrderedDict[Hashable, _Kept]
"""One plugin's answers by key, those used last at the end."""


class FastPath:
    """The answers that are kept, of all profiles."""

    def __init__(self) -> None:
        self._caches: WeakKeyDictionary[Profile, dict[Plugin, _Cache]] = WeakKeyDictionary()

    def clear(self) -> None:
        """Forget everything, because other plugins will be asked."""
        self._caches.clear()

    def find(self, profile: Profile, pod: Pod, nodes: NodeView) -> Mapping[str, KeptAnswers]:
        """Answers for a pod, up to date, by plugin; those that are not there are to be asked."""
        caches = self._caches.get(profile)
        if caches is None:
            points = (profile.pre_filter, profile.filter, profile.pre_score, profile.score)
            plugins = dict.fromkeys(plugin for point in points for plugin in point)
            caches = {plugin: OrderedDict() for plugin in plugins if is_cacheable(plugin)}
            self._caches[profile] = caches
        found = {}
        for plugin, cache in caches.items():
            key = _key(plugin, pod)
            if key is None:
                continue
            kept = cache.get(key)
            if kept is None:
                cache[key] = False
                if len(cache) > MOST_KEYS:
                    cache.popitem(last=False)
                continue
            cache.move_to_end(key)
            if not (kept and kept.refresh(nodes)):
                cache[key] = kept = _ask(profile, plugin, pod, nodes)
            if kept:
                found[plugin.name] = kept
        return found


def _ask(profile: Profile, plugin: Plugin, pod: Pod, nodes: NodeView) -> _Kept:
    try:
        return KeptAnswers(profile, plugin, pod, nodes)
    except PluginError:
        return False  # whoever asks afresh meets it, if it concerns the pod


def _key(plugin: Plugin, pod: Pod) -> Hashable | None:
    key: Hashable | None = None
    try:
        key = plugin.pod_key(pod)
        hash(key)
    except FAULTS as error:
        if key is None:
            raise surprise(plugin, "PodKey", error) from error
        expected = "something hashable or None"
        raise wrong_answer(plugin, "PodKey", key, expected) from error
    return key
