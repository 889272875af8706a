"""What a plugin is: a base class per extension point.

A plugin inherits from the points it takes part in, so its class line says what it does. Points
that answer for nodes come in two forms with the same results: over columns (`FilterPlugin`,
`ScorePlugin`), or node by node (`NodeFilterPlugin`, `NodeScorePlugin`), the simple way to start.

A plugin may say what its answers depend on: `reads` on the node side, `pod_key` on the pod side.
Then they are kept for the next pods that look the same to it (`framework.fast_path`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import index
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import msgspec
import numpy as np

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.listers import Listers
from moorage.cluster.pod_groups import GroupKey, PodGroups
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeRow, NodeView
from moorage.config.feature_gates import FeatureGates
from moorage.framework.api_access import ApiAccess, ApiClient, RestConfig, Work
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.device_resources import DeviceResources
from moorage.framework.faults import PluginFaults
from moorage.framework.observer import FrameworkObserver
from moorage.framework.pacing import Pacing, PluginCalls
from moorage.framework.preemptions import Preemptions
from moorage.framework.status import Reason, Skip, Status, Verdicts
from moorage.framework.waiting_pods import WaitingPods
from moorage.model.devices import ResourceClaim
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim

if TYPE_CHECKING:  # filtering runs plugins; only the annotations of post_filter need it here
    from moorage.framework.attempt import AttemptResult

S = TypeVar("S")

MAX_NODE_SCORE = 100


class Members:
    """What a plugin may do to other pods; the scheduler fills it in, if there is one."""

    def __init__(self) -> None:
        self.activate: Callable[[Iterable[Pod]], None] = lambda pods: None
        """Make pods of the queue ready at once."""
        self.activate_group: Callable[[GroupKey], None] = lambda key: None
        """The same for the waiting pods of a group."""
        self.trying: frozenset[str] = frozenset()
        """The uids of the pods that are being tried together; another object for every try."""


class CycleStates:
    """What plugins note about pods on their way from PreFilter to PostBind."""

    def __init__(self) -> None:
        self._by_pod: dict[str, dict[str, dict[str, Any]]] = {}

    def of(self, pod: Pod, plugin: str) -> dict[str, Any]:
        """The notes of one plugin about one pod; empty when an attempt begins."""
        return self._by_pod.setdefault(pod.uid, {}).setdefault(plugin, {})

    def end(self, pod: Pod) -> None:
        """The pod is bound, or tried again later."""
        self._by_pod.pop(pod.uid, None)


class Handle(msgspec.Struct, frozen=True):
    """What a plugin is given when it is made: all it can reach."""

    listers: Listers
    """Objects of the kinds that plugins look up."""
    gates: FeatureGates
    profile_name: str = ""
    """The `schedulerName` of the profile that the plugin is part of."""
    waiting: WaitingPods = msgspec.field(default_factory=WaitingPods)
    """The pods that Permit plugins hold back, in all profiles."""
    api: ApiAccess = msgspec.field(default_factory=ApiAccess)
    cycle_states: CycleStates = msgspec.field(default_factory=CycleStates)
    preempting: Preemptions = msgspec.field(default_factory=Preemptions)
    """Which pods have victims evicted right now, and the victims."""
    random: Random = msgspec.field(default_factory=lambda: Random(0))
    """The one source of chance; seeded, so that runs can be repeated."""
    groups: PodGroups = msgspec.field(default_factory=PodGroups)
    """Which pods belong together; empty unless GenericWorkload is enabled."""
    members: Members = msgspec.field(default_factory=Members)
    pacing: Pacing = msgspec.field(default_factory=Pacing)
    """For plugins whose computations can take long."""
    calls: PluginCalls = msgspec.field(default_factory=PluginCalls)
    """Which plugin is at work, for whoever watches how long it takes."""
    faults: PluginFaults = msgspec.field(default_factory=PluginFaults)
    """What plugins do wrong."""
    devices: DeviceResources = msgspec.field(default_factory=DeviceResources)
    """Which extended resources are backed by devices."""
    observer: FrameworkObserver = msgspec.field(default_factory=FrameworkObserver)
    """Whom plugins tell what is worth counting."""
    now: Callable[[], float] = lambda: 0.0
    """Seconds since the epoch."""

    @property
    def client(self) -> ApiClient:
        """Reads and writes objects of any kind; to be awaited in the points that are async."""
        return self.api.client

    @property
    def rest_config(self) -> RestConfig | None:
        """How the API server is reached; None where there is none."""
        return self.api.rest_config

    def event(
        self,
        regarding: ApiObject,
        reason: str,
        note: str,
        *,
        type_: str = "Normal",
        action: str = "Scheduling",
        related: ApiObject | None = None,
    ) -> None:
        """Write an event about an object, in the name of the profile; returns at once."""
        self.api.write_event(
            regarding, type_, reason, action, note, controller=self.profile_name, related=related
        )

    def activate(self, pods: Iterable[Pod]) -> None:
        """Have pods of the queue tried again at once, without waiting for an event."""
        self.members.activate(pods)

    def run_later(self, work: Work) -> None:
        """Run a coroutine, such as one that writes, as soon as the attempt is over."""
        self.api.run_later(work)


class Plugin:
    """Base of all plugins."""

    name: ClassVar[str]
    reads: tuple[Aspect, ...] = ()
    """The node data the answer depends on (left empty, preemption takes it to be anything) ..."""
    row_local: ClassVar[bool] = True
    """... and only in the row being answered for."""
    looks_up: tuple[type[ApiObject] | str, ...] = ()
    """The kinds of other API objects it needs; only what some plugin needs is watched.

    Custom resources are named `<plural>.<version>.<group>`. A plugin sets it anew
    where a feature gate decides.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        """Called once per profile; `args` is the decoded plugin configuration, or None."""
        self.args = args
        self.handle = handle

    def cycle_state(self, pod: Pod) -> dict[str, Any]:
        """What this plugin's points hand on to one another about a pod, until it is bound.

        It is empty when the next attempt begins.
        """
        return self.handle.cycle_states.of(pod, self.name)

    def pod_key(self, pod: Pod) -> Hashable | None:
        """What the plugin looks at in a pod, in PreFilter, Filter, PreScore and Score alike.

        A plugin with `reads` that is `row_local` says the same to pods with equal keys, so answers
        may be kept. None: they may not.
        """
        del pod
        return None

    def may_take_long(self, pod: Pod) -> bool:
        """May this plugin take so long that the process must go on meanwhile (`Handle.pacing`)?"""
        del pod
        return False

    def events_to_register(self) -> Sequence[EventRegistration] | None:
        """The events that could un-reject a pod; None means that any event might."""
        return None


