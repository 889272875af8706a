"""Explanations for people: one sentence first, then what stands behind it.

Owns the order of the parts and the sentences. The tables are in `explain_tables`.
"""

import time
from collections.abc import Sequence
from datetime import datetime

from moorage.cli.explain_tables import (
    print_matrix,
    print_rejections,
    print_scores,
    print_why_not,
)
from moorage.cli.output import Printer, counted, paragraph, shortened
from moorage.explain.listing import DecisionPage
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    Fix,
    NodeExplanation,
    PodExplanation,
    Preemption,
    QueueState,
)
from moorage.printable import human_duration

_PODS_SHOWN = 10


def print_pod(explained: PodExplanation, *, wide: bool) -> None:
    """Everything about a pod."""
    out = Printer(wide=wide)
    out.sentence(_pod_sentence(explained))
    if explained.queue is not None:
        out.section("Queue", _queue(explained.queue, out.width))
    print_rejections(out, explained.rejections)
    note = " without it" if explained.placed else ""
    print_scores(out, explained.scores, explained.feasible, note)
    if wide and explained.skipped_score_plugins:
        out.more([f"  nothing to say: {', '.join(explained.skipped_score_plugins)}"])
    best = next((score for score in explained.scores if score.chosen), None)
    if best is None and explained.scores and not explained.placed:
        best = explained.scores[0]
    alone = ""
    if explained.placed and explained.scores:
        alone = f"node {explained.node}, where the pod is, is none that would take it now"
    for row in explained.asked:
        print_why_not(out, row, best, alone)
    if explained.preemption is not None:
        _print_preemption(out, explained.preemption)
    if explained.fixes:
        _print_fixes(out, explained.fixes)
    if explained.matrix is not None:
        print_matrix(out, explained.matrix)
    if explained.note:
        out.sentence(explained.note)
    if explained.decision is not None:
        out.sentence(f"The latest decision about it is number {explained.decision}.")


def _pod_sentence(explained: PodExplanation) -> str:
    share = f"{explained.feasible} of {counted(explained.nodes, 'node')}"
    if explained.placed:
        unknown = (
            ""
            if explained.message.startswith("Successfully assigned")
            else f" ({explained.message})"
        )
        return f"Pod {explained.pod} is on node {explained.node}; {share} could take it.{unknown}"
    if explained.source == "ledger":
        return _recorded_sentence(explained, share)
    if explained.schedulable:
        goes = f"it would go to {explained.node}"
        return f"Pod {explained.pod} can be scheduled: {share} could take it, {goes}."
    return f"Pod {explained.pod} cannot be scheduled: {explained.message}"


def _recorded_sentence(explained: PodExplanation, share: str) -> str:
    """What a ledger knows is over."""
    if explained.schedulable:
        return f"Pod {explained.pod} was scheduled to node {explained.node}; {share} could take it."
    return f"Pod {explained.pod} could not be scheduled: {explained.message}"


def _queue(queue: QueueState, width: int | None) -> list[str]:
    now = time.time()
    lines = [queue.message or queue.state]
    times = [] if queue.message else [counted(queue.attempts, "attempt")]
    if queue.initial_attempt is not None:
        times.append(f"first tried {_age(now - queue.initial_attempt)} ago")
    if queue.added is not None:
        times.append(f"{queue.state} for {_age(now - queue.added)}")
    if queue.next_retry is not None and queue.next_retry > now:
        times.append(f"tried again in {_age(queue.next_retry - now)} at the latest")
    if times:
        lines.append(", ".join(times))
    if queue.waits_for:
        wakers = ", ".join(
            f"{waker.event} ({', '.join(waker.plugins)})" if waker.plugins else waker.event
            for waker in queue.waits_for
        )
        lines.append(f"woken by: {wakers}")
    return [line for text in lines for line in paragraph(f"  {text}", width, hang="    ")]


def _age(seconds: float) -> str:
    return human_duration(max(0.0, seconds))  # clocks of two machines differ


def _print_preemption(out: Printer, explained: Preemption) -> None:
    title = f"Preemption {'would help' if explained.helps else 'does not help'}"
    titled = explained.helps or out.wide or not explained.refusals
    if titled:
        out.section(title, paragraph(f"  {explained.message}", out.width, hang="  "))
    if explained.candidates:
        shown = explained.candidates if out.wide else explained.candidates[:_PODS_SHOWN]
        total = max(explained.candidate_nodes, len(explained.candidates))
        out.table(
            f"Nodes that preemption could free ({total})",
            ["  NODE", "PDB VIOLATIONS", "VICTIMS"],
            [
                [
                    f"{'*' if one.chosen else ' '} {one.node}",
                    str(one.pdb_violations),
                    ", ".join(one.victims),
                ]
                for one in shown
            ],
            right=" r",
        )
    if explained.refusals:
        out.table(
            "Where preemption does not help" if titled else title,
            ["NODES", "REASON", "EXAMPLES"],
            [
                [str(one.nodes), one.reason, shortened(one.examples, one.nodes)]
                for one in explained.refusals
            ],
            right="r",
        )


def _print_fixes(out: Printer, fixes: Sequence[Fix]) -> None:
    header = ["NODES GAINED", "VERIFIED", "CHANGE"]
    rows = [[str(fix.nodes_gained), "yes" if fix.verified else "no", _change(fix)] for fix in fixes]
    if out.wide:
        header[2:2] = ["KIND", "EXAMPLES"]
        for row, fix in zip(rows, fixes, strict=True):
            row[2:2] = [fix.kind, shortened(fix.examples, fix.nodes_gained)]
    out.table("What would help, the best first", header, rows, right="r")


