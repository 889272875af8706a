"""The words of the lists: what a live scheduler tells of its pods, nodes, decisions and itself.

Owns names and shapes only, under the same version as `report`; a field may be added within a
version, but never renamed or given another meaning. Times are seconds since the epoch.
"""

from collections.abc import Sequence

import msgspec

from moorage.explain.report import SCHEMA, DecisionSummary


class PodLine(msgspec.Struct, frozen=True, rename="camel"):
    """One pod in a line."""

    pod: str
    uid: str
    state: str
    """As in `QueueState.state`, or `placed` for a pod on a node."""
    priority: int = 0
    attempts: int = 0
    added: float | None = None
    """When it was last put into the queue; for a pod that is not there, when it was created."""
    next_retry: float | None = None
    message: str = ""
    plugins: tuple[str, ...] = ()
    """Who refused it in the latest attempt, or keeps it out of the queue."""
    node: str = ""
    created: float | None = None


class PodPage(msgspec.Struct, frozen=True, rename="camel"):
    """Some of the pods, in the order of `namespace/name`."""

    items: tuple[PodLine, ...]
    total: int
    """How many there are on all pages."""
    continue_: str = msgspec.field(default="", name="continue")
    """What to ask the next page with; empty on the last one."""
    namespaces: tuple[str, ...] = ()
    """Of these pods, and of those that were left out as they are in another namespace."""
    schema: str = SCHEMA


class EventLine(msgspec.Struct, frozen=True, rename="camel"):
    """An event that this process wrote, or is about to write."""

    type: str
    reason: str
    note: str
    controller: str
    count: int
    first: float
    last: float


class KnownObject(msgspec.Struct, frozen=True, rename="camel"):
    """What the scheduler knows of an object."""

    yaml: str
    """Only the parts that a scheduler reads: without commands, environment and annotations."""
    events: Sequence[EventLine] = ()
    """The newest first."""
    schema: str = SCHEMA


class NodeLine(msgspec.Struct, frozen=True, rename="camel"):
    """One node in a line."""

    node: str
    zone: str
    taints: list[str]
    unschedulable: bool
    pods: int
    max_pods: int
    utilisation: dict[str, float]
    """Requested in proportion to allocatable; only resources that the node has."""


class ResourceTotal(msgspec.Struct, frozen=True, rename="camel"):
    """How much of a resource all nodes have, and how much of it pods request; as quantities."""

    requested: str
    allocatable: str


class NodePage(msgspec.Struct, frozen=True, rename="camel"):
    """Some of the nodes, in the order of their names."""

    resources: tuple[str, ...]
    """Every resource that some node has, cpu and memory first."""
    items: list[NodeLine]
    total: int
    continue_: str = msgspec.field(default="", name="continue")
    totals: dict[str, ResourceTotal] = {}
    """Of each resource, over the nodes of all pages."""
    schema: str = SCHEMA


class DecisionPage(msgspec.Struct, frozen=True, rename="camel"):
    """Some of the decisions, the newest first."""

    items: tuple[DecisionSummary, ...]
    continue_: str = msgspec.field(default="", name="continue")
    schema: str = SCHEMA


class PendingCounts(msgspec.Struct, frozen=True, rename="camel"):
    """How many pods wait where; gated ones are not among the unschedulable ones."""

    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gated: int = 0


class SecondRates(msgspec.Struct, frozen=True, rename="camel"):
    """What a second or longer span saw: decisions, and how long half and nearly all took."""

    time: int
    scheduled: int = 0
    unschedulable: int = 0
    errors: int = 0
    p50: float = 0.0
    p99: float = 0.0


class LedgerRates(msgspec.Struct, frozen=True, rename="camel"):
    """What the ledger remembers of attempts and how long they took."""

    width: int
    """How many seconds a span is long."""
    spans: Sequence[SecondRates] = ()
    """From the first decision to the latest, those without a decision as well."""
    schema: str = SCHEMA


class Stats(msgspec.Struct, frozen=True, rename="camel"):
    """What the scheduler is doing."""

    now: float
    scheduled: int
    """Since the process began, as the next two."""
    unschedulable: int
    errors: int
    pending: PendingCounts
    seconds: tuple[SecondRates, ...]
    """The last two minutes, the oldest first; seconds without a decision count as well.

    Decisions are counted as they enter the ledger: without one this is empty, and the counts are 0.
    """
    nodes: int
    pods: int
    """Pods on nodes."""
    leading: bool = True
    schema: str = SCHEMA


class LedgerFacts(msgspec.Struct, frozen=True, rename="camel"):
    """How much the ledger remembers."""

    on: bool
    bytes: int = 0
    limit_bytes: int = 0
    decisions: int = 0
    directory: str = ""


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """The configuration in force."""

    configuration: object
    """A KubeSchedulerConfiguration, as /configz shows it."""
    ledger: LedgerFacts
    schema: str = SCHEMA
