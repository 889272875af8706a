"""All nodes of a live cluster in lines: columns in, a page out.

Owns the page only. It must stay cheap at thousands of nodes: arithmetic is done on whole columns,
and what is left per node is making its line.
"""

from itertools import islice

import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.state import ClusterState
from moorage.explain.listing import NodeLine, NodePage
from moorage.explain.nodes import taint_text
from moorage.model.node import BETA_ZONE_LABEL, ZONE_LABEL
from moorage.model.resources import CPU, MEMORY, PODS

_FIRST = (CPU, MEMORY)
_DIGITS = 4


def node_page(state: ClusterState, limit: int, after: str = "") -> tuple[NodePage, str]:
    """The nodes whose names come after one; with the last name if there are more."""
    table = state.nodes
    names = sorted(name for name in table.row_of if name > after)
    shown = list(islice(names, limit))
    rows = np.fromiter((table.row_of[name] for name in shown), np.intp, len(shown))
    taints = [[taint_text(taint) for taint in value] for value in table.taints.vocabulary.values]
    resources, utilisation = _utilisation(state, rows)
    most = table.allocatable.values(PODS)[rows].tolist()
    nodes = table.nodes
    items = [
        NodeLine(name, _zone(nodes[row].labels), taints[code], cordoned, pods, limit_, used)
        for name, row, code, cordoned, pods, limit_, used in zip(
            shown,
            rows.tolist(),
            table.taints.codes[rows].tolist(),
            table.unschedulable.values[rows].tolist(),
            table.pod_count.values[rows].tolist(),
            most,
            utilisation,
            strict=True,
        )
    ]
    page = NodePage(resources, items, len(state))
    return page, shown[-1] if len(names) > len(shown) else ""


def _utilisation(state: ClusterState, rows: Rows) -> tuple[tuple[str, ...], list[dict[str, float]]]:
    """The resources there are, and per row how much of each is taken."""
    table = state.nodes
    offered = {
        name: amounts
        for name, amounts in table.allocatable.items()
        if name != PODS and bool(amounts.any())
    }
    order = sorted(offered, key=lambda name: (name not in _FIRST, name))
    used: list[dict[str, float]] = [{} for _ in range(len(rows))]
    for name in order:
        amounts = offered[name][rows]
        places = np.flatnonzero(amounts > 0)
        shares = np.round(table.requested.values(name)[rows][places] / amounts[places], _DIGITS)
        for place, share in zip(places.tolist(), shares.tolist(), strict=True):
            used[place][name] = share
    return tuple(order), used


def _zone(labels: dict[str, str]) -> str:
    return labels.get(ZONE_LABEL) or labels.get(BETA_ZONE_LABEL, "")
