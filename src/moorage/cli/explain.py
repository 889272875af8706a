"""`moorage explain`: why a pod is where it is or goes nowhere, what a node takes, what was decided.

Owns the command line: what is asked, where the answer comes from and how it is printed. The answers
come from `explain_sources`, the words on the terminal from `explain_tables`.
"""

import argparse
from collections.abc import Callable
from typing import Any

import msgspec

from moorage.cli.arguments import add_command, add_output, positive
from moorage.cli.explain_output import (
    print_decision,
    print_decisions,
    print_node,
    print_pod,
)
from moorage.cli.explain_sources import (
    ALL_ROWS,
    PodQuestion,
    add_source_arguments,
    records,
    source,
)
from moorage.cli.output import print_json, print_yaml
from moorage.explain.report import PodExplanation
from moorage.model.meta import Json

NOT_SCHEDULABLE = 3
_TOP = 10
_WIDE_TOP = 50
_WIDE_ROWS = 100

_SOURCES = """\
where the answer comes from:
  -f FILE...           manifests, as `moorage schedule` reads them
  --server URL         a running scheduler of Moorage, over its secure port
  --ledger PATH        what a scheduler wrote down with --ledger; no cluster is needed
  otherwise            a cluster, read once as the kubeconfig says (--kubeconfig, --context; else
                       KUBECONFIG, ~/.kube/config, or the service account of the pod this runs in);
                       nothing is installed in it or written to it
"""

_CODES = """\
exit codes: 0 the pod is or could be placed; 1 something is wrong; 2 wrong usage; 3 the pod cannot
be scheduled.
"""

_EPILOG = f"""\
{_SOURCES}
examples:
  moorage explain pod batch/archive-0 -f cluster.yaml
  moorage explain pod batch/archive-0 --kubeconfig kc -o json
  moorage explain node worker-7 --server https://10.0.0.5:10259 --token-file token
  moorage explain decision batch/archive-0 --ledger /var/lib/moorage/ledger

{_CODES}"""

_POD_EPILOG = f"""\
{_SOURCES}
examples:
  moorage explain pod archive-0 -f cluster.yaml                 in namespace default, or unique
  moorage explain pod batch/archive-0                           in the cluster of your kubeconfig
  moorage explain pod batch/archive-0 --config scheduler.yaml   ... with your own profiles
  moorage explain pod batch/archive-0 --node worker-7           why not there?
  moorage explain pod batch/archive-0 --no-fixes -o json | jq .rejections

In a cluster that was read, or in files, a waiting pod is explained as things are now: other waiting
pods are not placed first. A pod on a node is explained as if it were not there yet.

{_CODES}"""

_NODE_EPILOG = f"""\
{_SOURCES}
examples:
  moorage explain node worker-7
  moorage explain node worker-7 -f cluster.yaml -o wide

exit codes: 0 done; 1 something is wrong; 2 wrong usage.
"""

_DECISION_EPILOG = """\
Decisions are read from a running scheduler (--server) or from what one wrote (--ledger).

examples:
  moorage explain decision --ledger ledger/                     the latest ones, newest first
  moorage explain decision 4711 --ledger ledger/
  moorage explain decision batch/archive-0 --server https://10.0.0.5:10259 --token-file token

exit codes: 0 done, and the pod was scheduled if one decision was asked for; 1 something is wrong;
2 wrong usage; 3 the decision was that the pod could not be scheduled.
"""


def add_parser(commands: Any) -> None:
    """Describe the command's arguments."""
    parser = add_command(
        commands,
        "explain",
        "why a pod goes there or nowhere, and the smallest changes that would help",
        "Say why a pod is where it is or goes nowhere, what a node takes, and what a "
        "scheduler decided.",
        _EPILOG,
    )
    kinds = parser.add_subparsers(title="what to explain", metavar="WHAT", required=True)
    _add_pod(kinds)
    _add_node(kinds)
    _add_decision(kinds)


