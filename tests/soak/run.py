"""One soak from its start to its verdicts."""

import asyncio
import random
import shutil
import sys
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import aiohttp

from moorage.controlplane.processes import free_port
from soak.api import Api
from soak.churn import Churn
from soak.election import MOST_DEAF, MOST_WITHOUT_LEADER, Election
from soak.faults import Faults
from soak.memory import MOST_GROWTH, Sample, growth, resident_mib, write_csv, write_svg
from soak.processes import SchedulerProcess, api_server, whole_cluster
from soak.proxy import Proxy
from soak.watching import LONGEST_WAIT, Watcher

_SAMPLE_SECONDS = 1.0
_IDLE_SECONDS = 8.0
_PROGRESS_SECONDS = 30.0
_SETTLE_SECONDS = 90.0
_LOST = "Leaderelection lost"


class Options(NamedTuple):
    """What is asked for."""

    seconds: float
    rate: float = 25.0
    seed: int = 1
    folder: Path = Path("build/soak")
    up: bool = False


class Verdict(NamedTuple):
    """One thing that must hold, and whether it did."""

    holds: bool
    sentence: str


async def run(options: Options) -> int:
    """Run an API server and two schedulers under churn and faults; memory goes to a CSV and SVG."""
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=20), read_bufsize=2**22
    ) as session:
        soak = Soak(options, session)
        try:
            verdicts = await soak.run()
        finally:
            soak.stop()
    for verdict in verdicts:
        _say(f"{'ok    ' if verdict.holds else 'FAILED'} {verdict.sentence}")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


