"""`moorage explain`: why a pod is where it is or goes nowhere, what a node takes, what was decided.

Owns what is asked and how much of it is printed. The answers come from `explain_sources`, the words
on the terminal from `explain_output`.
"""

import argparse
from collections.abc import Callable
from typing import Any

import msgspec

from moorage.cli.arguments import add_command
from moorage.cli.explain_output import (
    print_decision,
    print_decisions,
    print_node,
    print_pod,
)
from moorage.cli.explain_sources import (
    ALL_ROWS,
    PodQuestion,
    records,
    source,
)
from moorage.cli.output import print_as
from moorage.explain.report import PodExplanation
from moorage.model.meta import Json

NOT_SCHEDULABLE = 3
_TOP = 10
_WIDE_TOP = 50
_WIDE_ROWS = 100


def add_parser(commands: Any) -> None:
    """Add `moorage explain`."""
    runs = {"pod": _run_pod, "node": _run_node, "decision": _run_decision}
    add_command(commands, "explain", runs)


def _run_pod(args: argparse.Namespace) -> int:
    top, rows = _sizes(args)
    asked = PodQuestion(
        args.name, nodes=tuple(args.nodes), top=top, fixes=not args.no_fixes, rows=rows
    )
    explained = source(args).pod(asked)
    print_explained(explained, print_pod, args.output)
    return 0 if explained.schedulable or explained.placed else NOT_SCHEDULABLE


def _run_node(args: argparse.Namespace) -> int:
    explained = source(args).node(args.name)
    print_explained(explained, print_node, args.output)
    return 0


def _run_decision(args: argparse.Namespace) -> int:
    if args.which is None:
        print_explained(records(args).decisions(args.limit), print_decisions, args.output)
        return 0
    top, rows = _sizes(args)
    explained = records(args).decision(args.which, top=top, rows=rows)
    print_explained(explained, print_decision, args.output)
    return 0 if explained.decision.result == "scheduled" else NOT_SCHEDULABLE


def _sizes(args: argparse.Namespace) -> tuple[int, int]:
    """How many nodes to score, and how many rows of the matrix to have."""
    wide = args.output == "wide"
    top = args.top or (_WIDE_TOP if wide else _TOP)
    return top, ALL_ROWS if args.matrix else _WIDE_ROWS if wide else 0


def print_explained(
    explained: msgspec.Struct, for_people: Callable[..., None], output: str
) -> None:
    """Print an explanation as `-o` says."""
    if output not in ("json", "yaml"):
        for_people(explained, wide=output == "wide")
        return
    plain: Json = msgspec.to_builtins(explained)
    if isinstance(explained, PodExplanation):
        plain = _with_promised_fields(plain)
    print_as(output, plain)


def _with_promised_fields(plain: Json) -> Json:
    """With the lists that are always there, also where they are empty."""
    for rejection in plain["rejections"]:
        rejection.setdefault("examples", [])
    return {**plain, "scores": plain.get("scores", []), "fixes": plain.get("fixes", [])}
