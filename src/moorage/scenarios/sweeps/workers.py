"""Who plays the runs of a sweep: processes on this machine or a cluster, by joblib."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from moorage.errors import InputError
from moorage.scenarios.sweeps.playing import PlayedRun, SweepRun, play_run

_CONNECT_SECONDS = 10
_IDLE_SECONDS = 20
"""After that a process ends, also where the one that began it was killed."""
_AT_ONCE_ON_RAY = 4
"""Runs for each CPU until results are told: joblib cannot take them one by one from there."""


class Workers(NamedTuple):
    """Where runs are played."""

    jobs: int = -1
    """Processes on this machine; -1: as many as it has CPUs."""
    backend: str = "processes"
    address: str = ""


def played(workers: Workers, runs: Iterable[SweepRun]) -> Iterator[PlayedRun]:
    """What comes of runs, in the order in which they end."""
    try:
        from joblib import Parallel, delayed, effective_n_jobs
    except ImportError:
        raise _not_installed("sweeps need joblib", "sweep") from None
    calls = (delayed(play_run)(run) for run in runs)
    with _backend(workers):
        if workers.backend != "ray":
            yield from Parallel(return_as="generator_unordered", batch_size=1)(calls)
            return
        with Parallel(batch_size=1) as parallel:
            while some := list(islice(calls, _AT_ONCE_ON_RAY * effective_n_jobs())):
                yield from parallel(some)


@contextmanager
def _backend(workers: Workers) -> Iterator[None]:
    """Have joblib play where it should."""
    from joblib import parallel_config

    if workers.backend == "processes":
        idle = {"idle_worker_timeout": _IDLE_SECONDS}
        with parallel_config(backend="loky", n_jobs=workers.jobs, **idle):
            yield
    elif workers.backend == "dask":
        with _dask(workers.address):
            yield
    else:
        with _ray(workers.address):
            yield


@contextmanager
def _dask(address: str) -> Iterator[None]:
    from joblib import parallel_config

    try:
        from distributed import Client
    except ImportError:
        raise _not_installed("sweeps on Dask need distributed", "dask") from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _nobody_there(address, "Dask scheduler", error) from None
    with client, parallel_config(backend="dask", client=client):
        yield


@contextmanager
def _ray(address: str) -> Iterator[None]:
    from joblib import parallel_config

    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise _not_installed("sweeps on Ray need ray", "ray") from None
    register_ray()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError) as error:
        raise _nobody_there(address, "Ray cluster", error) from None
    try:
        with parallel_config(backend="ray", n_jobs=-1):
            yield
    finally:
        ray.shutdown()


def _not_installed(what: str, extra: str) -> InputError:
    return InputError(f"{what}, which is not installed: pip install 'moorage[{extra}]'")


def _nobody_there(address: str, what: str, error: Exception) -> InputError:
    return InputError(f"--address {address}: no {what}: {' '.join(str(error).split())}")