def _add_pod(kinds: Any) -> None:
    parser = _subject(
        kinds,
        "pod",
        "which plugins reject which nodes, how the others score, and what would help",
        _POD_EPILOG,
    )
    parser.add_argument("name", metavar="NAMESPACE/NAME", help="the pod; NAME where it is unique")
    add_source_arguments(parser)
    add_output(parser, "answer")
    _add_details(parser)
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        dest="nodes",
        metavar="NODE",
        help="also say why the pod does not go to this node; may be repeated",
    )
    parser.add_argument(
        "--no-fixes", action="store_true", help="do not look for changes that would help"
    )
    parser.set_defaults(run=_run_pod, parser=parser)


def _add_node(kinds: Any) -> None:
    parser = _subject(
        kinds, "node", "what is on a node, and which waiting pods it takes", _NODE_EPILOG
    )
    parser.add_argument("name", metavar="NAME", help="the node")
    add_source_arguments(parser)
    add_output(parser, "answer")
    parser.set_defaults(run=_run_node, parser=parser)


def _add_decision(kinds: Any) -> None:
    parser = _subject(kinds, "decision", "one attempt of a scheduler, or all", _DECISION_EPILOG)
    parser.add_argument(
        "which",
        nargs="?",
        metavar="NUMBER|NAMESPACE/NAME",
        help="a decision's number, or a pod for the latest one about it; without it, a list",
    )
    add_source_arguments(parser, recorded=True)
    add_output(parser, "answer")
    _add_details(parser)
    parser.add_argument(
        "--limit",
        type=positive(),
        default=100,
        metavar="N",
        help="how many decisions to list (default: 100)",
    )
    parser.set_defaults(run=_run_decision, parser=parser)


def _subject(kinds: Any, name: str, text: str, epilog: str) -> argparse.ArgumentParser:
    return add_command(kinds, name, text, f"{text[0].upper()}{text[1:]}.", epilog)


def _add_details(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--top",
        type=positive(),
        metavar="K",
        help=f"how many of the best nodes to show scores of (default: {_TOP}; wide: {_WIDE_TOP})",
    )
    parser.add_argument(
        "--matrix",
        action="store_true",
        help=f"what every plugin says of every node (wide: of the first {_WIDE_ROWS} nodes)",
    )


def _run_pod(args: argparse.Namespace) -> int:
    top, rows = _sizes(args)
    asked = PodQuestion(
        args.name, nodes=tuple(args.nodes), top=top, fixes=not args.no_fixes, rows=rows
    )
    explained = source(args).pod(asked)
    _print(explained, print_pod, args.output)
    return 0 if explained.schedulable or explained.placed else NOT_SCHEDULABLE


def _run_node(args: argparse.Namespace) -> int:
    explained = source(args).node(args.name)
    _print(explained, print_node, args.output)
    return 0


def _run_decision(args: argparse.Namespace) -> int:
    if args.which is None:
        _print(records(args).decisions(args.limit), print_decisions, args.output)
        return 0
    top, rows = _sizes(args)
    explained = records(args).decision(args.which, top=top, rows=rows)
    _print(explained, print_decision, args.output)
    return 0 if explained.decision.result == "scheduled" else NOT_SCHEDULABLE


def _sizes(args: argparse.Namespace) -> tuple[int, int]:
    """How many nodes to score, and how many rows of the matrix to have."""
    wide = args.output == "wide"
    top = args.top or (_WIDE_TOP if wide else _TOP)
    return top, ALL_ROWS if args.matrix else _WIDE_ROWS if wide else 0


def _print(explained: msgspec.Struct, for_people: Callable[..., None], output: str) -> None:
    if output not in ("json", "yaml"):
        for_people(explained, wide=output == "wide")
        return
    plain: Json = msgspec.to_builtins(explained)
    if isinstance(explained, PodExplanation):
        plain = _with_promised_fields(plain)
    (print_json if output == "json" else print_yaml)(plain)


def _with_promised_fields(plain: Json) -> Json:
    """With the lists that are always there, also where they are empty."""
    for rejection in plain["rejections"]:
        rejection.setdefault("examples", [])
    return {**plain, "scores": plain.get("scores", []), "fixes": plain.get("fixes", [])}
