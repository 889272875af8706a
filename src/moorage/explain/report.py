"""The words of an explanation: the versioned schema that every source and every output shares.

Owns names and shapes only. The names are upstream's where upstream has one (docs/explain.md lists
them all); a field may be added within a version, but never renamed or given another meaning.
"""

import msgspec

SCHEMA = "moorage.explain/v1"


def _schema() -> str:
    """A default that is written although it is one: every answer says which words it uses."""
    return SCHEMA


class Rejection(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Nodes that one plugin rejects for one reason; a node may be in several of these."""

    plugin: str
    reason: str
    """As upstream says it in events, without the number of nodes before it."""
    nodes: int
    examples: tuple[str, ...] = ()
    point: str = "Filter"
    """PreEnqueue, PreFilter, Filter, Extender, Reserve, Permit, PreBind or Bind."""
    code: str = ""
    """The status code: Unschedulable, UnschedulableAndUnresolvable, ...; that of most nodes."""
    only: int = 0
    """For so many of the nodes this plugin is the only one that rejects."""
    with_nominated_pods: bool = False
    """Only the pods nominated to these nodes bring the rejection about."""
    unresolvable: int = 0
    """On so many of the nodes evicting pods would not help."""


class ScorePart(msgspec.Struct, frozen=True, rename="camel"):
    """What one Score plugin gives one node."""

    plugin: str
    raw: int
    normalized: int
    weight: int
    weighted: int


class NodeScores(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A feasible node's total and where it comes from."""

    node: str
    total: int
    chosen: bool = False
    parts: tuple[ScorePart, ...] = ()


class Verdict(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One plugin about one node: `ok`, `rejected`, `skipped` or `not considered`."""

    plugin: str
    verdict: str
    code: str = ""
    reasons: tuple[str, ...] = ()


class NodeVerdicts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One row of the node x plugin matrix."""

    node: str
    feasible: bool
    verdicts: tuple[Verdict, ...] = ()
    total: int | None = None
    parts: tuple[ScorePart, ...] = ()


class Matrix(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A page of the node x plugin matrix, in the order of node names."""

    plugins: tuple[str, ...]
    rows: tuple[NodeVerdicts, ...]
    total: int
    """How many rows there are on all pages."""
    offset: int = 0


class Waker(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A kind of cluster event that would make the queue look at the pod again."""

    event: str
    """Upstream's label, such as NodeAdd or AssignedPodDelete."""
    plugins: tuple[str, ...] = ()


class QueueState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the queue does with a pod that waits; times are seconds since the epoch."""

    state: str
    """active, backoff, unschedulable, gated, inFlight, waitingOnPermit, binding, or absent."""
    attempts: int = 0
    added: float | None = None
    initial_attempt: float | None = None
    next_retry: float | None = None
    """When it is tried again even if nothing happens."""
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    gated_by: str = ""
    waits_for: tuple[Waker, ...] = ()
    message: str = ""
    """One sentence for people."""


class PreemptionNode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Why removing less important pods does not help on some nodes."""

    reason: str
    nodes: int
    examples: tuple[str, ...] = ()


class PreemptionCandidate(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node that preemption could free."""

    node: str
    victims: tuple[str, ...]
    pdb_violations: int = 0
    chosen: bool = False


class Preemption(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What preemption could do for the pod, and why it does not."""

    helps: bool
    message: str
    nominated_node: str = ""
    candidates: tuple[PreemptionCandidate, ...] = ()
    """Some of the nodes that could be freed, the best one first."""
    refusals: tuple[PreemptionNode, ...] = ()
    candidate_nodes: int = 0
    """How many nodes could be freed, of those that were tried."""
    tried_nodes: int = 0
    """How many nodes were tried; the others are hopeless, or there were too many."""


class Edit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One change to one object, as a JSON patch (RFC 6902) with whatever it needs to apply."""

    kind: str
    name: str
    """`namespace/name`, or just the name of a node."""
    patch: tuple[dict[str, object], ...] = ()
    create: dict[str, object] | None = None
    """A whole object to create, instead of a patch."""
    delete: bool = False
    subresource: str = ""
    """Where to send the patch, if not to the object itself: `resize`."""
    recreate: bool = False
    """The API allows this patch only on a new object: delete it and create it with the change."""


class Fix(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A smallest change after which the pod could be placed."""

    change: str
    """One sentence for people."""
    kind: str
    """lowerRequest, tolerateTaint, relaxConstraint, freePort, addNode, raisePriority, ..."""
    nodes_gained: int
    verified: bool
    """The engine was run again with the change in place and found so many nodes."""
    size: float = 0.0
    """How much changes, to compare fixes with each other; less is better."""
    plugins: tuple[str, ...] = ()
    """Whose rejections it lifts."""
    examples: tuple[str, ...] = ()
    """Nodes gained."""
    victims: tuple[str, ...] = ()
    """Pods that would have to go."""
    edits: tuple[Edit, ...] = ()


class PodExplanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Everything about one pod."""

    pod: str
    schedulable: bool
    nodes: int
    """How many nodes there are."""
    feasible: int
    message: str
    """One sentence; for a pod without a place, the one of upstream's event."""
    source: str
    """live, ledger, cluster or files."""
    rejections: tuple[Rejection, ...]
    schema: str = msgspec.field(default_factory=_schema)
    uid: str = ""
    scheduler_name: str = ""
    node: str | None = None
    """Where it is, or would go."""
    placed: bool = False
    """Is it on a node already? Then the scores show how the nodes compare without it."""
    scores: tuple[NodeScores, ...] = ()
    skipped_filter_plugins: tuple[str, ...] = ()
    skipped_score_plugins: tuple[str, ...] = ()
    queue: QueueState | None = None
    preemption: Preemption | None = None
    fixes: tuple[Fix, ...] = ()
    matrix: Matrix | None = None
    asked: tuple[NodeVerdicts, ...] = ()
    """The rows of the matrix for the nodes that were asked for by name."""
    decision: int | None = None
    """The number of the latest decision about the pod in the ledger."""
    note: str = ""
    """From a ledger: a sentence if the plugins, asked again, do not decide as they did then."""


class NodePod(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod on a node."""

    pod: str
    priority: int = 0
    requests: dict[str, str] = {}


class NodeRefusal(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A waiting pod, and why this node does not take it."""

    pod: str
    verdicts: tuple[Verdict, ...]


class NodeExplanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Everything about one node."""

    node: str
    source: str
    schema: str = msgspec.field(default_factory=_schema)
    unschedulable: bool = False
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    allocatable: dict[str, str] = {}
    requested: dict[str, str] = {}
    pods: int = 0
    pod_list: tuple[NodePod, ...] = ()
    accepts: tuple[str, ...] = ()
    """Waiting pods that could go here."""
    refusals: tuple[NodeRefusal, ...] = ()
    waiting: int = 0
    """How many pods wait; of many only the most important were asked about."""


class DecisionSummary(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One attempt in the ledger, in a line."""

    number: int
    time: float
    pod: str
    result: str
    """scheduled, unschedulable or error."""
    profile: str
    node: str = ""
    nodes: int = 0
    feasible: int = 0
    score: int | None = None
    attempts: int = 0
    seconds: float = 0.0
    message: str = ""
    uid: str = ""
    nominated_node: str = ""
    """The node that preemption frees for the pod."""


class DecisionExplanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One attempt in the ledger, whole."""

    decision: DecisionSummary
    source: str
    schema: str = msgspec.field(default_factory=_schema)
    rejections: tuple[Rejection, ...] = ()
    scores: tuple[NodeScores, ...] = ()
    matrix: Matrix | None = None
    skipped_filter_plugins: tuple[str, ...] = ()
    skipped_score_plugins: tuple[str, ...] = ()
    note: str = ""
    """A sentence if the plugins, asked again, do not come to the recorded decision."""
