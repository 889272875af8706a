"""`moorage apiserver`: the embedded API server alone."""

import argparse
from pathlib import Path
from typing import Any

from moorage.apiserver.server import ApiServer, ApiServerOptions, run_apiserver
from moorage.cli.arguments import add_command, kubeconfig_path
from moorage.cli.output import say
from moorage.cli.startup import log_to_stderr


def add_parser(commands: Any) -> None:
    """Add `moorage apiserver`."""
    add_command(commands, "apiserver", run)


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
        write_kubeconfig=kubeconfig,
    )

    def started(server: ApiServer) -> None:
        say(f"API server at {server.url}\nkubeconfig: {kubeconfig}")

    async def simulate(_: ApiServer) -> None:
        from moorage.controllers.kubelet import KubeletOptions
        from moorage.kube.kubeconfig import Kubeconfig
        from moorage.local.kubelets import run_kubelets

        access = Kubeconfig([kubeconfig], must_exist=True).access()
        await run_kubelets(access, KubeletOptions())

    return run_apiserver(options, started, simulate if args.kubelets else None)
