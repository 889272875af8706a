"""Scenarios: what a simulation is of, read from a YAML file.

Owns the document's form, which is also its JSON schema, and what is said of one that is wrong.
Times are durations such as `90s` or `1h30m` since the beginning.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec
import yaml

from moorage.errors import InputError
from moorage.model.duration import parse_duration
from moorage.model.quantity import parse_milli

API_VERSION = "simulate.moorage.io/v1alpha1"
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]")


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a scenario; there are no other fields."""


class ScenarioCluster(_Part, frozen=True):
    """What is there in the beginning."""

    manifests: tuple[str, ...] = ()
    """Files or directories, relative to the scenario's."""
    nodes: tuple[str, ...] = ()
    """Shapes, such as `10:cpu=32,memory=128Gi,gpu=8,name=large`."""


class PodSize(_Part, frozen=True):
    """What some of the pods ask for."""

    requests: dict[str, str]
    weight: float = 1.0


class Times(_Part, frozen=True):
    """A distribution of durations: one of these."""

    constant: str = ""
    exponential: str = ""
    """The mean."""
    uniform: tuple[str, str] | None = None
    lognormal: tuple[str, float] | None = None
    """The median, and the standard deviation of the logarithm."""


class Poisson(_Part, frozen=True):
    """Pods that come one by one at random."""

    name: str
    per_hour: float
    until: str
    sizes: tuple[PodSize, ...]
    start: str = "0s"
    run_time: Times | None = None
    """Left out: they run for ever."""
    template: dict[str, Any] = {}
    """`metadata` and `spec` of the pods, beside requests and run time."""


class TraceOfPods(_Part, frozen=True):
    """Pods as a CSV file lists them: columns at, name, cpu, memory, and perhaps runTime."""

    file: str


class Arrival(_Part, frozen=True):
    """Objects that come: manifests at a time, or pods by a generator or a trace."""

    at: str = "0s"
    manifests: tuple[str, ...] = ()
    poisson: Poisson | None = None
    trace: TraceOfPods | None = None


class ScenarioEvent(_Part, frozen=True):
    """What befalls a node."""

    at: str
    node: str
    what: Literal["fail", "repair", "drain", "cordon", "uncordon", "taint", "untaint"]
    taint: str = ""
    """Such as `key=value:NoSchedule`."""


class ScenarioScheduler(_Part, frozen=True):
    """A configuration to try."""

    name: str
    config: str = ""
    """A KubeSchedulerConfiguration; left out: kube-scheduler's defaults."""


class KubeletTimes(_Part, frozen=True):
    """How long pods take to start, and at most to end."""

    start: str = "0s"
    grace: str = "1s"


class Repetitions(_Part, frozen=True):
    """How often, with seeds one after the other."""

    count: int = 1
    seed: int = 0


class Stop(_Part, frozen=True):
    """When to end if there is still something to happen."""

    after: str = "8760h"


class Scenario(_Part, frozen=True):
    """All of it."""

    api_version: Literal["simulate.moorage.io/v1alpha1"]
    kind: Literal["Scenario"]
    cluster: ScenarioCluster
    arrivals: tuple[Arrival, ...] = ()
    events: tuple[ScenarioEvent, ...] = ()
    schedulers: tuple[ScenarioScheduler, ...] = (ScenarioScheduler(name="default"),)
    kubelets: KubeletTimes = KubeletTimes()
    repetitions: Repetitions = Repetitions()
    stop: Stop = Stop()


