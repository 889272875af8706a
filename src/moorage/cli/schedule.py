"""`moorage schedule`: where every pod would go, and why."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.cli.arguments import add_command
from moorage.cli.configuration import calls_ended_in_time, make_world, read_configuration
from moorage.cli.explain_output import print_pod
from moorage.cli.output import BAD_INPUT, print_as, print_line, print_table, warn
from moorage.connections.memory import collecting_rarely
from moorage.explain.report import PodExplanation
from moorage.model.meta import Json
from moorage.simulator.manifests import load_manifests

if TYPE_CHECKING:  # loaded only where they are needed
    from moorage.simulator.offline import PodRecord, Schedule

STILL_PENDING = 3

_OUTCOMES = {
    "Placed": ("placed", ""),
    "Pending": ("pending", "<pending>"),
    "Evicted": ("placed and evicted again", "<evicted>"),
    "Gated": ("gated", "<gated>"),
    "NotResponsible": ("of other schedulers", "<not ours>"),
    "Deleting": ("being deleted", "<deleting>"),
    "Error": ("failed with an error", "<error>"),
}
"""What is said of each in the summary, and in the place of a node."""


def add_parser(commands: Any) -> None:
    """Add `moorage schedule`."""
    add_command(commands, "schedule", _run)


@collecting_rarely()
def _run(args: argparse.Namespace) -> int:
    from moorage.simulator.offline import place_all, place_and_explain
    from moorage.simulator.world import find_waiting_pod

    world = make_world(read_configuration(args.config), args.config, plugins=args.plugins)
    manifests = load_manifests(args.paths, sys.stdin)
    skipped = world.add_manifests(manifests)
    if skipped:
        warn(skipped_sentence(skipped))
    if args.explain is None:
        with calls_ended_in_time(world.handle.calls):
            schedule = place_all(world)
        _print_schedule(schedule, args.output)
    else:
        pod = find_waiting_pod(world, args.explain)
        with calls_ended_in_time(world.handle.calls):
            schedule, explanations = place_and_explain(world, pod)
        _print_explanations(explanations, args.output)
    outcomes = {pod.outcome.value for pod in schedule.pods}
    if "Error" in outcomes:
        return BAD_INPUT
    return STILL_PENDING if args.fail_pending and outcomes - {"Placed"} else 0


def _print_explanations(attempts: Sequence[PodExplanation], output: str) -> None:
    if output in ("json", "yaml"):
        plain = {"pod": attempts[0].pod, "attempts": msgspec.to_builtins(attempts)}
        print_as(output, plain)
        return
    first, *later = attempts
    print_pod(first, wide=output == "wide")
    for explanation in later:
        print()
        print_line("After the eviction:")
        without_matrix = msgspec.structs.replace(explanation, matrix=None)  # once is enough
        print_pod(without_matrix, wide=output == "wide")


def skipped_sentence(skipped: Mapping[str, int]) -> str:
    """What is said of objects that no scheduler looks at."""
    total = sum(skipped.values())
    kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(skipped.items()))
    noun = "object" if total == 1 else "objects"
    return f"skipped {total} {noun} of kinds that do not matter to a scheduler: {kinds}"


def _print_schedule(schedule: "Schedule", output: str) -> None:
    if output in ("json", "yaml"):
        print_as(output, _plain(schedule))
        return
    if schedule.pods:
        _print_pods(schedule, wide=output == "wide")
    if schedule.evictions:
        print()
        print_table(
            ["EVICTED", "FROM", "TO MAKE ROOM FOR"],
            [[gone.pod, gone.node, gone.by] for gone in schedule.evictions],
        )
    if schedule.pods:
        print()
    print_line(_summary(schedule))


def _print_pods(schedule: "Schedule", *, wide: bool) -> None:
    header = ["NAMESPACE", "POD", "NODE"]
    if wide:
        header += ["PRIORITY", "FEASIBLE", "SCORE"]
    rows = []
    for pod in schedule.pods:
        row = [pod.namespace, pod.name, pod.node or _OUTCOMES[pod.outcome.value][1]]
        if wide:
            score = "" if pod.score is None else str(pod.score)
            row += [str(pod.priority), str(pod.feasible_nodes or ""), score]
        rows.append([*row, _why(pod)])
    print_table([*header, "MESSAGE"], rows, right="   rrr" if wide else "")


def _why(pod: "PodRecord") -> str:
    if pod.outcome.value == "Placed" and pod.victims:
        return f"after evicting {', '.join(pod.victims)}"
    return pod.message


def _summary(schedule: "Schedule") -> str:
    counts = Counter(pod.outcome.value for pod in schedule.pods)
    parts = [
        f"{counts[outcome]} {word}" for outcome, (word, _) in _OUTCOMES.items() if counts[outcome]
    ]
    if schedule.evictions:
        evictions = len(schedule.evictions)
        parts.append(f"{evictions} eviction{'s' if evictions > 1 else ''}")
    total = len(schedule.pods)
    if not total:
        return "no pods to schedule"
    return f"{total} {'pod' if total == 1 else 'pods'} to schedule: {', '.join(parts)}"


def _plain(schedule: "Schedule") -> Json:
    counts = Counter(pod.outcome.value for pod in schedule.pods)
    summary = {"pods": len(schedule.pods), "evictions": len(schedule.evictions)}
    for outcome in _OUTCOMES:
        summary[outcome[0].lower() + outcome[1:]] = counts[outcome]
    return {**msgspec.to_builtins(schedule), "summary": summary}
