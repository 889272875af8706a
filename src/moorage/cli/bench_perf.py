"""`moorage bench perf`: upstream's scheduler_perf workloads, beside upstream's thresholds."""

import argparse
import asyncio
import logging

import msgspec

from moorage.benchmarks.perf.cases import PerfWorkload, load_workloads, selected
from moorage.benchmarks.perf.runs import (
    BROKEN,
    Setting,
    WorkloadResult,
    data_items,
    run_workload,
)
from moorage.benchmarks.progress import Progress
from moorage.benchmarks.scheduler_command import moorage_command, parse_command
from moorage.cli.output import print_json, print_line, print_table, write_file
from moorage.cli.startup import log_to_stderr
from moorage.controlplane.plane import find_binaries
from moorage.errors import InputError

_DEFAULT_LABEL = "performance"


def run(args: argparse.Namespace) -> int:
    """Run the chosen workloads; 1 if one fails or is slower than its threshold."""
    log_to_stderr(logging.ERROR)
    if args.scheduler and not args.api:
        raise InputError("--scheduler: only with --api; in process Moorage itself runs")
    label = args.label if args.label is not None else "" if args.workload else _DEFAULT_LABEL
    workloads = [
        workload
        for file in args.config
        for workload in selected(load_workloads(file), args.workload, label)
    ]
    if not workloads:
        files = ", ".join(str(file) for file in args.config)
        raise InputError(f"{files}: no workload is called {args.workload or '*'} with {label!r}")
    if all(workload.fault for workload in workloads):
        raise InputError(workloads[0].fault)
    if args.list:
        _list(workloads)
        return 0
    setting = Setting(timeout=float(args.timeout))
    if args.api:
        binaries = find_binaries()
        command = parse_command(args.scheduler, binaries) if args.scheduler else moorage_command()
        setting = msgspec.structs.replace(setting, binaries=binaries, command=command)
    results = [asyncio.run(run_workload(workload, setting, Progress())) for workload in workloads]
    if args.data_items is not None:
        encoded = msgspec.json.encode(data_items(results))
        write_file(args.data_items, msgspec.json.format(encoded, indent=2))
    if args.json:
        print_json(msgspec.to_builtins(results))
    else:
        _print(results)
    return 0 if all(result.good for result in results) else 1


def _list(workloads: list[PerfWorkload]) -> None:
    rows = [
        (workload.name, ",".join(workload.labels), f"{workload.threshold:g}")
        for workload in workloads
    ]
    print_table(("WORKLOAD", "LABELS", "THRESHOLD"), rows, right="  r")


def _print(results: list[WorkloadResult]) -> None:
    header = ("WORKLOAD", "PODS", "SECONDS", "AVG", "P50", "P90", "P99", "OVERALL")
    rows = []
    for result in results:
        threshold = f"{result.threshold:g}" if result.threshold else ""
        if result.reason:
            rows.append((result.name, *[""] * 7, threshold, BROKEN))
        for phase in result.measured:
            sampled = (phase.average, phase.p50, phase.p90, phase.p99)
            rows.append(
                (
                    f"{result.name}/{phase.name}",
                    f"{phase.scheduled:,}",
                    f"{phase.seconds:.1f}",
                    *("" if value is None else f"{value:,.0f}" for value in sampled),
                    f"{phase.overall:,.0f}",
                    threshold,
                    result.verdict(phase),
                )
            )
    print_table((*header, "THRESHOLD", "RESULT"), rows, right=" rrrrrrrr")
    for result in results:
        for text in (result.reason, *result.notes):
            if text:
                print_line(f"{result.name}: {' '.join(text.split())}")
