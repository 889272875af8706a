"""The files that `moorage simulate` is told to write: tables, and a report."""

import argparse

from moorage.model.meta import Json
from moorage.scenarios.report import report, report_library, write_report
from moorage.scenarios.result_tables import (
    check_table_path,
    run_table,
    sample_table,
    write_table,
)


class ResultFiles:
    """Looks before the runs whether they can be written: no long run should be in vain."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._runs, self._samples, self._report = args.runs, args.samples, args.report
        self._title = args.scenario.name
        for path in (self._runs, self._samples):
            if path is not None:
                check_table_path(path)
        self._library = "" if self._report is None else report_library(self._report)

    def write(self, result: Json) -> None:
        """Write all of them."""
        if self._runs is not None:
            write_table(self._runs, run_table(result))
        if self._samples is not None:
            write_table(self._samples, sample_table(result))
        if self._report is not None:
            write_report(self._report, report(result, self._title, self._library))