class PreEnqueuePlugin(Plugin, ABC):
    """May keep a pod out of the queue."""

    judges_groups: ClassVar[bool] = False
    """Do PreEnqueue and the hints look at nothing of a pod but its group?

    While it keeps all waiting pods of a group out, one of them is asked about for all.
    """

    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Status | None:
        """None lets the pod in."""


class QueueSortPlugin(Plugin, ABC):
    """Orders the queue; a profile has exactly one."""

    @abstractmethod
    def sort_key(self, pod: Pod, timestamp: float) -> Any:
        """Pods with smaller keys are scheduled first."""


class PreFilterResult(msgspec.Struct, Generic[S], frozen=True):
    """What `pre_filter` worked out for `filter`, and the only nodes worth looking at, if few."""

    state: S
    node_names: frozenset[str] | None = None


class PreFilterPlugin(Plugin, ABC, Generic[S]):
    """Looks at the pod once before the nodes are filtered."""

    @abstractmethod
    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[S] | Skip | Status:
        """A result, SKIP (then the plugin's filter is not run), or a rejection."""

    def with_pod(self, state: S, pod: Pod, other: Pod, nodes: NodeView, row: int, sign: int) -> S:
        """The state as if `other` were added to (+1) or removed from (-1) the node of `row`."""
        del pod, other, nodes, row, sign
        return state


