"""Scenarios: what a simulation is of.

Owns the document's form, which is also its JSON schema. Times are durations such as `90s` or
`1h30m` since the beginning.
"""

from typing import Any, Literal

import msgspec


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
    config: str | dict[str, Any] = ""
    """A KubeSchedulerConfiguration or its file; left out: kube-scheduler's defaults."""


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


def scenario_schema() -> dict[str, Any]:
    """The JSON schema of scenarios."""
    return msgspec.json.schema(Scenario)
