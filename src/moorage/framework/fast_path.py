"""The fast path: answers kept for pods that come one after the other and are of the same kind.

A plugin may look at nothing but the row it answers for (`row_local`), what it `reads` there, and
what its `pod_key` names of the pod. Then it says the same to all pods of a kind, but for rows that
changed since, and placing a pod changes one row. So the answers of such plugins are kept for the
few kinds of pods seen last, and corrected instead of worked out again. All other plugins are asked
about every pod.

Owns what is kept; `framework.runner` asks the plugins either way, and returns the same result.
tests/properties/test_fast_path.py compares both.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
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
    ask_score,
    checked_range,
    surprise,
    wrong_answer,
)
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP, Verdicts
from moorage.model.pod import Pod
from moorage.model.pod_requests import PodRequests

MOST_KINDS = 4
# Past so many changes one pass over all rows is cheaper than asking about each.
_MOST_CHANGES = 24


def is_cacheable(plugin: Plugin) -> bool:
    """May a plugin's answers be kept, for pods of which it names the key?"""
    overridden = type(plugin).pod_key is not Plugin.pod_key
    return overridden and plugin.row_local and bool(plugin.reads)


class _Roles:
    """The plugins of a profile: those whose answers may be kept, and the others."""

    def __init__(self, profile: Profile) -> None:
        plugins = (*profile.pre_filter, *profile.filter, *profile.pre_score, *profile.score)
        self.cacheable = tuple(p for p in dict.fromkeys(plugins) if is_cacheable(p))

    def key(self, pod: Pod) -> Hashable | None:
        """The kind of a pod; None if a plugin will not have answers kept."""
        parts = []
        for plugin in self.cacheable:
            try:
                part = plugin.pod_key(pod)
            except FAULTS as error:
                raise surprise(plugin, "PodKey", error) from error
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    def unhashable(self, pod: Pod) -> PluginError:
        """The error of the plugin whose key is no key."""
        for plugin in self.cacheable:
            key = plugin.pod_key(pod)
            try:
                hash(key)
            except TypeError:
                return wrong_answer(plugin, "PodKey", key, "something hashable or None")
        raise AssertionError("one of the keys was found not to be hashable")