class FilterPlugin(Plugin, ABC, Generic[S]):
    """Says for every node whether the pod may run there."""

    by_node: ClassVar[bool] = False
    """Is it slow, as it looks at node after node? Then it is asked only about nodes that are still
    in the running."""

    @abstractmethod
    def filter(self, pod: Pod, nodes: NodeView, state: S | None) -> Verdicts:
        """One verdict per row of `nodes`; `state` comes from this plugin's `pre_filter`."""

    def log_rejections(self, pod: Pod, nodes: NodeView, rows: Rows, state: S | None) -> None:
        """Called from `-v=4` on with the rows that it rejects and no plugin before it."""


class NodeFilterPlugin(FilterPlugin[None], ABC):
    """The simple way: answer for one node; asked only about nodes that are still in the running."""

    by_node = True

    @abstractmethod
    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        """None accepts the node."""

    def filter(self, pod: Pod, nodes: NodeView, state: None = None) -> Verdicts:
        del state
        verdicts = Verdicts(len(nodes))
        for row, node in enumerate(nodes):
            reason = self.filter_node(pod, node)
            if reason is not None:
                verdicts.reject(row, reason)
        return verdicts


class PostFilterResult(msgspec.Struct, frozen=True):
    """What could be done for a pod that fits nowhere."""

    status: Status
    nominated_node: str | None = None
    """The node to wait for; "" takes an earlier nomination back, None leaves it alone."""
    victims: tuple[Pod, ...] = ()
    candidates: Sequence["Candidate"] = ()
    pdb_violations: int = 0
    """How many victims' evictions break a disruption budget."""


class Candidate(msgspec.Struct, frozen=True):
    """A node that would do if some pods left it."""

    node_name: str
    victims: tuple[Pod, ...]
    """By decreasing importance."""
    pdb_violations: int = 0


class PostFilterPlugin(Plugin, ABC):
    """Called when no node fits."""

    @abstractmethod
    def post_filter(self, pod: Pod, attempt: "AttemptResult") -> PostFilterResult:
        """Try to make room; the result is a proposal, carried out elsewhere."""


class PreScorePlugin(Plugin, ABC, Generic[S]):
    """Looks at the pod and the feasible nodes once before they are scored."""

    @abstractmethod
    def pre_score(self, pod: Pod, nodes: NodeView) -> S | Skip:
        """State for `score`, or SKIP (then the plugin does not score)."""


class ScorePlugin(Plugin, ABC, Generic[S]):
    """Ranks the feasible nodes."""

    @abstractmethod
    def score(self, pod: Pod, nodes: NodeView, state: S | None) -> Ints | Skip:
        """One number per row of `nodes`; any range if `normalize` brings it to 0..100.

        SKIP: 0 for every node, also after normalising.
        """

    def normalize(self, scores: Ints, state: S | None) -> Ints:
        """Scores of the feasible nodes brought to 0..100; the argument may be changed."""
        del state
        return scores


class SingleRowMixin(Plugin):
    """For speed alone: the same answers about one node, in plain numbers instead of columns.

    Whoever keeps answers asks again about every node that a pod was placed on.
    """

    def rejects_row(self, pod: Pod, nodes: NodeView, row: int, state: Any) -> bool:
        """Does `filter` reject this row of the whole cluster?"""
        assert isinstance(self, FilterPlugin), "only filters are asked"
        return bool(self.filter(pod, nodes.take(np.array([row])), state).bits[0])

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: Any) -> int:
        """What does `score` say of this row of the whole cluster?"""
        assert isinstance(self, ScorePlugin), "only scorers are asked"
        scores = self.score(pod, nodes.take(np.array([row])), state)
        return 0 if isinstance(scores, Skip) else int(scores[0])


class NodeScorePlugin(ScorePlugin[None], ABC):
    """The simple way: score one node."""

    @abstractmethod
    def score_node(self, pod: Pod, node: NodeRow) -> int:
        """A number, larger is better."""

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        del state
        scores = (index(self.score_node(pod, node)) for node in nodes)  # 1.5 is not taken as 1
        return np.fromiter(scores, np.int64, len(nodes))


