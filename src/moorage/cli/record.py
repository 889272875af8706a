"""`moorage record`: a live cluster, written down."""

import argparse
import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from moorage.cli.arguments import add_command
from moorage.cli.output import counted, say, warn
from moorage.cli.startup import log_to_stderr
from moorage.kube.access import Access
from moorage.kube.access_discovery import user_access

if TYPE_CHECKING:
    from moorage.recordings.recorder import ClusterRecorder, RecordingState
    from moorage.recordings.recording_file import RecordingWriter

_TOLD_SECONDS = 60.0


def add_parser(commands: Any) -> None:
    """Add `moorage record`."""
    add_command(commands, "record", run)


def run(args: argparse.Namespace) -> int:
    """Record until told to stop."""
    from moorage.recordings.anonymous import anonymizer_beside
    from moorage.recordings.recorder import ClusterRecorder
    from moorage.recordings.recording_file import RecordingWriter

    log_to_stderr()
    access = user_access(args.kubeconfig, args.context)
    writer = RecordingWriter(args.recording)
    with contextlib.closing(writer):
        anonymizer = anonymizer_beside(args.recording) if args.anonymize else None
        recorder = ClusterRecorder(writer, time.time, anonymizer)
        asyncio.run(_run(access, recorder, writer, args.seconds))
        writer.flush()
        say(f"{args.recording}: {_told(recorder.state)}")
    return 0


async def _run(
    access: Access, recorder: "ClusterRecorder", writer: "RecordingWriter", seconds: float | None
) -> None:
    from moorage.kube.client import KubeClient, user_agent
    from moorage.recordings.recorder import readable_kinds, record

    stop = asyncio.Event()
    async with KubeClient(access, qps=0, agent=user_agent("record"), read_only=True) as client:
        with _stopping(stop, seconds):
            kinds, refused = await readable_kinds(client)
            for kind, reason in refused.items():
                warn(f"no {kind} is recorded, as they cannot be listed: {reason}")
            recorder.begin(kinds)
            say(f"recording {access.address}; Ctrl-C ends it")
            await record(client, recorder, kinds, stop, writer, _progress())


@contextlib.contextmanager
def _stopping(stop: asyncio.Event, seconds: float | None) -> Iterator[None]:
    """Stop when told to, and when the time is over."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    timer = None if seconds is None else loop.call_later(seconds, stop.set)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _progress() -> Callable[["RecordingState"], None]:
    """Says how far it is: when all objects are there, and then once a minute."""
    last = -_TOLD_SECONDS

    def tell(state: "RecordingState") -> None:
        nonlocal last
        if state.complete and time.monotonic() - last >= _TOLD_SECONDS:
            last = time.monotonic()
            say(f"{time.strftime('%H:%M:%S')}  {_told(state)}")

    return tell


def _told(state: "RecordingState") -> str:
    objects, changes = counted(state.objects, "object"), counted(state.changes, "change")
    return f"{objects}, {changes}, {state.bytes / 1024:,.0f} KiB"