class KindAnswers:
    """What cacheable plugins say to one kind of pod about every node, as of one generation."""

    def __init__(self, profile: Profile, roles: _Roles, pod: Pod, nodes: NodeView) -> None:
        """Ask about all nodes; PluginError if a plugin fails or does not look at all of them."""
        keep = frozenset(roles.cacheable)
        self._pod = pod
        self.as_of = nodes.stamps.generation
        self.states: dict[str, Any] = {}
        self.skipped: set[str] = set()
        self.pre_filters = tuple(p for p in profile.pre_filter if p not in keep)
        """The PreFilter plugins that are to be asked about every pod."""
        self.score_states: dict[str, Any] = {}
        self.score_skipped: set[str] = set()
        self.pre_scorers = tuple(p for p in profile.pre_score if p not in keep)
        """The PreScore plugins that are to be asked about every pod."""
        for plugin in profile.pre_filter:
            if plugin in keep:
                self._prepare(plugin, pod, nodes)
        for scorer in profile.pre_score:
            if scorer in keep:
                self._prepare_score(scorer, pod, nodes)
        self._filters: list[tuple[FilterPlugin[Any], int, Verdicts]] = []
        self.rejected: Bools = np.zeros(len(nodes), np.bool_)
        for one in profile.filter:
            if one in keep and one.name not in self.skipped:
                verdicts = ask_filter(one, pod, nodes, self.states.get(one.name))
                self._filters.append((one, bits_of(one.reads), verdicts))
                self.rejected |= verdicts.rejected
        self.verdicts = {plugin.name: verdicts for plugin, _, verdicts in self._filters}
        self._scorers: list[tuple[ScorePlugin[Any], int, Ints]] = []
        for other in profile.score:
            if other in keep and other.name not in self.score_skipped:
                raw = ask_score(other, pod, nodes, self.score_states.get(other.name)).copy()
                self._scorers.append((other, bits_of(other.reads), raw))
        self.raw = {plugin.name: raw for plugin, _, raw in self._scorers}
        as_they_are = [
            (plugin, raw)
            for plugin, _, raw in self._scorers
            if type(plugin).normalize is ScorePlugin.normalize
        ]
        self._summed = [
            (checked_range(plugin, raw), profile.weights[plugin.name])
            for plugin, raw in as_they_are
        ]
        self.in_totals = frozenset(plugin.name for plugin, _ in as_they_are)
        """The scorers whose raw scores count as they are ..."""
        self.totals: Ints = np.zeros(len(nodes), np.int64)
        """... and what they give each node together."""
        for raw, weight in self._summed:
            self.totals += raw * weight

    def _prepare(self, plugin: PreFilterPlugin[Any], pod: Pod, nodes: NodeView) -> None:
        answer = ask_pre_filter(plugin, pod, nodes)
        if answer is SKIP:
            self.skipped.add(plugin.name)
        elif isinstance(answer, PreFilterResult) and answer.node_names is None:
            self.states[plugin.name] = answer.state
        else:
            raise PluginError(plugin.name, "PreFilter", "not all nodes are looked at")

    def _prepare_score(self, plugin: PreScorePlugin[Any], pod: Pod, nodes: NodeView) -> None:
        answer = ask_pre_score(plugin, pod, nodes)
        if answer is SKIP:
            self.score_skipped.add(plugin.name)
        else:
            self.score_states[plugin.name] = answer

    def refresh(self, nodes: NodeView) -> bool:
        """Ask again about rows that changed; False if that does not do."""
        stamps = nodes.stamps
        if self.as_of == stamps.generation:
            return True
        if self.as_of < stamps.latest(Aspect.MEMBERSHIP):
            return False
        changes = stamps.log_since(self.as_of)
        if changes is None or len(changes) > _MOST_CHANGES:
            return False
        if not all(self._refresh_row(nodes, row, bits) for row, bits in changes):
            return False
        self.as_of = stamps.generation
        return True

    def _refresh_row(self, nodes: NodeView, row: int, bits: int) -> bool:
        """Ask again about one row; False if a score is not one."""
        pod, one = self._pod, np.array([row])
        rejected = False
        for plugin, reads, verdicts in self._filters:
            if reads & bits:
                state = self.states.get(plugin.name)
                if not _may_reject(plugin, pod, nodes, row, state):
                    verdicts.bits[row] = 0
                else:
                    verdicts.splice(one, ask_filter(plugin, pod, nodes.take(one), state))
            rejected = rejected or bool(verdicts.bits[row])
        self.rejected[row] = rejected
        for scorer, reads, raw in self._scorers:
            if reads & bits:
                state = self.score_states.get(scorer.name)
                raw[row] = score = _score(scorer, pod, nodes, row, state)
                if scorer.name in self.in_totals and not 0 <= score <= MAX_NODE_SCORE:
                    return False
        self.totals[row] = sum(int(raw[row]) * weight for raw, weight in self._summed)
        return True


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
        return int(ask_score(plugin, pod, nodes.take(np.array([row])), state)[0])
    try:
        return plugin.score_row(pod, nodes, row, state)
    except FAULTS as error:
        raise surprise(plugin, "Score", error) from error


class FastPath:
    """The answers kept for the kinds of pods seen last."""

    def __init__(self) -> None:
        self._roles: WeakKeyDictionary[Profile, _Roles] = WeakKeyDictionary()
        self._recent: deque[PodRequests] = deque(maxlen=MOST_KINDS)
        """What the latest pods asked for. A pod that asks for something else is of another kind, so
        nothing else of it needs to be compared."""
        self._kinds: OrderedDict[Hashable, KindAnswers] = OrderedDict()
        self.taken = 0
        """How often answers could be used."""

    def clear(self) -> None:
        """Forget everything, because other plugins will be asked."""
        self._roles.clear()
        self._recent.clear()
        self._kinds.clear()

    def find(self, profile: Profile, pod: Pod, nodes: NodeView) -> KindAnswers | None:
        """The answers for a pod, up to date; None if all plugins are to be asked."""
        if pod.requests not in self._recent:
            self._recent.append(pod.requests)
            return None
        roles = self._roles.get(profile)
        if roles is None:
            roles = self._roles[profile] = _Roles(profile)
        kind = roles.key(pod)
        if kind is None:
            return None
        key = (roles, kind)
        try:
            known = self._kinds.pop(key, None)
        except TypeError:
            raise roles.unhashable(pod) from None
        if known is not None and known.refresh(nodes):
            self.taken += 1
        else:
            known = self._ask_all(profile, roles, pod, nodes)
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.popitem(last=False)
        if known is not None:
            self._kinds[key] = known
        return known

    @staticmethod
    def _ask_all(profile: Profile, roles: _Roles, pod: Pod, nodes: NodeView) -> KindAnswers | None:
        try:
            return KindAnswers(profile, roles, pod, nodes)
        except PluginError:
            return None  # an attempt that asks everybody meets the error, if it concerns the pod