class ReservePlugin(Plugin, ABC):
    """Keeps track of pods on nodes in a way of its own."""

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """The pod as it counts on the node from now on; asked before `reserve`."""
        del node_name
        return pod

    @abstractmethod
    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        """The pod is about to be bound; None agrees."""

    @abstractmethod
    def unreserve(self, pod: Pod, node_name: str) -> None:
        """It came to nothing; must not fail, and may be called without `reserve`."""


class PermitPlugin(Plugin, ABC):
    """May hold a placed pod back, or refuse it."""

    @abstractmethod
    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """None allows; a WAIT status holds the pod for so many seconds; others reject."""


class ApiPort(ABC):
    """What binding plugins may do to the API; implemented outside the engine.

    A request that the API refuses raises `ApiError`. Objects written carry the version they were
    read with: the port must let the API refuse them if they changed since.
    """

    @abstractmethod
    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the pod's binding."""

    # Only what binds volumes asks for the following; a port for a cluster without any may omit it.

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the claim reference and annotations, and nothing else; the volume as stored."""
        raise NotImplementedError

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the annotations, and nothing else; the claim as stored."""
        raise NotImplementedError

    # And only what allocates devices asks for these.

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """A claim on devices, as stored."""
        raise NotImplementedError

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Make a claim under a generated name; the claim as stored."""
        raise NotImplementedError

    async def update_claim_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers, and nothing else; the claim as stored."""
        raise NotImplementedError

    async def update_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Write allocation and users; devices' reports are dropped with the allocation."""
        raise NotImplementedError

    async def release_claim(self, claim: ResourceClaim, user_uid: str) -> None:
        """Take one user off the claim, whatever its version."""
        raise NotImplementedError

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """Delete a claim."""
        raise NotImplementedError

    async def write_extended_claim(
        self, pod: Pod, claim_name: str, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Tell in the pod's status which claim serves its extended resources."""
        raise NotImplementedError

    async def write_node_allocatable_claims(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        """Tell in the pod's status what its claims take of the node; nothing clears it."""
        raise NotImplementedError

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """Tell users in an event of the pod."""
        raise NotImplementedError

    def node(self, name: str) -> Node | None:
        """A node as last seen."""
        raise NotImplementedError

    def pod_exists(self, pod: Pod) -> bool:
        """Is there still a pod of this name?"""
        raise NotImplementedError

    def now(self) -> float:
        """Seconds since the epoch."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        raise NotImplementedError


class PreBindPlugin(Plugin, ABC):
    """Work that must be done through the API before a pod can be bound."""

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        """Will `pre_bind` have anything to do? Then the pod's status names the node meanwhile."""
        del pod, node_name
        return True

    @abstractmethod
    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        """None when done."""

    def pre_bind_offline(self, pod: Pod) -> None:
        """What `pre_bind` and the watch would bring about in a cluster in files.

        Left out, `pre_bind` itself is run there.
        """
        del pod


class DeferringPlugin(Plugin, ABC):
    """Wants something written from points that must not write (PostFilter, Unreserve)."""

    @property
    @abstractmethod
    def has_work(self) -> bool:
        """Was anything left?"""

    @abstractmethod
    async def flush(self, api: ApiPort) -> list[str]:
        """Write it; what failed is told, and tried again by the next attempt."""

    def trial_copy(self) -> Self | None:
        """A copy to try things on, whose work is never written; None if there can be none."""
        return None


class BindPlugin(Plugin, ABC):
    """Binds pods; the first that does not skip wins."""

    @abstractmethod
    async def bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | Skip | None:
        """None when bound."""


class PostBindPlugin(Plugin, ABC):
    """Is told that a pod was bound."""

    @abstractmethod
    async def post_bind(self, pod: Pod, node_name: str) -> None:
        """For information only."""
