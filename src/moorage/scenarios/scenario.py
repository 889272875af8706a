"""Scenarios: what a simulation is of.

Owns the document's form, which is also its JSON schema. Times are durations such as `90s` or
`1h30m` since the beginning.
"""

from typing import Any, Literal

import msgspec


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a scenario; there are no other fields."""


class NodeGroup(_Part, frozen=True):
    """Equal nodes, as many as the load needs."""

    name: str
    shape: str
    """Such as `cpu=16,memory=64Gi,price=0.77`; the price is per hour."""
    max: int
    min: int = 0
    start_up: str = "90s"
    """How long a node takes from the order until it is there."""


class ScenarioCluster(_Part, frozen=True):
    """What is there in the beginning."""

    manifests: tuple[str, ...] = ()
    """Files or directories, relative to the scenario's."""
    nodes: tuple[str, ...] = ()
    """Shapes, such as `10:cpu=32,memory=128Gi,gpu=8,name=large,price=12.5`."""
    node_groups: tuple[NodeGroup, ...] = ()


class AutoscalerRule(_Part, frozen=True):
    """When groups get more nodes, and when fewer."""

    every: str = "10s"
    """How often it looks."""
    below: float = 0.5
    """A node is hardly used if less than this share of its CPU and of its memory is requested."""
    unneeded: str = "10m"
    """How long a node must have been hardly used before it goes."""
    after_start: str = "10m"
    """How long no node goes after some were started."""


class Drawn(_Part, frozen=True):
    """How durations or amounts are drawn: by one of these."""

    constant: str = ""
    exponential: str = ""
    """The mean."""
    uniform: tuple[str, str] | None = None
    lognormal: tuple[str, float] | None = None
    """The median, and the standard deviation of the logarithm."""


class PodSize(_Part, frozen=True):
    """What some of the pods ask for."""

    requests: dict[str, str | Drawn]
    weight: float = 1.0


class Rate(_Part, frozen=True):
    """How often something comes: at random, perhaps more at some hours, perhaps many at once."""

    per_hour: float
    """How often on average."""
    swing: float = 0.0
    """How far the rate rises and falls within a period, in shares of the average (0 to 1)."""
    peak: str = "12h"
    """When the rate is highest."""
    period: str = "24h"
    burst: int = 1
    """How many come each time."""
    within: str = "0s"
    """The time in which the whole burst comes."""


WITH_NODES = ("openb", "borg")
"""Layouts of traces that have a file of nodes."""
IN_SHARES = ("azure", "borg")
"""Layouts of traces that tell sizes in shares of a machine."""


class TraceOfPods(_Part, frozen=True):
    """What came and went elsewhere, as files of one of several layouts tell."""

    file: str
    layout: Literal["csv", "openb", "azure", "borg", "kwok", "simkube", "recording"] = "csv"
    nodes: str = ""
    """The file of the nodes, where a layout has one; left out: the nodes are the cluster's."""
    types: str = ""
    """The file of the table vmType, for azure as CSV."""
    machine: dict[str, str] = {}
    """`cpu` and `memory` of the machine that a layout tells shares of."""
    until: str = ""
    """What happened later is left out."""
    sample: float = 1.0
    """The share of the pods that is taken."""


class Generator(_Part, frozen=True):
    """Pods or workloads that come at random."""

    name: str
    """What comes is called so, and numbered."""
    rate: Rate
    until: str
    start: str = "0s"
    sizes: tuple[PodSize, ...] = ()
    like: TraceOfPods | None = None
    """Instead of sizes: each is one of these pods, with its requests and its run time."""
    run_time: Drawn | None = None
    """Left out: they run for ever."""
    template: dict[str, Any] = {}
    """`metadata` and `spec` of the pods, beside requests and run time."""
    objects: tuple[dict[str, Any], ...] = ()
    """Instead of a pod: manifests, `$(NAME)` in them is the name; their pods get the requests."""
    stay: Drawn | None = None
    """When what came is deleted; left out: never."""


class Arrival(_Part, frozen=True):
    """Objects that come: manifests at a time, or pods by a generator or a trace."""

    at: str = "0s"
    manifests: tuple[str, ...] = ()
    generate: Generator | None = None
    trace: TraceOfPods | None = None


class ScenarioEvent(_Part, frozen=True):
    """What befalls nodes: one by its name, a group or shape of them, or all with some labels."""

    at: str
    what: Literal[
        "fail",
        "repair",
        "drain",
        "cordon",
        "uncordon",
        "taint",
        "untaint",
        "upgrade",
        "reclaim",
        "price",
    ]
    node: str = ""
    group: str = ""
    """The name of a node group or of a shape."""
    selector: str = ""
    """Labels as for `kubectl -l`, such as `topology.kubernetes.io/zone=zone-a`."""
    count: int | None = None
    """So many of them, by chance; left out: all."""
    taint: str = ""
    """Such as `key=value:NoSchedule`."""
    at_once: int = 1
    """How many nodes an upgrade takes at a time."""
    gone: str = "5m"
    """How long an upgrade keeps each node away."""
    notice: str = "2m"
    """How long before the end it is known that a node is reclaimed."""
    price: float | None = None
    """The new price per hour, of nodes of the group that come later, too."""


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
    pending: int | None = None
    """End when more pods than this wait for a node."""
    finished: bool = False
    """End when everything has come and no pod is left that has not finished."""


class Scenario(_Part, frozen=True):
    """All of it."""

    api_version: Literal["simulate.moorage.io/v1alpha1"]
    kind: Literal["Scenario"]
    cluster: ScenarioCluster
    arrivals: tuple[Arrival, ...] = ()
    events: tuple[ScenarioEvent, ...] = ()
    schedulers: tuple[ScenarioScheduler, ...] = (ScenarioScheduler(name="default"),)
    autoscaler: AutoscalerRule = AutoscalerRule()
    feature_gates: dict[str, bool] = {}
    """Of the schedulers, as with `--feature-gates`."""
    kubelets: KubeletTimes = KubeletTimes()
    repetitions: Repetitions = Repetitions()
    stop: Stop = Stop()
