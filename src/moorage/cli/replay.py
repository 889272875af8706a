"""`moorage simulate replay`: a recording's decisions, made again and compared."""

import argparse
from typing import TYPE_CHECKING

import msgspec

from moorage.cli.configuration import make_world, read_configuration
from moorage.cli.output import BAD_INPUT, print_as, print_line, print_table, warn
from moorage.connections.memory import collecting_rarely
from moorage.errors import InputError

if TYPE_CHECKING:
    from moorage.recordings.comparison import ComparedDecision, ComparedRecording

API_VERSION = "moorage.io/replay-v1"


@collecting_rarely()
def run(args: argparse.Namespace) -> int:
    """Replay, print, and fail if decisions differ."""
    from moorage.recordings.comparison import Agreement, compare
    from moorage.recordings.recording_file import Recording

    configuration = read_configuration(args.config)
    if configuration.extenders:
        raise InputError(f"{args.config}: extenders: expected none, there is nobody to ask")
    everywhere = tuple(
        msgspec.structs.replace(profile, percentage_of_nodes_to_score=None)
        for profile in configuration.profiles
    )
    configuration = msgspec.structs.replace(
        configuration, profiles=everywhere, percentage_of_nodes_to_score=None
    )
    world = make_world(configuration, args.config, plugins=args.plugins)
    recording = Recording(args.recording)
    found = compare(recording, world)
    if recording.is_cut_off:
        warn(f"{args.recording} is cut off at byte {recording.whole_bytes}; what is before counts")
    if args.output == "table":
        _print(found, args.show)
    else:
        counts = {one.value: found.count(one) for one in Agreement}
        head = {"apiVersion": API_VERSION, "kind": "ReplayResult", "counts": counts}
        print_as(args.output, head | msgspec.to_builtins(found))
    return BAD_INPUT if found.count(Agreement.DIFFERENT) else 0


def _print(found: "ComparedRecording", show: int) -> None:
    from moorage.recordings.comparison import Agreement

    total = len(found.decisions)
    print_line(f"{total:,} decisions in {found.seconds:,.0f} s")
    for agreement in Agreement:
        count = found.count(agreement)
        share = f"{100 * count / total:6.2f} %" if total else ""
        print_line(f"  {agreement.value:<10}{count:>8,}  {share}".rstrip())
    for number, what in (
        (found.waiting, "pods wait in the end and fit nowhere"),
        (found.fitting, "pods wait in the end though they fit: new, or in back-off"),
        (found.unseen, "pods got their nodes while nobody recorded"),
        (found.foreign, "pods are another scheduler's"),
    ):
        if number:
            print_line(f"  {number:,} {what}")
    others = [one for one in found.decisions if one.agreement is not Agreement.SAME]
    others.sort(key=lambda one: (one.agreement is not Agreement.DIFFERENT, one.at))
    if others[:show]:
        print_line("")
        header = ["AT", "POD", "RECORDED", "OURS", "", "WHY"]
        print_table(header, [_row(one) for one in others[:show]], right="r")
        if len(others) > show:
            print_line(f"and {len(others) - show:,} more")


def _row(one: "ComparedDecision") -> list[str]:
    why = ": ".join(part for part in (one.plugin, one.message) if part)
    seconds = f"{one.at:,.3f} s"
    return [seconds, one.pod, one.node or "-", one.ours or "-", one.agreement.value, why]
