"""Prints the node x plugin table of one pod's decision."""

from collections.abc import Sequence

import msgspec

from moorage.cli.explain_tables import MARKS, stacked_header
from moorage.cli.output import print_json, print_line, print_table, print_yaml
from moorage.explain.report import Verdict
from moorage.explain.scores import NOT_CONSIDERED, REJECTED
from moorage.simulator.explanation import ExplainedNode, Explanation

_LEGEND_COLUMNS = 3


def print_explanations(explanations: Sequence[Explanation], output: str) -> None:
    """Print all attempts of one pod."""
    if output in ("json", "yaml"):
        plain = {"pod": explanations[-1].pod, "attempts": msgspec.to_builtins(explanations)}
        (print_json if output == "json" else print_yaml)(plain)
        return
    first, *later = explanations
    _print(first)
    for explanation in later:
        print()
        print_line(f"After the eviction: {explanation.outcome}")
        _print_scores(explanation)


def _print(told: Explanation) -> None:
    print_line(f"Pod {told.pod} (profile {told.scheduler_name}): {told.outcome}")
    if told.pre_filter is not None:
        print()
        print_line(f"No node was looked at: {_reason(told.pre_filter)}")
    if told.nodes:
        _print_filters(told)
        _print_scores(told)
    _print_preemption(told)


def _print_filters(told: Explanation) -> None:
    plugins = [verdict.plugin for verdict in told.nodes[0].filters]
    print()
    print_line("Filter plugins   (. ok   x refuses   - skipped, nothing to say about this pod)")
    for start in range(0, len(plugins), _LEGEND_COLUMNS):
        names = enumerate(plugins[start : start + _LEGEND_COLUMNS], start + 1)
        print_line("".join(f"  {number:>2} {name:<32}" for number, name in names).rstrip())
    print()
    header = [
        "NODE",
        "FEASIBLE",
        " ".join(f"{n:>2}" for n in range(1, len(plugins) + 1)),
        "WHY NOT",
    ]
    rows = [
        [
            node.name,
            "yes" if node.feasible else "no",
            " ".join(f"{MARKS[verdict.verdict]:>2}" for verdict in node.filters),
            _why_not(node),
        ]
        for node in told.nodes
    ]
    print_table(header, rows)


def _why_not(node: ExplainedNode) -> str:
    if any(verdict.verdict == NOT_CONSIDERED for verdict in node.filters):
        return "not considered: PreFilter named other nodes"
    reasons = [_reason(verdict) for verdict in node.filters if verdict.verdict == REJECTED]
    if node.with_nominated_pods is not None:
        reasons.append(f"with the pods nominated to it: {_reason(node.with_nominated_pods)}")
    return "; ".join(reasons)


def _reason(verdict: Verdict) -> str:
    text = ", ".join(verdict.reasons)
    return f"{verdict.plugin}: {text}" if verdict.plugin else text


def _print_scores(told: Explanation) -> None:
    feasible = [node for node in told.nodes if node.feasible]
    if not feasible:
        return
    feasible.sort(key=lambda node: (-(node.total or 0), node.name != told.node, node.name))
    if not told.weights:
        print()
        print_line(
            f"No plugin scores: of {len(feasible)} feasible nodes the first is taken, {told.node}"
        )
        return
    noun = "node" if len(feasible) == 1 else "nodes"
    print()
    print_line(f"Scores of {len(feasible)} feasible {noun}   (raw > normalized and weighted)")
    if told.skipped_score_plugins:
        print_line(f"  skipped: {', '.join(told.skipped_score_plugins)}")
    print()
    rows = [
        [
            f"* {node.name}" if node.name == told.node else f"  {node.name}",
            str(node.total),
            *(f"{score.raw} > {score.weighted}" for score in node.scores),
        ]
        for node in feasible
    ]
    header, *below = stacked_header(told.weights.items())
    print_table(header, [*below, *rows], right=" " + "r" * (len(told.weights) + 1))
    if told.node is not None:
        print()
        print_line(f"* chosen: {told.node}")


def _print_preemption(told: Explanation) -> None:
    if told.candidates:
        print()
        print_line("Nodes that preemption could free")
        print_table(
            ["NODE", "PDB VIOLATIONS", "VICTIMS"],
            [
                [
                    f"* {c.node}" if c.node == told.nominated_node else f"  {c.node}",
                    str(c.pdb_violations),
                    ", ".join(c.victims),
                ]
                for c in told.candidates
            ],
            right=" r",
        )
    if told.nominated_node:
        print()
        print_line(f"* nominated: {told.nominated_node}; evicted: {', '.join(told.victims)}")
