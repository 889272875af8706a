"""Where the answers of `moorage explain` come from, as the flags say.

Owns the choice between sources, and which flags go together. How each source answers is in
`explain_world` (files, and a cluster that is read once), `explain_live` and `explain_ledger`.
"""

import argparse
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from moorage.cli.explain_ledger import LedgerSource
    from moorage.cli.explain_live import LiveSource
    from moorage.cli.explain_world import ClusterSource, ManifestSource

ALL_ROWS = 1 << 30
"""More rows than any matrix has."""
_MOST_DIGITS = 18
"""No decision has a longer number."""


class PodQuestion(msgspec.Struct, frozen=True):
    """What is asked about a pod."""

    name: str
    """`namespace/name`, or just the name."""
    nodes: tuple[str, ...] = ()
    """Nodes to say of why the pod does not go there."""
    top: int = 10
    fixes: bool = True
    rows: int = 0
    """How many rows of the node x plugin matrix are wanted."""


def decision_number(which: str) -> int | None:
    """The number that names a decision; None if it can only be a pod's name."""
    # Unicode has other digits, and Python refuses to read very long numbers.
    if which.isascii() and which.isdigit() and len(which) <= _MOST_DIGITS:
        return int(which)
    return None


def source(
    args: argparse.Namespace,
) -> "ManifestSource | ClusterSource | LedgerSource | LiveSource":
    """Who knows of pods and nodes, as the flags say; a wrong combination ends the command."""
    _check_flags(args)
    if args.ledger is not None or args.server is not None:
        return _recording(args)
    # It brings libraries of its own that the others do not need.
    from moorage.cli.explain_world import ClusterSource, ManifestSource

    return ManifestSource(args) if args.paths else ClusterSource(args)


def records(args: argparse.Namespace) -> "LedgerSource | LiveSource":
    """Who remembers decisions, as the flags say; a wrong combination ends the command."""
    _check_flags(args)
    if args.ledger is None and args.server is None:
        args.parser.error("one of --ledger and --server is needed: only they know of decisions")
    return _recording(args)


def _recording(args: argparse.Namespace) -> "LedgerSource | LiveSource":
    if args.ledger is not None:
        from moorage.cli.explain_ledger import LedgerSource

        return LedgerSource(args.ledger)
    from moorage.cli.explain_live import LiveSource

    return LiveSource(args)


_SERVER_ONLY = (
    *("token", "token_file", "client_certificate", "client_key"),
    *("certificate_authority", "insecure_skip_tls_verify"),
)
_PROFILES = ("config", "plugins", "feature_gates", "profile")


def _check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that the source has no use for, so that nobody believes they had an effect."""
    flags = {"-f": getattr(args, "paths", ()), "--ledger": args.ledger, "--server": args.server}
    sources = [flag for flag, value in flags.items() if value]
    if len(sources) > 1:
        args.parser.error(f"{sources[0]} and {sources[1]}: give one source only")
    named = sources[0] if sources else ""
    useless: tuple[str, ...] = ()
    if named != "--server":
        useless += _SERVER_ONLY
    if named in ("-f", "--ledger"):
        useless += ("kubeconfig", "context")
    if named in ("--server", "--ledger"):
        useless += _PROFILES
    for name in useless:
        if getattr(args, name, None):
            flag = "--plugin" if name == "plugins" else f"--{name.replace('_', '-')}"
            what = named or "a cluster that is read through a kubeconfig"
            args.parser.error(f"{flag} has no meaning with {what}")
    if bool(args.client_certificate) != bool(args.client_key):
        args.parser.error("--client-certificate and --client-key belong together")
    if args.token and args.token_file:
        args.parser.error("--token and --token-file: give one of them")
