"""Keeps NumPy's linear algebra from starting threads of its own.

Owns one environment variable, which must be set before NumPy is loaded. Nothing here multiplies
matrices, and OpenBLAS' threads spin while they wait for work: they took a fifth of the processor
time of a scheduler's start.
"""

import os


def spare_threads() -> None:
    """Ask for a single thread, unless whoever started the process has asked for something else."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
