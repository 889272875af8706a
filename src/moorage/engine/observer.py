"""What a metrics recorder can learn from the scheduler and its queue.

Owns the list of things worth counting, in upstream's words; the counting is somebody else's. The
base class ignores everything and reads no clock, so that the scheduler never asks whether anybody
watches.
"""

from collections.abc import Callable, Mapping

from moorage.framework.attempt import AttemptResult
from moorage.framework.observer import FrameworkObserver
from moorage.framework.profile import Profile
from moorage.framework.status import Code
from moorage.framework.timing import AttemptTimes

# How an attempt can end.
SCHEDULED = "scheduled"
UNSCHEDULABLE = "unschedulable"
ERROR = "error"
WAITING_ON_PREEMPTION = "waiting_on_preemption"
# What a placement can be.
FEASIBLE = "feasible"
INFEASIBLE = "infeasible"

POD_POPPED = "PodPopped"
"""Stands for the pods themselves among the in-flight events."""


class SchedulerObserver(FrameworkObserver):
    """Is told what the scheduler does; must not call back into it."""

    def profiles_known(self, profiles: Mapping[str, Profile]) -> None:
        """These profiles are in use from now on."""

    def sizes_known(
        self,
        cache: Callable[[], Mapping[str, int]],
        queue: Callable[[], Mapping[str, int]],
        entities: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        """Where to ask what there is.

        The cache has `nodes`, `pods` and `assumed_pods`, the queue the pods in each of its places,
        and how many entities of which kind there are.
        """

    def attempt_failed(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended as UNSCHEDULABLE or ERROR."""

    def algorithm_finished(self, times: AttemptTimes, result: AttemptResult | None) -> None:
        """An attempt has a node, or knows that there is none; no result: something broke."""

    def pod_scheduled(
        self, profile: str, seconds: float, attempts: int, waited: float | None
    ) -> None:
        """An attempt ended with the pod bound: its so many-th, so long after it was first ready."""

    def victims_selected(
        self, preemptor: str, victims: int, pdb_violations: int, disrupted_groups: int
    ) -> None:
        """So many pods are to leave for a `pod` or a `podgroup`, with those that leave already."""

    def preemption_finished(self, preemptor: str, result: str, seconds: float) -> None:
        """After so long the victims have been evicted (`success`), or it was given up (`error`)."""

    def permit_waited(self, status: str, seconds: float) -> None:
        """A pod that Permit held back was let go or refused."""

    def binding_cycles(self, change: int) -> None:
        """There are more or fewer pods on their way to a node."""

    def event_handled(self, event: str, seconds: float) -> None:
        """The cluster state follows an event (by its label), and pods were woken."""

    def group_attempt_finished(self, result: str, profile: str, seconds: float) -> None:
        """An attempt at a whole pod group ended; WAITING_ON_PREEMPTION is a result, too."""

    def group_algorithm_finished(self, seconds: float) -> None:
        """So long after its beginning it is known what becomes of a pod group."""

    def placements_generated(self, profile: str, placements: int) -> None:
        """So many placements are tried for a pod group."""

    def placement_evaluated(self, result: str, profile: str, seconds: float) -> None:
        """One of them was tried for so long, and is FEASIBLE or INFEASIBLE."""

    def api_calls_pending(self, call_type: str, change: int) -> None:
        """There are more or fewer calls `pod_binding` or `pod_status_patch` not yet answered."""

    def api_call_finished(self, call_type: str, result: str, seconds: float) -> None:
        """Such a call ended with `success` or `error`."""

    # In the queue; `engine.queue.entities` names places and kinds, events go by their labels.

    def incoming_pods(self, queue: str, event: str, pods: int) -> None:
        """So many pods entered ACTIVE, BACKOFF or UNSCHEDULABLE because of an event."""

    def incoming_entity(self, queue: str, event: str, kind: str) -> None:
        """An entity (POD, POD_GROUP) was moved there, or is new."""

    def unschedulable_reason(self, plugin: str, profile: str, change: int) -> None:
        """There are more or fewer waiting pods that a plugin turned away."""

    def in_flight_events(self, event: str, change: int) -> None:
        """More or fewer events (POD_POPPED for pods) are kept for pods being tried."""

    def hint_given(self, plugin: str, event: str, hint: str, seconds: float, pods: int) -> None:
        """A hint answered `Queue`, `QueueSkip` or `Error` for so many pods, after so long."""

    def pre_enqueue_answered(
        self, plugin: str, profile: str, code: Code, seconds: float, pods: int
    ) -> None:
        """A PreEnqueue plugin answered with a status code for so many pods, after so long."""

    def pre_enqueue_finished(self, profile: str, seconds: float, pods: int) -> None:
        """All PreEnqueue plugins that had to be asked about so many pods are through."""
