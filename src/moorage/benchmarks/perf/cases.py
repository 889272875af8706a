"""A performance-config.yaml: its test cases and workloads, read and checked before anything runs.

Whatever is wrong is one sentence that names the file and the field. Templates are not read here.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from moorage.benchmarks.perf.operations import (
    CreatePods,
    Operation,
    OperationList,
    PerfValue,
    StopCollectingMetrics,
    converted,
)
from moorage.errors import InputError
from moorage.model.meta import Json
from moorage.simulator.documents import parse_documents

# Parameters that upstream's Go code reads, beside the op list.
OUTSIDE_THE_LIST = {"numNodeDeclaredFeatures"}


class CaseSelector(PerfValue, frozen=True):
    """What a threshold is compared with."""

    name: str = "SchedulingThroughput"
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False


class WorkloadCase(PerfValue, frozen=True):
    """One size of a test case."""

    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: CaseSelector | None = None
    feature_gates: dict[str, bool] = {}


class PerfCase(PerfValue, frozen=True):
    """An op list and the sizes it is run in."""

    name: str
    workload_template: list[Json]
    workloads: list[WorkloadCase]
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: Any = None
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: list[str] = []
    default_threshold_metric_selector: CaseSelector | None = None


class PerfWorkload(msgspec.Struct, frozen=True):
    """A workload that can be run."""

    file: Path
    case: PerfCase
    workload: WorkloadCase
    operations: tuple[Operation, ...] = ()
    fault: str = ""
    """Why it cannot be run, though others of its file can."""

    @property
    def name(self) -> str:
        """As upstream calls it: `SchedulingBasic/500Nodes`."""
        return f"{self.case.name}/{self.workload.name}"

    @property
    def labels(self) -> list[str]:
        return [*self.case.labels, *self.workload.labels]

    @property
    def feature_gates(self) -> dict[str, bool]:
        return {**self.case.feature_gates, **self.workload.feature_gates}

    @property
    def threshold(self) -> float:
        """What upstream's CI demands; 0 for nothing."""
        given = self.workload.threshold
        if isinstance(given, dict):
            # By topic; upstream's name for a topic is that of the suite's folder.
            return given.get(self.file.resolve().parent.name, 0.0)
        return given

    @property
    def selector(self) -> CaseSelector:
        """What the threshold is about."""
        return (
            self.workload.threshold_metric_selector
            or self.case.default_threshold_metric_selector
            or CaseSelector()
        )

    @property
    def folder(self) -> Path:
        """What paths in the file are relative to."""
        return self.file.parent


def load_workloads(file: Path) -> list[PerfWorkload]:
    """Every workload of a file, its parameters put in."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text (byte {error.start})") from None
    documents = parse_documents(text, str(file), is_json=False)
    if len(documents) != 1 or not isinstance(documents[0], list) or not documents[0]:
        raise InputError(f"{file}: expected a list of test cases")
    cases = [_case(written, file) for written in documents[0]]
    _refuse_doubles([case.name for case in cases], str(file), "test case")
    return [workload for case in cases for workload in _workloads(case, file)]


def _case(written: Any, file: Path) -> PerfCase:
    name = written.get("name") if isinstance(written, dict) else None
    case: PerfCase = converted(written, PerfCase, f"{file}: {name or 'a test case without a name'}")
    return case


def _refuse_doubles(names: Sequence[str], where: str, what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: {what} {name} is given twice")


def _workloads(case: PerfCase, file: Path) -> Iterator[PerfWorkload]:
    where = f"{file}: {case.name}"
    if not case.workloads:
        raise InputError(f"{where}: workloads: expected at least one")
    _refuse_doubles([workload.name for workload in case.workloads], where, "workload")
    for workload in case.workloads:
        try:
            operations = _operations(case, workload, f"{where}/{workload.name}")
        except InputError as error:
            yield PerfWorkload(file, case, workload, fault=str(error))
        else:
            yield PerfWorkload(file, case, workload, operations)


def _operations(case: PerfCase, workload: WorkloadCase, where: str) -> tuple[Operation, ...]:
    listed = OperationList(case.workload_template, workload.params, where)
    operations = tuple(listed.read())
    if not any(_measures(operation) for operation in operations):
        raise InputError(f"{where}: workloadTemplate: no operation collects metrics")
    for name in workload.params.keys() - listed.used - OUTSIDE_THE_LIST:
        raise InputError(f"{where}: params.{name} is used by no operation")
    return operations


def _measures(operation: Operation) -> bool:
    if isinstance(operation, CreatePods):
        return operation.collect_metrics
    return isinstance(operation, StopCollectingMetrics)


def selected(
    workloads: Sequence[PerfWorkload], name: str | None, labels: str
) -> list[PerfWorkload]:
    """Those of a name (a test case, case/workload, or a pattern) that have the labels.

    Labels as upstream takes them: `performance,-short` has the first and lacks the second.
    """
    return [
        workload
        for workload in workloads
        if _is_named(workload, name) and _has_labels(workload.labels, labels)
    ]


def _is_named(workload: PerfWorkload, name: str | None) -> bool:
    if name is None:
        return True
    return name == workload.case.name or fnmatchcase(workload.name, name)


def _has_labels(labels: Sequence[str], wanted: str) -> bool:
    for word in filter(None, (word.strip() for word in wanted.split(","))):
        present = word.lstrip("+-") in labels
        if present == word.startswith("-"):
            return False
    return True
