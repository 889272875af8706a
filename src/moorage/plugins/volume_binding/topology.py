"""From which nodes a volume can be reached."""

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.listers import Listers
from moorage.cluster.view import NodeView
from moorage.model.csi_migration import required_nodes_at_driver, translated
from moorage.model.labels import Labels, Requirement
from moorage.model.node_selector import CompiledNodeSelector, NodeTerm
from moorage.model.storage import CSINode, PersistentVolume


class VolumeTopology:
    """Answers for the nodes of one view; equal demands are worked out once."""

    def __init__(self, nodes: NodeView, listers: Listers) -> None:
        self._nodes = nodes
        self._csi_nodes = listers.of(CSINode)
        self._everywhere: Rows = np.arange(len(nodes))
        self._places: dict[CompiledNodeSelector, Rows] = {}
        self._by_label: dict[str, tuple[Rows, Ints]] = {}

    def places(self, required: CompiledNodeSelector | None) -> Rows:
        """The places in the view whose nodes meet a volume's demand, in ascending order."""
        if required is None:
            return self._everywhere
        only = _single_label(required)
        if only is not None:
            return self._with_label(only.key, only.values[0])
        places = self._places.get(required)
        if places is None:
            places = self._places[required] = self._find(required)
        return places

    def mask(self, required: CompiledNodeSelector | None) -> Bools:
        """The same as one truth value per place."""
        found = np.zeros(len(self._nodes), np.bool_)
        found[self.places(required)] = True
        return found

    def migrated(self, plugin: str) -> Bools:
        """The nodes on which a driver serves an in-tree plugin's volumes."""
        lister = self._csi_nodes
        return np.array(
            [
                (csi_node := lister.get(name)) is not None and plugin in csi_node.migrated_plugins
                for name in self._nodes.names()
            ],
            np.bool_,
        )

    def _find(self, required: CompiledNodeSelector) -> Rows:
        # Volumes are matched with a nameless node, so demands on fields are left out.
        terms = tuple(NodeTerm(term.labels, (), term.error) for term in required.terms)
        return np.flatnonzero(self._nodes.matching(CompiledNodeSelector(terms)))

    def _with_label(self, key: str, value: str) -> Rows:
        """Local volumes ask for one host name each: sort the column once, then cut pieces."""
        column = self._nodes.label(key)
        code = column.vocabulary.find(value)
        if code is None:
            return self._everywhere[:0]
        pieces = self._by_label.get(key)
        if pieces is None:
            order = np.argsort(column.codes, kind="stable")
            numbers = np.arange(len(column.vocabulary) + 1)
            pieces = order, np.searchsorted(column.codes[order], numbers).astype(np.int64)
            self._by_label[key] = pieces
        order, starts = pieces
        return order[starts[code] : starts[code + 1]]


def _single_label(required: CompiledNodeSelector) -> Requirement | None:
    if len(required.terms) != 1:
        return None
    (term,) = required.terms
    if term.error or len(term.labels) != 1:
        return None
    (only,) = term.labels
    return only if only.operator == "In" and len(only.values) == 1 else None


def reachable(volume: PersistentVolume, labels: Labels, csi_node: CSINode | None) -> bool:
    """Can a volume be reached from one node? Raises `TranslationError`, on migrated nodes only."""
    plugin = translated(volume.spec)
    if plugin is None or csi_node is None or plugin.name not in csi_node.migrated_plugins:
        return volume.reachable_from(labels)
    required = required_nodes_at_driver(volume, plugin)
    return required is None or required.matches(labels, "")
