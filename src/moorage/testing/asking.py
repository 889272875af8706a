"""Asking a plugin about nodes, as the framework would, with answers that can be compared.

Owns how the laws ask; must not know what the laws are.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import (
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Verdicts
from moorage.model.pod import Pod

Answer = dict[str, Any]
"""Node name -> what the plugin says of it."""

SKIPS = "skips"
LOOKS_AT_NODES = "looks at nodes"


class LawBrokenError(AssertionError):
    """A plugin broke one of the laws; the message says which, and how to see it again."""


class Prepared(NamedTuple):
    """What a plugin did with a pod before it looked at nodes."""

    what: str
    """As the end of a sentence; only `LOOKS_AT_NODES` is followed by questions about nodes."""
    state: Any = None
    named: frozenset[str] | None = None
    """The only nodes worth looking at."""

    @property
    def looks(self) -> bool:
        """Is the plugin asked about nodes?"""
        return self.what == LOOKS_AT_NODES

    @property
    def kind(self) -> Hashable:
        """What must be the same for pods that are alike."""
        return self.what, self.named


def before_filter(plugin: FilterPlugin[Any], pod: Pod, nodes: NodeView) -> Prepared:
    """PreFilter, if the plugin has a part in it."""
    if not isinstance(plugin, PreFilterPlugin):
        return Prepared(LOOKS_AT_NODES)
    result = plugin.pre_filter(pod, nodes)
    if isinstance(result, PreFilterResult):
        return Prepared(LOOKS_AT_NODES, result.state, result.node_names)
    return Prepared(SKIPS if result is SKIP else "refuses the pod")


def before_score(plugin: ScorePlugin[Any], pod: Pod, nodes: NodeView) -> Prepared:
    """PreScore, if the plugin has a part in it."""
    if not isinstance(plugin, PreScorePlugin):
        return Prepared(LOOKS_AT_NODES)
    state = plugin.pre_score(pod, nodes)
    return Prepared(SKIPS) if state is SKIP else Prepared(LOOKS_AT_NODES, state)


def told(nodes: NodeView, verdicts: Verdicts) -> Answer:
    """The reasons against each node."""
    return {
        name: sorted(reason.text for reason in verdicts.reasons_of(row))
        for row, name in enumerate(nodes.names())
    }


def by_name(nodes: NodeView, scores: Ints) -> Answer:
    """The score of each node."""
    return dict(zip(nodes.names(), scores.tolist(), strict=True))


def normalized(plugin: ScorePlugin[Any], raw: Ints, state: Any) -> Ints:
    """The scores as they count; `raw` stays as it is."""
    return plugin.normalize(np.array(raw, np.int64), state)


def first_difference(one: Answer, other: Answer) -> str | None:
    """A node of which two answers differ."""
    names = sorted(one.keys() | other.keys())
    return next((name for name in names if one.get(name) != other.get(name)), None)
