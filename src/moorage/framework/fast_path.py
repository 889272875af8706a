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
from typing import Any
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
    checked_range,
    raw_scores,
    surprise,
    wrong_answer,
)
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Skip, Verdicts
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
        self._plugin = plugin
        self._pod = pod
        self._reads = bits_of(plugin.reads)
        self._as_of = nodes.stamps.generation
        self.pre_filter: PreFilterResult[Any] | Skip = (
            _about_all_nodes(plugin, pod, nodes)
            if plugin in profile.pre_filter
            else PreFilterResult(None)
        )
        self.pre_score: Any = None
        """What PreScore worked out, or SKIP."""
        self.verdicts: Verdicts | None = None
        self.rejected: Bools = np.zeros(0, np.bool_)
        """The rows that the verdicts are against."""
        self.raw: Ints | None = None
        self.in_range = False
        """Do the raw scores count as they are, and are all of them in 0..100?"""
        if plugin in profile.pre_score:
            self.pre_score = ask_pre_score(plugin, pod, nodes)
        if plugin in profile.filter and self.pre_filter is not SKIP:
            self.verdicts = ask_filter(plugin, pod, nodes, self._state)
            self.rejected = self.verdicts.rejected
        if plugin in profile.score and self.pre_score is not SKIP:
            self.raw = raw_scores(plugin, pod, nodes, self.pre_score).copy()
            if type(plugin).normalize is ScorePlugin.normalize:
                checked_range(plugin, self.raw)
                self.in_range = True

    @property
    def _state(self) -> Any:
        return None if self.pre_filter is SKIP else self.pre_filter.state

    def refresh(self, nodes: NodeView) -> bool:
        """Ask again about rows that changed; False if that does not do."""
        stamps, as_of = nodes.stamps, self._as_of
        if as_of < stamps.latest(Aspect.MEMBERSHIP):
            return False
        if all(stamps.latest(aspect) <= as_of for aspect in self._plugin.reads):
            return True
        changes = stamps.log_since(as_of)
        if changes is None or len(changes) > _MOST_CHANGES:
            return False
        for row in {row for row, bits in changes if bits & self._reads}:
            if not self._refresh_row(nodes, row):
                return False
        self._as_of = stamps.generation
        return True

    def _refresh_row(self, nodes: NodeView, row: int) -> bool:
        """Ask again about one row; False if a score is not one."""
        plugin, pod, verdicts = self._plugin, self._pod, self.verdicts
        if verdicts is not None:
            if not _may_reject(plugin, pod, nodes, row, self._state):
                verdicts.bits[row] = 0
            else:
                one = np.array([row])
                verdicts.splice(one, ask_filter(plugin, pod, nodes.take(one), self._state))
            self.rejected[row] = verdicts.bits[row] != 0
        if self.raw is not None:
            score = _score(plugin, pod, nodes, row, self.pre_score)
            if self.in_range and not 0 <= score <= MAX_NODE_SCORE:
                return False
            self.raw[row] = score
        return True


def _about_all_nodes(
    plugin: PreFilterPlugin[Any], pod: Pod, nodes: NodeView
) -> PreFilterResult[Any] | Skip:
    answer = ask_pre_filter(plugin, pod, nodes)
    if answer is SKIP or (isinstance(answer, PreFilterResult) and answer.node_names is None):
        return answer
    raise PluginError(plugin.name, "PreFilter", "not all nodes are looked at")


def _may_reject(plugin: FilterPlugin[Any], pod: Pod, nodes: NodeView, row: int, state: Any) -> bool:
    """Does a plugin reject one row, or can that not be told without `filter`?"""
    if not isinstance(plugin, SingleRowMixin):
        return True
    try:
        return plugin.rejects_row(pod, nodes, row, state)
    except FAULTS as error:
        raise surprise(plugin, "Filter", error) from error


def _score(plugin: ScorePlugin[Any], pod: Pod, nodes: NodeView, row: int, state: Any) -> int:
    if not isinstance(plugin, SingleRowMixin):
        return int(raw_scores(plugin, pod, nodes.take(np.array([row])), state)[0])
    try:
        return plugin.score_row(pod, nodes, row, state)
    except FAULTS as error:
        raise surprise(plugin, "Score", error) from error


class _PluginCache:
    """One plugin's answers, by key, those used last at the end."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self._by_key: OrderedDict[Hashable, KeptAnswers | None] = OrderedDict()
        """None: a pod with the key was seen once. Only if another one comes it is worth keeping."""

    def find(self, profile: Profile, pod: Pod, nodes: NodeView) -> KeptAnswers | None:
        plugin = self.plugin
        try:
            key = plugin.pod_key(pod)
            seen = key in self._by_key
        except FAULTS as error:
            raise self._no_key(pod, error) from error
        if key is None:
            return None
        answers = self._by_key.pop(key, None)
        if seen and (answers is None or not answers.refresh(nodes)):
            try:
                answers = KeptAnswers(profile, plugin, pod, nodes)
            except PluginError:
                answers = None  # whoever asks afresh meets the error, if it concerns the pod
        if len(self._by_key) >= MOST_KEYS:
            self._by_key.popitem(last=False)
        self._by_key[key] = answers
        return answers

    def _no_key(self, pod: Pod, error: BaseException) -> PluginError:
        if isinstance(error, TypeError):
            key = self.plugin.pod_key(pod)
            return wrong_answer(self.plugin, "PodKey", key, "something hashable or None")
        return surprise(self.plugin, "PodKey", error)


class FastPath:
    """The answers that are kept, of all profiles."""

    def __init__(self) -> None:
        self._caches: WeakKeyDictionary[Profile, list[_PluginCache]] = WeakKeyDictionary()
        self.taken = 0
        """How often no plugin that allows it had to be asked about all nodes."""

    def clear(self) -> None:
        """Forget everything, because other plugins will be asked."""
        self._caches.clear()

    def find(self, profile: Profile, pod: Pod, nodes: NodeView) -> Mapping[str, KeptAnswers]:
        """Answers for a pod, up to date, by plugin; those that are not there are to be asked."""
        caches = self._caches.get(profile)
        if caches is None:
            points = (profile.pre_filter, profile.filter, profile.pre_score, profile.score)
            plugins = dict.fromkeys(plugin for point in points for plugin in point)
            caches = [_PluginCache(plugin) for plugin in plugins if is_cacheable(plugin)]
            self._caches[profile] = caches
        found = {}
        for cache in caches:
            answers = cache.find(profile, pod, nodes)
            if answers is not None:
                found[cache.plugin.name] = answers
        self.taken += len(found) == len(caches)
        return found
