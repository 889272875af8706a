"""`moorage apiserver`: the embedded API server alone."""

import argparse
from pathlib import Path
from typing import Any

from moorage.apiserver.kubelets import KubeletOptions
from moorage.apiserver.server import ApiServer, ApiServerOptions, run_apiserver
from moorage.cli.arguments import add_command, add_served, kubeconfig_path
from moorage.cli.output import say
from moorage.cli.startup import log_to_stderr


def add_parser(commands: Any) -> None:
    """Add `moorage apiserver`."""
    parser = add_command(
        commands,
        "apiserver",
        "serve the Kubernetes API on loopback, with everything a scheduler touches",
        "Serve the Kubernetes API for kubectl, client libraries and schedulers. "
        "Objects live in memory unless --data names a folder.",
    )
    parser.add_argument(
        "--bind-address", default="127.0.0.1", metavar="IP", help="default 127.0.0.1"
    )
    add_served(parser)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep acknowledged writes in this folder"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="who may come in: lines of token,user,uid; needed off loopback",
    )
    parser.add_argument("--tls", action="store_true", help="serve HTTPS, self-signed")
    parser.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="serve HTTPS with this")
    parser.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="and this key")
    parser.add_argument("--kubelets", action="store_true", help="simulate kubelets: bound pods run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    log_to_stderr()
    with kubeconfig_path(args.write_kubeconfig) as kubeconfig:
        return _serve(args, kubeconfig)


def _serve(args: argparse.Namespace, kubeconfig: Path) -> int:
    options = ApiServerOptions(
        host=args.bind_address,
        port=args.port,
        tls=args.tls,
        tls_certificate=args.tls_cert_file,
        tls_key=args.tls_private_key_file,
        token_file=args.token_file,
        data=args.data,
        kubelets=KubeletOptions() if args.kubelets else None,
        write_kubeconfig=kubeconfig,
    )

    def started(server: ApiServer) -> None:
        say(f"API server at {server.url}\nkubeconfig: {kubeconfig}")

    return run_apiserver(options, started)
