"""`make fuzz`: every target under fire for its part of the time, on several cores.

Owns the processes: starts them, ends those that hang or die, prints what was found and saves it.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from random import SystemRandom

from fuzz.cases import CASES, save
from fuzz.targets import NAMES, SHARES
from fuzz.worker import SHARED_BYTES, Count, Found, Shared, work

_STUCK_SECONDS = 30.0
"""Of wall time, after which a process counts as hanging where its own watchdog cannot end it."""

_OWN_FAULT = 1
"""How a process ends that raised where the product is not called."""


@dataclass
class Tally:
    """What is known of a target."""

    inputs: int = 0
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)


class Fuzzer:
    """The processes of one run; `folder` is where cases go."""

    def __init__(self, seed: int, seconds: float, jobs: int, names: list[str], folder: Path):
        self.tallies = {name: Tally() for name in names}
        self._seed = seed
        self._jobs = jobs
        self._folder = folder
        whole = sum(SHARES[name] for name in names)
        self._plan = [(name, seconds * SHARES[name] / whole) for name in names]

    def run(self) -> bool:
        """Try everything; false if something was found."""
        for name, seconds in self._plan:
            self._target(name, seconds)
        return not any(tally.faults for tally in self.tallies.values())

    def _target(self, name: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        slots = [_Slot(name, f"{self._seed}/{slot}", seconds) for slot in range(self._jobs)]
        began = time.monotonic()
        while slots:
            for slot in list(slots):
                if self._look(slot, until):
                    continue
                slots.remove(slot)
                left = until - time.monotonic()
                if slot.broken and left > 1:
                    slots.append(_Slot(name, f"{slot.seed}+", left))
            time.sleep(0.05)
        tally = self.tallies[name]
        tally.seconds = time.monotonic() - began
        rate = tally.inputs / max(tally.seconds, 0.001)
        _say(f"{name:10} {tally.inputs:9,} inputs {rate:9,.0f}/s {len(tally.faults):3} faults")

    def _look(self, slot: "_Slot", until: float) -> bool:
        """Take in what a process says; false if it is over."""
        alive = slot.process.is_alive()  # asked first, so that its last messages are read below
        for message in slot.messages():
            if isinstance(message, Count):
                self.tallies[slot.name].inputs += message.inputs
            else:
                self._found(slot.name, message)
        started, data = slot.shared.current()
        now = time.monotonic()
        if started and now - started > _STUCK_SECONDS:
            slot.end()
            self._found(slot.name, Found(f"{slot.name}: hang", "it hangs", data, repeats=False))
            return False
        if alive:
            return True
        if slot.process.exitcode == _OWN_FAULT:
            slot.end()
            raise RuntimeError(f"the fuzzer itself fails at {slot.name}; the traceback is above")
        if slot.process.exitcode:
            slot.broken = True
            fault = f"the process ended with {slot.process.exitcode}"
            self._found(slot.name, Found(f"{slot.name}: {fault}", fault, data, repeats=False))
        slot.end()
        return False

    def _found(self, name: str, found: Found) -> None:
        faults = self.tallies[name].faults
        if found.signature in faults:
            return
        path = save(self._folder, name, found.fault, found.data)
        faults[found.signature] = found.fault
        again = "" if found.repeats else "\n    not shown again by this input alone"
        _say(f"FOUND {found.signature}\n    {found.fault}{again}\n    saved as {path}")


class _Slot:
    """A process and what it says."""

    def __init__(self, name: str, seed: str, seconds: float) -> None:
        self.name, self.seed = name, seed
        self.broken = False
        handle, path = tempfile.mkstemp(prefix="moorage-fuzz-")
        os.ftruncate(handle, SHARED_BYTES)
        os.close(handle)
        self._path = Path(path)
        self.shared = Shared(self._path)
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe(duplex=False)
        arguments = (name, f"{seed}/{name}", seconds, self._path, theirs)
        self.process: SpawnProcess = context.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def messages(self) -> list[Count | Found]:
        said: list[Count | Found] = []
        try:
            while self._pipe.poll():
                said.append(self._pipe.recv())
        except (EOFError, OSError):
            pass
        return said

    def end(self) -> None:
        if self.process.is_alive():
            self.broken = True
            self.process.kill()
        self.process.join()
        self._path.unlink(missing_ok=True)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """The command; 1 if a fault was found."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long, in all")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes, at least 1"
    )
    parser.add_argument("--target", action="append", choices=NAMES, help="only this; repeatable")
    parser.add_argument("--cases", type=Path, default=CASES, help="where to save what was found")
    options = parser.parse_args(arguments)
    seed = SystemRandom().randrange(2**32) if options.seed is None else options.seed
    names = options.target or list(NAMES)
    _say(f"seed {seed}, {options.seconds:g} s, {options.jobs} processes")
    fuzzer = Fuzzer(seed, options.seconds, max(1, options.jobs), names, options.cases)
    clean = fuzzer.run()
    inputs = sum(tally.inputs for tally in fuzzer.tallies.values())
    faults = sum(len(tally.faults) for tally in fuzzer.tallies.values())
    _say(f"{inputs:,} inputs, {faults} faults; seed {seed} repeats the run")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
