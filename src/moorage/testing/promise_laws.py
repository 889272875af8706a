"""The laws about a plugin's promises: what it says to be spared questions must be true.

Rows: `refused`, `refuses`, `score_row`, `is_silent` and what a `ScoreDigest` says agree with
`filter` and `score`, and `normalize` changes its argument only where it says so.
Idle: a plugin with nothing to say about a pod skips it, or refuses no node and scores all alike.
Steady: what was prepared for the first pod with a key serves all pods with that key, later too.
Twins: pods that differ in nothing but who they are get the same key from a steady plugin, and are
idle alike; with `keyed_by_spec` so are pods with the same spec and status.

Owns these laws; `plugin_laws` decides which pods and clusters they are tried on.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import FilterPlugin, Plugin, ScorePlugin
from moorage.framework.scores import ScoreDigest
from moorage.framework.status import Code
from moorage.model.pod import Pod
from moorage.testing.asking import (
    SKIPS,
    LawBrokenError,
    Prepared,
    before_filter,
    before_score,
    by_name,
    first_difference,
    normalized,
    told,
)


class _First(NamedTuple):
    """The first pod with a key, and what was prepared for it."""

    pod: Pod
    filter: Prepared | None
    score: Prepared | None


class PromiseLaws:
    """The promises of one plugin, over a cluster that changes."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._first: dict[Hashable, _First] = {}

    def check(self, pod: Pod, nodes: NodeView) -> None:
        """Try them on a pod and the nodes of the whole cluster."""
        self._check_filter_rows(pod, nodes)
        self._check_score_rows(pod, nodes)
        self._check_idle(pod, nodes)
        self._check_steady(pod, nodes)
        self._check_twins(pod, nodes)

    # Rows

    def _check_filter_rows(self, pod: Pod, nodes: NodeView) -> None:
        plugin = self._plugin
        if not isinstance(plugin, FilterPlugin):
            return
        prepared = before_filter(plugin, pod, nodes)
        if not prepared.looks:
            return
        for view in (nodes, nodes.take(np.arange(0, len(nodes), 2))):
            verdicts = plugin.filter(pod, view, prepared.state)
            if any(reason.code is Code.ERROR for reason in verdicts.reasons):
                return  # `refused` raises then
            right = by_name(view, verdicts.rejected.astype(np.int64))
            refused = plugin.refused(pod, view, prepared.state)
            self._agree("refused", "filter", pod, by_name(view, refused.astype(np.int64)), right)
        if plugin.row_local:  # only such plugins are asked about single rows
            rejected = plugin.filter(pod, nodes, prepared.state).rejected
            for row, name in enumerate(nodes.names()):
                alone = plugin.refuses(pod, nodes, row, prepared.state)
                self._agree(
                    "refuses", "filter", pod, {name: int(alone)}, {name: int(rejected[row])}
                )

    def _check_score_rows(self, pod: Pod, nodes: NodeView) -> None:
        plugin = self._plugin
        if not isinstance(plugin, ScorePlugin):
            return
        prepared = before_score(plugin, pod, nodes)
        if not prepared.looks:
            return
        raw = plugin.score(pod, nodes, prepared.state)
        scores = by_name(nodes, raw)
        counted = self._normalized(plugin, pod, raw, prepared.state)
        if plugin.is_silent(pod, nodes) and (raw.any() or counted.any()):
            raise LawBrokenError(
                f"is_silent says that all scores of pod {pod.key} are 0, "
                f"but they are {raw.tolist()}, normalised {counted.tolist()}"
            )
        if isinstance(prepared.state, ScoreDigest):
            self._check_digest(prepared.state, pod, nodes, raw, counted)
        if plugin.row_local:
            for row, name in enumerate(nodes.names()):
                alone = plugin.score_row(pod, nodes, row, prepared.state)
                self._agree("score_row", "score", pod, {name: int(alone)}, {name: scores[name]})

    def _check_digest(
        self, digest: ScoreDigest, pod: Pod, nodes: NodeView, raw: Ints, counted: Ints
    ) -> None:
        if digest.scale is None:
            return
        told = {"normalize": (digest.scale.normalized(raw), counted)}
        if digest.codes is not None and digest.table is not None:
            told["score"] = (digest.table[digest.codes], raw)
        elif digest.everywhere is not None:
            told["score"] = (digest.everywhere, raw)
        for method, (answer, right) in told.items():
            self._agree("digest", method, pod, by_name(nodes, answer), by_name(nodes, right))

    def _normalized(self, plugin: ScorePlugin[Any], pod: Pod, raw: Ints, state: Any) -> Ints:
        argument = np.array(raw, np.int64)
        counted = plugin.normalize(argument, state)
        if not plugin.normalizes_in_place and not np.array_equal(argument, raw):
            raise LawBrokenError(
                f"normalize changed the scores of pod {pod.key} it was given, "
                "although normalizes_in_place is false"
            )
        return counted

    def _agree(
        self, method: str, reference: str, pod: Pod, answer: dict[str, int], right: dict[str, int]
    ) -> None:
        name = first_difference(answer, right)
        if name is not None:
            raise LawBrokenError(
                f"{method} of pod {pod.key} says {_said(method, answer[name])} of {name}, "
                f"but {reference} says {_said(method, right[name])}"
            )

    # Idle

    def _check_idle(self, pod: Pod, nodes: NodeView) -> None:
        plugin = self._plugin
        if not plugin.idle_for(pod):
            return
        idle = f"idle_for says that there is nothing to say about pod {pod.key}"
        if isinstance(plugin, FilterPlugin):
            prepared = before_filter(plugin, pod, nodes)
            if prepared.named is not None:
                raise LawBrokenError(f"{idle}, but pre_filter names nodes for it")
            if prepared.looks:
                refused = told(nodes, plugin.filter(pod, nodes, prepared.state))
                for name, reasons in refused.items():
                    if reasons:
                        raise LawBrokenError(f"{idle}, but filter says {reasons} of {name}")
            elif prepared.what != SKIPS:
                raise LawBrokenError(f"{idle}, but pre_filter {prepared.what}")
        if isinstance(plugin, ScorePlugin):
            prepared = before_score(plugin, pod, nodes)
            if prepared.looks:
                raw = plugin.score(pod, nodes, prepared.state)
                scores = normalized(plugin, raw, prepared.state).tolist()
                if len(set(scores)) > 1:
                    raise LawBrokenError(f"{idle}, but its nodes score {scores}")

    # Steady

    def _check_steady(self, pod: Pod, nodes: NodeView) -> None:
        plugin = self._plugin
        key = plugin.pod_key(pod) if plugin.steady else None
        if key is None:
            return
        now = _First(
            pod,
            before_filter(plugin, pod, nodes) if isinstance(plugin, FilterPlugin) else None,
            before_score(plugin, pod, nodes) if isinstance(plugin, ScorePlugin) else None,
        )
        first = self._first.setdefault(key, now)
        for point, before, after in (
            ("pre_filter", first.filter, now.filter),
            ("pre_score", first.score, now.score),
        ):
            if before is not None and after is not None and before.kind != after.kind:
                raise LawBrokenError(
                    f"{point} of pod {pod.key} {_did(after)}, but it {_did(before)} for "
                    f"{_whom(first, now)}; a steady plugin looks at nothing but what the key names"
                )
        for what, ours, theirs in (
            ("filter", self._filtered(now, nodes), self._filtered(first, nodes)),
            ("score", self._scored(now, nodes), self._scored(first, nodes)),
        ):
            name = first_difference(ours, theirs)
            if name is not None:
                raise LawBrokenError(
                    f"{what} of pod {pod.key} says {ours[name]} of {name}, but {theirs[name]} with "
                    f"what was prepared for {_whom(first, now)}; a steady plugin prepares nothing "
                    "but what follows from the key"
                )

    def _filtered(self, known: _First, nodes: NodeView) -> dict[str, Any]:
        plugin, prepared = self._plugin, known.filter
        if not isinstance(plugin, FilterPlugin) or prepared is None or not prepared.looks:
            return {}
        return told(nodes, plugin.filter(known.pod, nodes, prepared.state))

    def _scored(self, known: _First, nodes: NodeView) -> dict[str, Any]:
        plugin, prepared = self._plugin, known.score
        if not isinstance(plugin, ScorePlugin) or prepared is None or not prepared.looks:
            return {}
        raw = plugin.score(known.pod, nodes, prepared.state)
        counted = normalized(plugin, raw, prepared.state)
        return {
            name: f"{score}, normalised {points}"
            for name, score, points in zip(
                nodes.names(), raw.tolist(), counted.tolist(), strict=True
            )
        }

    # Twins

    def _check_twins(self, pod: Pod, nodes: NodeView) -> None:
        plugin = self._plugin
        twin = _twin(pod)
        alike = [(twin, "differs from it in nothing but name, uid, version and time")]
        if plugin.keyed_by_spec:
            alike.append((_stranger(pod), "has the same spec and status (keyed_by_spec)"))
        for other, how in alike:
            if plugin.idle_for(other) != plugin.idle_for(pod):
                raise LawBrokenError(
                    f"idle_for says {plugin.idle_for(pod)} of pod {pod.key}, but "
                    f"{plugin.idle_for(other)} of pod {other.key}, which {how}"
                )
            if plugin.steady and plugin.pod_key(other) != plugin.pod_key(pod):
                raise LawBrokenError(
                    f"pod_key gives {plugin.pod_key(pod)!r} to pod {pod.key}, but "
                    f"{plugin.pod_key(other)!r} to pod {other.key}, which {how}"
                )
        self._check_steady(twin, nodes)


def _twin(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=f"{pod.name}-twin",
        uid=f"{pod.uid}-twin",
        resource_version="999999",
        creation_timestamp="2026-02-03T04:05:06Z",
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _stranger(pod: Pod) -> Pod:
    twin = _twin(pod)
    metadata = msgspec.structs.replace(
        twin.metadata, namespace="elsewhere", labels={"app": "stranger"}
    )
    return msgspec.structs.replace(twin, metadata=metadata)


def _said(method: str, answer: int) -> str:
    if method == "score_row":
        return str(answer)
    return "yes" if answer else "no"


def _did(prepared: Prepared) -> str:
    return prepared.what if prepared.named is None else f"names {sorted(prepared.named)}"


def _whom(first: _First, now: _First) -> str:
    if first.pod is now.pod:
        return "it before"
    return f"pod {first.pod.key}, which has the same key"