class ScenarioFile:
    """A scenario, and where each of its fields stands."""

    def __init__(self, path: Path) -> None:
        """Read it; `InputError` says what is wrong, and where."""
        self.path = path
        try:
            text = path.read_text("utf-8")
            self._tree = yaml.compose(text, Loader=yaml.SafeLoader)
            plain = yaml.safe_load(text)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: expected text in UTF-8") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or "this is none"
            raise InputError(f"{path}{line}: expected YAML: {problem}") from None
        try:
            self.scenario = msgspec.convert(plain, Scenario)
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `$")
            self.refuse(place.rstrip("`").removeprefix("."), what[:1].lower() + what[1:])
        self._check()

    def refuse(self, field: str, what: str) -> NoReturn:
        """Say what is wrong with a field."""
        name = f" {field}:" if field else ""
        raise InputError(f"{self.path}:{self._line(field)}:{name} {what}")

    def seconds(self, text: str, field: str) -> float:
        """A duration of the scenario."""
        try:
            found = parse_duration(text).seconds
        except ValueError:
            found = -1.0
        if found < 0:
            self.refuse(field, f"expected a duration such as 90s or 1h30m, got {text!r}")
        return found

    def file(self, name: str) -> str:
        """A file that the scenario names, which is relative to it."""
        return str(self.path.parent / name)

    def _line(self, field: str) -> int:
        node: Any = self._tree
        for name, index in _STEP.findall(f".{field}"):
            if name and isinstance(node, yaml.MappingNode):
                found = [value for key, value in node.value if key.value == name]
            elif index.isdecimal() and isinstance(node, yaml.SequenceNode):
                found = node.value[int(index) : int(index) + 1]
            else:
                found = []
            if not found:
                break
            node = found[0]
        return 1 if node is None else int(node.start_mark.line) + 1

    def _check(self) -> None:
        """What types cannot express."""
        scenario = self.scenario
        for i, arrival in enumerate(scenario.arrivals):
            self._check_arrival(arrival, f"arrivals[{i}]")
        for i, event in enumerate(scenario.events):
            self.seconds(event.at, f"events[{i}].at")
            if (event.what in ("taint", "untaint")) != bool(_taint_parts(event.taint)):
                self.refuse(f"events[{i}].taint", "expected key=value:Effect where what is a taint")
        names = [one.name for one in scenario.schedulers]
        if not names or len(set(names)) < len(names):
            self.refuse("schedulers", "expected at least one, and each name once")
        if scenario.repetitions.count < 1:
            self.refuse("repetitions.count", "expected at least 1")
        self.seconds(scenario.stop.after, "stop.after")
        self.seconds(scenario.kubelets.start, "kubelets.start")
        self.seconds(scenario.kubelets.grace, "kubelets.grace")

    def _check_arrival(self, arrival: Arrival, field: str) -> None:
        self.seconds(arrival.at, f"{field}.at")
        given = (bool(arrival.manifests), arrival.poisson is not None, arrival.trace is not None)
        if sum(given) != 1:
            self.refuse(field, "expected one of manifests, poisson and trace")
        if arrival.poisson is None:
            return
        poisson, field = arrival.poisson, f"{field}.poisson"
        if poisson.per_hour <= 0:
            self.refuse(f"{field}.perHour", "expected a number above 0")
        self.seconds(poisson.start, f"{field}.start")
        self.seconds(poisson.until, f"{field}.until")
        if not poisson.sizes:
            self.refuse(f"{field}.sizes", "expected at least one")
        for i, size in enumerate(poisson.sizes):
            if size.weight <= 0:
                self.refuse(f"{field}.sizes[{i}].weight", "expected a number above 0")
            self.check_requests(size.requests, f"{field}.sizes[{i}].requests")
        if poisson.run_time is not None:
            self._check_times(poisson.run_time, f"{field}.runTime")

    def check_requests(self, requests: dict[str, str], field: str) -> None:
        """Are these amounts of resources?"""
        for name, text in requests.items():
            try:
                amount = parse_milli(text)
            except ValueError:
                amount = -1
            if amount < 0:
                self.refuse(f"{field}.{name}", f"expected a quantity such as 500m, got {text!r}")

    def _check_times(self, times: Times, field: str) -> None:
        given = {
            "constant": (times.constant,) if times.constant else (),
            "exponential": (times.exponential,) if times.exponential else (),
            "uniform": times.uniform or (),
            "lognormal": times.lognormal[:1] if times.lognormal else (),
        }
        if sum(map(bool, given.values())) != 1:
            self.refuse(field, f"expected one of {', '.join(given)}")
        for name, texts in given.items():
            for text in texts:
                self.seconds(text, f"{field}.{name}")


def parse_taint(text: str) -> dict[str, str]:
    """A taint as kubectl writes it."""
    key, value, effect = _taint_parts(text)
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _taint_parts(text: str) -> Sequence[str]:
    found = re.fullmatch(r"([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)", text)
    return () if found is None else (found[1], found[2] or "", found[3])


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of scenarios."""
    return msgspec.json.schema(Scenario)
