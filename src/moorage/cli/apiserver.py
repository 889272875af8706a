"""`moorage apiserver`: the embedded API server alone."""

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from moorage.apiserver.kubelets import KubeletOptions
from moorage.apiserver.server import ApiServer
from moorage.errors import InputError


def add_parser(commands: Any) -> None:
    """Add `moorage apiserver`."""
    parser = commands.add_parser(
        "apiserver",
        help="serve the Kubernetes API on loopback, with everything a scheduler touches",
        description="Serve the Kubernetes API on loopback for kubectl, client libraries and "
        "schedulers. Objects live in memory unless --data names a folder.",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=int, default=0, metavar="PORT", help="0 picks a free one")
    parser.add_argument(
        "--write-kubeconfig", type=Path, metavar="PATH", help="where to write the kubeconfig"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep acknowledged writes in this folder"
    )
    parser.add_argument("--tls", action="store_true", help="serve HTTPS, self-signed")
    parser.add_argument("--kubelets", action="store_true", help="simulate kubelets: bound pods run")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )
    return asyncio.run(_serve(args))


async def _serve(args: argparse.Namespace) -> int:
    server = ApiServer(data=args.data, kubelets=KubeletOptions() if args.kubelets else None)
    try:
        await server.start(port=args.port, tls=args.tls)
    except OSError as error:
        raise InputError(f"--port {args.port}: cannot listen: {error.strerror}") from error
    kubeconfig = args.write_kubeconfig or Path(tempfile.mkdtemp("moorage")) / "kubeconfig"
    server.write_kubeconfig(kubeconfig)
    print(f"API server at {server.url}\nkubeconfig: {kubeconfig}", file=sys.stderr, flush=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    await server.stop()
    return 0
