"""Rankings by the pods' keys: found again, patched, and given up when there are too many.

Owns which rankings are kept and for how long; what a ranking is, `framework.rankings` says.
"""

from collections import OrderedDict
from collections.abc import Hashable

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.profile import Profile
from moorage.framework.ranking_roles import Roles
from moorage.framework.rankings import Ranking
from moorage.framework.twins import are_twins, ask_for_the_same
from moorage.model.pod import Pod

_LIMIT_BYTES = 64 * 1024 * 1024
MOST_RANKINGS = 512
"""In a small cluster bytes are no bound: a ranking takes less than the pod that it refers to."""


class _Kept:
    """A ranking, and how much memory it is charged with."""

    __slots__ = ("charged", "ranking")

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self.charged = 0


class _Found:
    """What was found for a pod, for others like it that follow."""

    __slots__ = ("derived", "kept", "listed", "pod", "roles")

    def __init__(self, pod: Pod, roles: Roles, listed: int, kept: _Kept | None) -> None:
        self.pod = pod
        self.roles = roles
        self.listed = listed
        """The generation of the other API objects: a plugin may look some up for its key."""
        self.kept = kept
        self.derived = pod.derived()

    def serves(self, pod: Pod) -> bool:
        """Is another pod sure to have the same key? Then it need not be worked out."""
        alike = ask_for_the_same if self.roles.keyed_by_spec else are_twins
        if not alike(pod, self.pod):
            return False
        if pod.namespace == self.pod.namespace:
            pod.take_over(self.derived)
        return True


class Rankings:
    """Rankings of all profiles by key, the most recently used ones."""

    def __init__(
        self, state: ClusterState, limit_bytes: int = _LIMIT_BYTES, *, batches: bool = True
    ) -> None:
        self._state = state
        self._batches = batches
        self._last: _Found | None = None
        self._limit = limit_bytes
        self._bytes = 0
        self._roles: dict[int, Roles] = {}
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything, because other plugins will be asked."""
        self._roles.clear()
        self._kept.clear()
        self._bytes = 0
        self._last = None

    def find(self, profile: Profile, pod: Pod, nodes: NodeView) -> Ranking | None:
        """The ranking for a pod, up to date; None if there can be none."""
        found, listed = self._last, self._state.listers.generation
        if (
            found is None
            or found.roles.profile is not profile
            or found.listed != listed
            or not found.serves(pod)
        ):
            self._last = None  # a plugin may fail
            roles = self._roles.get(id(profile)) or self._new_roles(profile)
            found = _Found(pod, roles, listed, self._look_up(roles, pod, nodes))
            if self._batches:
                self._last = found
        # What was found for the last pod is the most recently used: it was not given up meanwhile.
        kept = found.kept
        if kept is None or not kept.ranking.usable:
            return None
        ranking = kept.ranking
        ranking.refresh(nodes)
        if ranking.bytes != kept.charged:
            self._charge(kept)
        return ranking if ranking.usable else None

    def _new_roles(self, profile: Profile) -> Roles:
        roles = self._roles[id(profile)] = Roles(profile)
        return roles

    def _look_up(self, roles: Roles, pod: Pod, nodes: NodeView) -> _Kept | None:
        part = roles.key(pod)
        if part is None:
            return None
        key = (id(roles.profile), part)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(Ranking(self._state, roles, pod, nodes))
            self._charge(kept)
        else:
            self._kept.move_to_end(key)
        return kept

    def _charge(self, kept: _Kept) -> None:
        size = kept.ranking.bytes
        self._bytes += size - kept.charged
        kept.charged = size
        while (self._bytes > self._limit and len(self._kept) > 1) or (
            len(self._kept) > MOST_RANKINGS
        ):
            self._bytes -= self._kept.popitem(last=False)[1].charged
