"""Making room for a whole pod group: the extension point, and asking its plugins.

Owns the rehearsals in which plugins find out who has to go. Pods are really taken out of the
cluster state and put back, and whatever is still missing in the end is restored, so that nobody
else ever sees the cluster without them. What is done in the end is the engine's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from moorage.cluster.state import ClusterState
from moorage.framework.guard import guard, wrong_answer
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code, Status
from moorage.framework.timing import AttemptTimes
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

if TYPE_CHECKING:  # a profile has plugins of this point
    from moorage.framework.profile import Profile


class Assignment(NamedTuple):
    """A pod, and the node it would go to."""

    pod: Pod
    node_name: str


class Rehearsal:
    """The cluster, with pods taken away and given back for a try.

    `place` says where the pods of the group would go, or why they cannot; `still_fits` whether
    these places will do with pods that were given back since.
    """

    def __init__(
        self,
        state: ClusterState,
        now: float,
        place: Callable[[], Sequence[Assignment] | Status],
        still_fits: Callable[[Sequence[Assignment]], bool],
    ) -> None:
        self.now = now
        self.place = place
        self.still_fits = still_fits
        self._state = state
        self._gone: dict[str, tuple[Pod, str, bool]] = {}

    def pods(self) -> list[Pod]:
        """The pods on all nodes, node by node."""
        nodes = self._state.nodes
        return [
            pod
            for row in self._state.order.rows(nodes.row_of)
            for pod in self._state.pods.on(int(row))
        ]

    def pods_on(self, node_name: str) -> Iterable[Pod]:
        """The pods on a node; none if there is no such node."""
        row = self._state.nodes.row_of.get(node_name)
        return () if row is None else self._state.pods.on(row)

    def take(self, pods: Iterable[Pod]) -> None:
        """Let pods be gone."""
        state = self._state
        for pod in pods:
            node_name = state.node_of(pod)
            assert node_name is not None, "only pods on nodes are taken away"
            self._gone[pod.uid] = (pod, node_name, state.is_assumed(pod))
            state.remove_pod(pod)

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Let pods that were gone be there again."""
        for pod in pods:
            known, node_name, assumed = self._gone.pop(pod.uid)
            if assumed:
                self._state.assume(known, node_name)
            else:
                self._state.add_pod(known)

    def end(self) -> None:
        """Give everything back."""
        self.give_back([pod for pod, _, _ in self._gone.values()])


class PodGroupPostFilterResult(msgspec.Struct, frozen=True):
    """What could be done for a group that fits nowhere."""

    status: Status
    """SUCCESS: it will fit soon. UNSCHEDULABLE leaves the matter to the other plugins."""
    victims: tuple[Pod, ...] = ()
    """Who is to be evicted, from any nodes."""
    nominations: Mapping[str, str] = {}
    """By the uids of the group's pods, the nodes they wait for; "" takes a nomination back."""
    pdb_violations: int = 0
    disrupted_groups: int = 0
    """How many victims, or groups that go as a whole, belong to groups."""


class PodGroupPostFilterPlugin(Plugin, ABC):
    """May do something about a pod group that fits nowhere, such as have others evicted."""

    @abstractmethod
    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[Pod], rehearsal: Rehearsal
    ) -> PodGroupPostFilterResult:
        """Propose something for a group, whose waiting `pods` are given; asked once per attempt.

        What a rehearsal takes away is given back afterwards in any case.
        """


def pod_group_post_filter(
    profile: "Profile",
    group: PodGroup,
    pods: Sequence[Pod],
    rehearsal: Rehearsal,
    times: AttemptTimes,
) -> PodGroupPostFilterResult:
    """Ask the plugins what could be done, until one of them settles the matter."""
    reasons: list[str] = []
    rejector = ""
    with times.point("PodGroupPostFilter") as point:
        for plugin in profile.pod_group_post_filter:
            try:
                with guard(plugin, "PodGroupPostFilter"):
                    result = plugin.pod_group_post_filter(group, pods, rehearsal)
                    if not isinstance(result, PodGroupPostFilterResult):
                        what = "a PodGroupPostFilterResult"
                        raise wrong_answer(plugin, "PodGroupPostFilter", result, what)
            finally:
                rehearsal.end()
            status = msgspec.structs.replace(result.status, plugin=plugin.name)
            point.ran(plugin.name, status.code.value)
            if status.code is Code.UNSCHEDULABLE:
                reasons += status.reasons
                rejector = rejector or plugin.name
                continue
            if status.code not in (Code.SUCCESS, Code.UNRESOLVABLE):
                text = f'error in "{plugin.name}" PodGroupPostFilter plugins: {status.message}'
                status = Status(Code.ERROR, (text,), plugin.name)
            point.status = status.code.value
            return msgspec.structs.replace(result, status=status)
        point.status = Code.UNSCHEDULABLE.value
    return PodGroupPostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons), rejector))
