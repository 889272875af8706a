"""Scenarios, sweeps, traces and recordings: read and begun, or refused in one sentence."""

import gzip
import json
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzz.mutations import encode, mutate_bytes, mutate_json
from fuzz.target import TESTS, PropertyError, Target
from moorage.config import default_config
from moorage.errors import MoorageError
from moorage.recordings.comparison import compare
from moorage.recordings.recording_file import Recording
from moorage.scenarios.generators import generated
from moorage.scenarios.runs import configuration
from moorage.scenarios.scenario_file import ScenarioFile
from moorage.scenarios.sweeps.candidates import candidates
from moorage.scenarios.sweeps.sweep_file import SweepFile
from moorage.scenarios.traces.openb import openb_changes, read_order
from moorage.scenarios.traces.plain import plain_changes
from moorage.simulator.world import World

_EXAMPLES = TESTS.parent / "examples"
_POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "b", "uid": "c"}}
_SPEC = {"schedulerName": "default-scheduler", "containers": [{"name": "c"}]}
_ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}
_RECORDING = [
    {"apiVersion": "moorage.io/recording-v1", "kind": "Recording", "at": 1.0, "kinds": ["Pod"]},
    {
        "at": 1.0,
        "object": {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": "n"},
            "status": {"allocatable": _ROOM},
        },
    },
    {"at": 1.0, "complete": True},
    {"at": 2.0, "object": {**_POD, "spec": _SPEC}},
    {"at": 3.0, "object": {**_POD, "spec": {**_SPEC, "nodeName": "n"}}},
    {"at": 4.0, "deleted": {"kind": "Pod", "name": "a", "namespace": "b"}},
]
_TRACES = {
    "plain": b"at,name,cpu,memory,runTime\n5m,a,3,6Gi,20m\n1h,b,500m,1Gi,\n",
    "openb": b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,"
    b"deletion_time\na,1000,1024,1,500,T4|V100,LS,5,50\nb,1000,1024,0,0,,BE,6,60\n",
    "order": b"0 1 1\n1 0\n",
}
_TRIED = 50


class Scenario(Target):
    """What people write for simulations."""

    name = "scenario"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="moorage-fuzz-"))
        self._texts = {
            "scenario": (_EXAMPLES / "scenarios/scenario.yaml").read_bytes(),
            "sweep": (_EXAMPLES / "sweep/sweep.yaml").read_bytes(),
            "recording": b"\n".join(json.dumps(line).encode() for line in _RECORDING),
            **_TRACES,
        }

    def prepare(self, random: Random) -> None:
        """The files that the examples name."""
        del random
        for part in ("scenarios", "sweep"):
            shutil.copytree(_EXAMPLES / part, self._folder, dirs_exist_ok=True)

    def make(self, random: Random) -> bytes:
        """A sort, and a text of it."""
        sort = random.choice(("scenario",) * 4 + ("sweep", "recording", *_TRACES))
        text = self._texts[sort]
        if sort in _TRACES or random.random() < 0.3:
            text = mutate_bytes(text, random, list(self._texts.values()))
        elif sort == "recording":
            lines = text.splitlines()
            at = random.randrange(len(lines))
            lines[at] = encode(mutate_json(json.loads(lines[at]), random))
            text = b"\n".join(lines)
        else:
            text = encode(mutate_json(yaml.safe_load(text), random))
        return sort.encode() + b"\n" + text

    def check(self, data: bytes) -> None:
        """The text of its sort."""
        sort, _, text = data.partition(b"\n")
        name = sort.decode(errors="replace")
        path = self._folder / "input.txt"
        path.write_bytes(gzip.compress(text + b"\n") if name == "recording" else text)
        try:
            _try(name, path)
        except (MoorageError, RecursionError) as error:
            if not str(error):
                raise PropertyError("an error without a sentence") from error


def _try(sort: str, path: Path) -> None:
    found: Any = ()
    match sort:
        case "scenario":
            file = ScenarioFile(path)
            for scheduler in file.scenario.schedulers:
                configuration(file, scheduler)
            for arrival in file.scenario.arrivals:
                if arrival.generate is not None:
                    for _ in islice(generated(file, arrival.generate, Random(1)), _TRIED):
                        pass
        case "sweep":
            found = candidates(SweepFile(path))
        case "recording":
            found = compare(Recording(path), World(default_config())).decisions
        case "plain":
            found = plain_changes(path)
        case "openb":
            found = openb_changes(None, path)
        case "order":
            read_order(path, 2, 2)
    for _ in islice(found, _TRIED):
        pass


TARGET = Scenario
