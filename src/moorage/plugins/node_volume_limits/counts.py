"""How many volumes drivers have attached to the nodes that were asked about, kept in columns.

Counting a node means looking up every claim of every pod there. So a node is counted when it is
first asked about, and again after its pods or attachments changed, or an object that was looked up
for it. Must not know limits or the pod to be placed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import TypeVar

import numpy as np

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.listers import Listers
from moorage.cluster.view import NodeView
from moorage.framework.status import Reason
from moorage.model.pod import Pod
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.plugins.node_volume_limits.driver_volumes import DriverVolumes, GuestVolumes, LookedUp
from moorage.plugins.node_volume_limits.limits import Attachments

K = TypeVar("K")

_LOOKED_UP = (PersistentVolumeClaim, PersistentVolume, StorageClass)
_NOT_COUNTED = -1
_NO_ROWS: Set[int] = frozenset()
_NO_GUESTS: Mapping[str, GuestVolumes] = {}


class NodeVolumes:
    """The volumes of one node with certain pods."""

    __slots__ = ("attached", "guests", "looked_up", "problem", "used")

    def __init__(self) -> None:
        self.guests: dict[str, GuestVolumes] = {}
        """By the pod's uid; only pods that name volumes."""
        self.used: dict[str, str] = {}
        """The pods' volumes -> driver."""
        self.attached: Counter[str] = Counter()
        """By driver, how many volumes pods use or attachments name."""
        self.problem: Reason | None = None
        """Why the first such pod's volumes cannot be counted."""
        self.looked_up: set[LookedUp] = set()


class VolumeCounts:
    """What is attached to rows of the cluster state as it is."""

    def __init__(self, listers: Listers) -> None:
        self.objects = DriverVolumes(listers)
        self.attachments = Attachments(listers)
        self._listers = [(kind, listers.of(kind)) for kind in _LOOKED_UP]
        self._as_of = [0] * len(_LOOKED_UP)
        self._rows: dict[int, NodeVolumes] = {}
        self._stamps: Ints = np.empty(0, np.int64)
        """Per row, the stamp of its volumes when it was counted."""
        self._by_driver: dict[str, Ints] = {}
        self._using: dict[str, set[int]] = {}
        self._looked_up: dict[LookedUp, set[int]] = {}
        self.problems: dict[int, Reason] = {}
        """The counted rows with a pod whose volumes cannot be counted."""

    def refresh(self, nodes: NodeView) -> None:
        """Forget what is no longer so; to be called before anything is asked."""
        self._resize(len(nodes.whole))
        for name in self.attachments.refresh(nodes):
            row = nodes.row_of(name)
            if row is not None:
                self._forget(row)
        for i, (kind, lister) in enumerate(self._listers):
            if self._as_of[i] == lister.generation:
                continue
            changes = lister.changes_since(self._as_of[i])
            self._as_of[i] = lister.generation
            if changes is None:
                for row in list(self._rows):
                    self._forget(row)
                continue
            for namespace, name in changes:
                for row in tuple(self._looked_up.get((kind, namespace, name), ())):
                    self._forget(row)

    def count(self, nodes: NodeView, places: Rows, stamps: Ints) -> None:
        """Count what is not known of some places of a view, which are as the state has them.

        `stamps` are those of the places' volumes.
        """
        rows = nodes.rows[places]
        for i in np.flatnonzero(self._stamps[rows] != stamps):
            row, place = int(rows[i]), int(places[i])
            found = self.with_pods(row, nodes.node(place).name, nodes.pods_on(place))
            self._forget(row)
            self._keep(row, found)
            self._stamps[row] = stamps[i]

    def with_pods(self, row: int, node_name: str, pods: Iterable[Pod]) -> NodeVolumes:
        """What a node would have with certain pods; those that it has are not looked up again."""
        known = self._rows.get(row)
        guests = _NO_GUESTS if known is None else known.guests
        found = NodeVolumes()
        for pod in pods:
            if not pod.spec.volumes:
                continue
            guest = guests.get(pod.uid)
            if guest is None:
                guest = self.objects.of_guest(pod)
            found.guests[pod.uid] = guest
            found.used.update(guest.volumes)
            found.looked_up.update(guest.looked_up)
            if found.problem is None:
                found.problem = guest.problem
        found.attached.update(found.used.values())
        extra: dict[str, str] = {}
        for attachment in self.attachments.on(node_name):
            name = attachment.spec.source.persistent_volume_name
            if name is not None:
                found.looked_up.add((PersistentVolume, "", name))
            located = self.objects.of_attachment(attachment)
            if located is not None and located[0] not in found.used:
                extra[located[0]] = located[1]
        found.attached.update(extra.values())
        return found

    def of(self, driver: str) -> Ints:
        """How many volumes of a driver each row has; right for rows that were counted."""
        column = self._by_driver.get(driver)
        if column is None:
            column = self._by_driver[driver] = np.zeros(len(self._stamps), np.int64)
        return column

    def using(self, volume: str) -> Set[int]:
        """The counted rows with a pod that uses a volume."""
        return self._using.get(volume, _NO_ROWS)

    def _keep(self, row: int, found: NodeVolumes) -> None:
        self._rows[row] = found
        for driver, count in found.attached.items():
            self.of(driver)[row] = count
        for volume in found.used:
            self._using.setdefault(volume, set()).add(row)
        for key in found.looked_up:
            self._looked_up.setdefault(key, set()).add(row)
        if found.problem is not None:
            self.problems[row] = found.problem

    def _forget(self, row: int) -> None:
        known = self._rows.pop(row, None)
        if known is None:
            return
        self._stamps[row] = _NOT_COUNTED
        for driver in known.attached:
            self._by_driver[driver][row] = 0
        for volume in known.used:
            _discard(self._using, volume, row)
        for key in known.looked_up:
            _discard(self._looked_up, key, row)
        self.problems.pop(row, None)

    def _resize(self, size: int) -> None:
        """Follow the number of rows; a row that became another node's is told by its stamp."""
        before = len(self._stamps)
        if size == before:
            return
        for row in range(size, before):
            self._forget(row)
        self._stamps = _resized(self._stamps, size, _NOT_COUNTED)
        for driver, column in self._by_driver.items():
            self._by_driver[driver] = _resized(column, size, 0)


def _discard(index: dict[K, set[int]], key: K, row: int) -> None:
    rows = index[key]
    rows.discard(row)
    if not rows:
        del index[key]


def _resized(column: Ints, size: int, fill: int) -> Ints:
    resized: Ints = np.full(size, fill, np.int64)
    kept = min(size, len(column))
    resized[:kept] = column[:kept]
    return resized