def _change(fix: Fix) -> str:
    change = fix.change.removesuffix(f" ({counted(fix.nodes_gained, 'node')})")  # a column says so
    if fix.victims and not any(victim in change for victim in fix.victims):
        return f"{change} (would evict {shortened(fix.victims, len(fix.victims))})"
    return change


# Nodes.


def print_node(explained: NodeExplanation, *, wide: bool) -> None:
    """Everything about a node."""
    out = Printer(wide=wide)
    out.sentence(_node_sentence(explained))
    if explained.taints:
        out.section("Taints", [f"  {taint}" for taint in explained.taints])
    if wide and explained.labels:
        out.section(
            "Labels", [f"  {key}={value}" for key, value in sorted(explained.labels.items())]
        )
    names = list(dict.fromkeys((*explained.allocatable, *explained.requested)))
    if names:
        given, taken = explained.allocatable, explained.requested
        out.table(
            "Resources",
            ["RESOURCE", "ALLOCATABLE", "REQUESTED"],
            [[name, given.get(name, "0"), taken.get(name, "0")] for name in names],
            right=" rr",
        )
    if explained.pod_list:
        shown = explained.pod_list if wide else explained.pod_list[:_PODS_SHOWN]
        title = f"Pods on it ({_shown(len(shown), explained.pods)})"
        rows = [
            [
                pod.pod,
                str(pod.priority),
                ", ".join(f"{name} {amount}" for name, amount in pod.requests.items()),
            ]
            for pod in shown
        ]
        out.table(title, ["POD", "PRIORITY", "REQUESTS"], rows, right=" r")
    if explained.accepts:
        most = len(explained.accepts) if wide else _PODS_SHOWN
        text = shortened(explained.accepts, len(explained.accepts), most)
        out.section("Waiting pods that could go here", paragraph(f"  {text}", out.width, hang="  "))
    if explained.refusals:
        refusals = explained.refusals if wide else explained.refusals[:_PODS_SHOWN]
        many = _shown(len(refusals), len(explained.refusals))
        out.table(
            f"Waiting pods that it does not take ({many})",
            ["POD", "WHY NOT"],
            [
                [
                    one.pod,
                    "; ".join(f"{v.plugin}: {', '.join(v.reasons)}" for v in one.verdicts),
                ]
                for one in refusals
            ],
        )


def _shown(shown: int, total: int) -> str:
    return str(total) if shown >= total else f"{shown} of {total}; -o wide shows all"


def _node_sentence(explained: NodeExplanation) -> str:
    cordoned = "cordoned (unschedulable) and" if explained.unschedulable else ""
    count = counted(explained.pods, "pod")
    pods = f"Node {explained.node}{cordoned and f' is {cordoned}'} has {count}"
    if explained.source == "ledger":
        had = f"{cordoned and f' was {cordoned}'} had {count}"
        pods = f"When the ledger ended, node {explained.node}{had}"
    asked = len(explained.accepts) + len(explained.refusals)
    if not max(asked, explained.waiting):
        return f"{pods}; no pod waits."
    waiting = counted(max(asked, explained.waiting), "waiting pod")
    some = ""
    if asked < explained.waiting:
        was = "was" if asked == 1 else "were"
        some = f" (the {asked} most important {was} asked about)"
    return f"{pods}; of {waiting}{some} it could take {len(explained.accepts)}."


# Decisions.


def print_decisions(page: DecisionPage, *, wide: bool) -> None:
    """Decisions, a line each."""
    out, decisions = Printer(wide=wide), page.items
    if not decisions:
        out.sentence("The ledger holds no decisions.")
        return
    header = ["NUMBER", "TIME", "POD", "RESULT", "NODE", "FEASIBLE", "MESSAGE"]
    right = "r    r"
    rows = [
        [
            str(one.number),
            _moment(one.time),
            one.pod,
            one.result,
            one.node,
            f"{one.feasible}/{one.nodes}",
            one.message,
        ]
        for one in decisions
    ]
    if any(one.nominated_node for one in decisions):
        header.insert(5, "NOMINATED NODE")
        right = "r     r"
        for row, one in zip(rows, decisions, strict=True):
            row.insert(5, one.nominated_node)
    out.table("", header, rows, right=right)


def print_decision(explained: DecisionExplanation, *, wide: bool) -> None:
    """One decision, whole."""
    out = Printer(wide=wide)
    one = explained.decision
    out.sentence(_decision_sentence(one))
    facts = [f"profile {one.profile}", f"took {one.seconds * 1000:.1f} ms"]
    if one.attempts:
        facts.insert(0, f"attempt {one.attempts}")
    if one.nominated_node:
        facts.append(f"preemption frees node {one.nominated_node} for it")
    out.section("", [", ".join(facts)])
    print_rejections(out, explained.rejections)
    print_scores(out, explained.scores, one.feasible)
    if explained.matrix is not None:
        print_matrix(out, explained.matrix)
    if explained.note:
        out.sentence(explained.note)


def _decision_sentence(one: DecisionSummary) -> str:
    about = f"Decision {one.number} about pod {one.pod} at {_moment(one.time)}"
    if one.result == "scheduled":
        score = "" if one.score is None else f", which scored {one.score}"
        share = f"{one.feasible} of {counted(one.nodes, 'node')} were feasible"
        return f"{about}: scheduled to {one.node}{score}; {share}."
    return f"{about}: {one.result}: {one.message}"


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
    except (OverflowError, OSError, ValueError):  # whoever explained it need not be right
        return str(seconds)