class Soak:
    """The parts put together."""

    def __init__(self, options: Options, session: aiohttp.ClientSession) -> None:
        self._options = options
        self._begin = time.monotonic()
        port = free_port()
        make = whole_cluster if options.up else api_server
        self._server = make(options.folder, port)
        self._proxy = Proxy(port)
        self._session = session
        self._api = Api(session, f"http://127.0.0.1:{port}")
        self._watcher = Watcher(self._api)
        self._churn = Churn(self._api, self._watcher, options.rate, options.seed)
        self._schedulers: list[SchedulerProcess] = []
        self._samples: list[Sample] = []
        self._crashes: list[str] = []
        self._overdue: set[str] = set()

    def stop(self) -> None:
        """End the processes."""
        for process in (*self._schedulers, self._server):
            process.stop()

    async def run(self) -> list[Verdict]:
        """The whole of it."""
        self._server.start()
        await self._api.persistently("GET", "/version")
        await self._churn.prepare()
        async with AsyncExitStack() as stack:
            await self._proxy.start()
            stack.push_async_callback(self._proxy.stop)
            faults, election = await self._start_schedulers()
            await self._work(faults, election)
        return self._verdicts(faults, election)

    async def _start_schedulers(self) -> tuple[Faults | None, Election | None]:
        if self._options.up:
            return None, None
        server = f"http://127.0.0.1:{self._proxy.port}"
        for name in ("scheduler-a", "scheduler-b"):
            self._schedulers.append(SchedulerProcess(name, self._options.folder, server))
            self._schedulers[-1].start()
        election = Election(self._session, self._api, self._schedulers)
        generator = random.Random(self._options.seed)
        faults = Faults(
            self._api, self._proxy, self._server, self._schedulers, election, generator, self._note
        )
        return faults, election

    async def _work(self, faults: Faults | None, election: Election | None) -> None:
        jobs: list[Coroutine[None, None, None]] = [self._watcher.run(), self._sample(election)]
        if faults is not None and election is not None:
            jobs += [faults.run(self._options.seconds), election.run()]
        self._begin = time.monotonic() + _IDLE_SECONDS
        background = [asyncio.create_task(job) for job in jobs]
        await asyncio.sleep(_IDLE_SECONDS)
        churning = asyncio.create_task(self._churn.run())
        try:
            await asyncio.wait(
                [churning, *background[:2]],
                timeout=self._options.seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            self._churn.finish()
            self._note("no more new pods")
            async with asyncio.timeout(_SETTLE_SECONDS):
                await churning
                await self._churn.settle()
                while self._watcher.waiting():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            self._note("not settled in time")
        finally:
            for task in background:
                task.cancel()
            for outcome in await asyncio.gather(*background, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome

    async def _sample(self, election: Election | None) -> None:
        shown = self._begin
        while True:
            self._restart_ended(election)
            now = time.monotonic()
            mib = {self._server.name: resident_mib(self._server.pid)}
            leader = None if election is None else election.leader
            for scheduler in self._schedulers:
                role = "leader" if scheduler is leader else "standby"
                mib[role] = resident_mib(scheduler.pid)
            mib = {name: mib.get(name, 0.0) for name in self._names}
            self._samples.append(Sample(now - self._begin, self._watcher.pods, mib))
            self._overdue.update(self._watcher.waiting(LONGEST_WAIT))
            if now - shown >= _PROGRESS_SECONDS:
                shown = now
                sizes = ", ".join(f"{name} {size:.0f} MiB" for name, size in mib.items())
                self._note(
                    f"{self._churn.created} pods created, {self._watcher.pods} there; {sizes}"
                )
                self._write()
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _restart_ended(self, election: Election | None) -> None:
        """Start again what has ended, as a kubelet would: a leader that loses its lease ends."""
        for process in (self._server, *self._schedulers):
            log_end = process.ended()
            if log_end is None:
                continue
            if _LOST not in log_end:
                self._crashes.append(process.name)
            self._note(f"{process.name} ended and is started again")
            process.start()
            if election is not None and process is not self._server:
                election.excuse(process.name)

    @property
    def _names(self) -> list[str]:
        return [self._server.name, *(("leader", "standby") if self._schedulers else ())]

    def _note(self, text: str) -> None:
        _say(f"{time.monotonic() - self._begin:6.0f} s  {text}")

    def _write(self) -> None:
        write_csv(self._options.folder / "memory.csv", self._samples, self._names)
        write_svg(self._options.folder / "memory.svg", self._samples, self._names)

    def _verdicts(self, faults: Faults | None, election: Election | None) -> list[Verdict]:
        self._write()
        watcher = self._watcher
        waiting = watcher.waiting()
        verdicts = [
            Verdict(
                watcher.bindings > 0,
                f"{self._churn.created} pods created, {watcher.bindings} bindings, "
                f"{watcher.evictions} evictions, {0 if faults is None else faults.count} faults",
            ),
            Verdict(not self._crashes, f"ended by themselves: {_shown(self._crashes)}"),
            Verdict(not watcher.bound_twice, f"bound twice: {_shown(watcher.bound_twice)}"),
            Verdict(not watcher.lost, f"lost: {_shown(watcher.lost)}"),
            Verdict(not waiting, f"left waiting at the end: {_shown(waiting)}"),
            Verdict(
                not self._overdue,
                f"waited longer than {LONGEST_WAIT:.0f} s: {_shown(sorted(self._overdue))} "
                f"(longest wait {watcher.longest_wait:.1f} s)",
            ),
        ]
        if election is not None:
            deaf = max(election.deaf.values(), default=0.0)
            verdicts += [
                Verdict(not election.several, f"two leaders at once: {_shown(election.several)}"),
                Verdict(
                    election.longest_gap <= MOST_WITHOUT_LEADER,
                    f"longest time without a valid lease {election.longest_gap:.1f} s "
                    f"(allowed {MOST_WITHOUT_LEADER:.0f} s), {election.changes} leaders",
                ),
                Verdict(deaf <= MOST_DEAF, f"longest silence of /livez {deaf:.1f} s"),
            ]
        for name in self._names:
            seen = growth(self._samples, name)
            sizes = (
                f"{seen.idle:.0f} MiB before the first pod, {seen.start:.0f} MiB at the start, "
                f"{seen.end:.0f} MiB at the end"
            )
            sentence = f"memory of {name}: {sizes} (allowed {MOST_GROWTH:g} times)"
            verdicts.append(Verdict(seen.flat, sentence))
        return verdicts


def _shown(names: list[str]) -> str:
    if not names:
        return "none"
    return f"{len(names)} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
