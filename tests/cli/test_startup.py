"""Loading NumPy for a command starts no threads beside the one that works."""

import os
import subprocess
import sys

import pytest

COUNT = """
import sys, threading
from moorage.cli.main import main
main(["scheduler", "--version"])
import numpy
print(len(__import__("os").listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are listed on Linux only")
@pytest.mark.parametrize(("asked", "alone"), [(None, True), ("2", False)])
def test_linear_algebra_gets_no_threads_unless_asked_for(asked: str | None, alone: bool) -> None:
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if asked is not None:
        env["OPENBLAS_NUM_THREADS"] = asked
    run = subprocess.run(
        [sys.executable, "-c", COUNT], env=env, capture_output=True, text=True, check=True
    )
    threads = int(run.stdout.split()[-1])
    # With one processor there is one thread anyway.
    assert (threads == 1) is (alone or len(os.sched_getaffinity(0)) == 1)
