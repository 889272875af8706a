"""Rankings by the pods' keys: found again, patched, and given up when there are too many.

Owns which rankings are kept and for how long; what a ranking is, `framework.rankings` says.
"""

from collections import OrderedDict
from collections.abc import Hashable

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.profile import Profile
from moorage.framework.rankings import Ranking, Roles
from moorage.framework.twins import are_twins
from moorage.model.pod import Pod

_LIMIT_BYTES = 64 * 1024 * 1024


class Rankings:
    """Rankings of all profiles by key, the most recently used ones."""

    def __init__(
        self, state: ClusterState, limit_bytes: int = _LIMIT_BYTES, *, batches: bool = True
    ) -> None:
        self._state = state
        self._batches = batches
        self._last: tuple[Pod, Roles, Hashable | None] | None = None
        """The latest pod and its key, for a twin that follows it."""
        self._limit = limit_bytes
        self._bytes = 0
        self._roles: dict[int, Roles] = {}
        self._kept: OrderedDict[Hashable, Ranking] = OrderedDict()
        self._charged: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything, because other plugins will be asked."""
        self._roles.clear()
        self._kept.clear()
        self._charged.clear()
        self._bytes = 0
        self._last = None

    def find(self, profile: Profile, pod: Pod, nodes: NodeView) -> Ranking | None:
        """The ranking for a pod, up to date; None if there can be none."""
        roles = self._roles.get(id(profile))
        if roles is None:
            roles = self._roles[id(profile)] = Roles(profile)
        part = self._key(roles, pod)
        if part is None:
            return None
        key = (id(profile), part)
        ranking = self._kept.get(key)
        if ranking is None:
            ranking = self._kept[key] = Ranking(self._state, roles, pod, nodes)
            self._charge(key, ranking.bytes)
        else:
            self._kept.move_to_end(key)
        if not ranking.usable:
            return None
        ranking.refresh(nodes)
        self._charge(key, ranking.bytes)
        return ranking if ranking.usable else None

    def _key(self, roles: Roles, pod: Pod) -> Hashable | None:
        """The pod's key; of a batch of twins only the first one's is worked out."""
        last = self._last
        if last is not None and last[1] is roles and are_twins(pod, last[0]):
            return last[2]
        key = roles.key(pod)
        if self._batches:
            self._last = (pod, roles, key)
        return key

    def _charge(self, key: Hashable, size: int) -> None:
        known = self._charged.get(key, 0)
        if known == size:
            return
        self._charged[key] = size
        self._bytes += size - known
        while self._bytes > self._limit and len(self._kept) > 1:
            dropped, _ = self._kept.popitem(last=False)
            self._bytes -= self._charged.pop(dropped, 0)
