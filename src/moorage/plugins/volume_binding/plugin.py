"""The VolumeBinding plugin at each extension point."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.config.args import VolumeBindingArgs
from moorage.errors import StateError
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.plugin import (
    ApiPort,
    FilterPlugin,
    Handle,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.pod import Pod
from moorage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    claims_of,
)
from moorage.plugins.volume_binding import hints, scoring
from moorage.plugins.volume_binding.assume_cache import ClaimCache, VolumeCache
from moorage.plugins.volume_binding.binding import PodVolumes, assume, bind_volumes, revert
from moorage.plugins.volume_binding.claims import PodClaims, classify, objection
from moorage.plugins.volume_binding.errors import VolumeBindingError
from moorage.plugins.volume_binding.search import VolumeSearch

SCORING_GATE = "StorageCapacityScoring"


class VolumeBinding(
    PreFilterPlugin[PodClaims],
    FilterPlugin[PodClaims],
    PreScorePlugin[PodClaims],
    ScorePlugin[PodClaims],
    ReservePlugin,
    PreBindPlugin,
):
    """Find nodes for a pod's claims, then volumes for the claims on the node chosen."""

    name = "VolumeBinding"
    looks_up = (
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        CSINode,
        CSIDriver,
        CSIStorageCapacity,
    )
    reads = (Aspect.LABELS,)
    unbound_immediate = "pod has unbound immediate PersistentVolumeClaims"
    no_state = Reason("not found", Code.ERROR)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._settings = args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()
        # Shared, as all profiles draw on the same volumes, and those of a reloaded configuration
        # must know what pods on their way to a node were promised.
        listers = handle.listers
        self._volumes = listers.shared(
            VolumeCache, lambda: VolumeCache(listers.of(PersistentVolume))
        )
        self._claims = listers.shared(
            ClaimCache, lambda: ClaimCache(listers.of(PersistentVolumeClaim))
        )
        self._nodes: NodeView | None = None
        """The cluster as the pod was last looked at: Reserve looks at one of its nodes again."""
        self._reserved: dict[str, PodVolumes] = {}
        """By the pod's uid, what was decided but is not known to have come true."""

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[PodClaims] | Skip | Status:
        """Claims that must be bound by now, and are not, rule out all nodes."""
        if not _has_claims(pod):
            return SKIP
        self._nodes = nodes
        reason = objection(pod, self.handle.listers)
        if reason is not None:
            return Status(Code.UNRESOLVABLE, (reason,))
        claims = self._classified(pod)
        if isinstance(claims, Status):
            return claims
        if claims.waiting:
            return Status(Code.UNRESOLVABLE, (self.unbound_immediate,))
        return PreFilterResult(claims)

    def filter(self, pod: Pod, nodes: NodeView, state: PodClaims | None) -> Verdicts:
        """Refuse nodes that do not reach the volumes there are, or get the volumes wanted."""
        if state is None:
            return Verdicts(len(nodes)).reject(np.ones(len(nodes), np.bool_), self.no_state)
        return self._search(state, nodes).verdicts

    def pre_score(self, pod: Pod, nodes: NodeView) -> PodClaims | Skip:
        """Scores are given only behind a feature gate; then to pods without claims, too."""
        if not self.handle.gates.enabled(SCORING_GATE):
            return SKIP
        claims = self._classified(pod)
        return PodClaims() if isinstance(claims, Status) else claims

    def score(self, pod: Pod, nodes: NodeView, state: PodClaims | None) -> Ints:
        """By how much of its storage the pod would take."""
        shape = self._settings.shape
        if not shape or state is None or not state.delayed:
            return np.zeros(len(nodes), np.int64)
        return scoring.score(self._search(state, nodes), len(nodes), scoring.shape_of(shape))

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        """Let the volumes found count as the pod's."""
        if not _has_claims(pod):
            return None
        claims = self._classified(pod)
        if isinstance(claims, Status):
            return claims
        if claims.all_bound:
            return None
        row = self._nodes.row_of(node_name) if self._nodes is not None else None
        if self._nodes is None or row is None:
            return None  # the node was not looked at, so nothing was found for it
        search = self._search(claims, self._nodes.whole.take(np.array([row])))
        decided = PodVolumes(
            list(search.bindings(0)), [provision.claim for provision in search.provisions(0)]
        )
        try:
            assumed = assume(decided, node_name, self._volumes, self._claims)
        except StateError as error:
            self.handle.observer.volume_stage_failed("assume")
            return Status(Code.ERROR, (str(error),))
        self._reserved[pod.uid] = assumed
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Give the volumes back, as far as nothing was written yet."""
        assumed = self._reserved.pop(pod.uid, None)
        if assumed is not None:
            revert(assumed, self._volumes, self._claims)

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        """Only pods for which something was reserved."""
        return pod.uid in self._reserved

    def pre_bind_offline(self, pod: Pod) -> None:
        """Nothing: what was reserved counts, and no controller comes who would bind volumes."""

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        """Write what was reserved, and wait for the volume controller and the provisioner."""
        assumed = self._reserved.get(pod.uid)
        if assumed is None:
            return None
        timeout = float(self._settings.bind_timeout_seconds)
        try:
            await bind_volumes(pod, node_name, assumed, api, self.handle.listers, timeout)
        except VolumeBindingError as error:
            self.handle.observer.volume_stage_failed("bind")
            return Status(Code.ERROR, (str(error),))
        # All of it is in the API now: nothing is left that could be given back.
        self._reserved.pop(pod.uid, None)
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        """See `hints`."""
        return hints.events()

    def _classified(self, pod: Pod) -> PodClaims | Status:
        return classify(pod, self._claims, self.handle.listers)

    def _search(self, claims: PodClaims, nodes: NodeView) -> VolumeSearch:
        return VolumeSearch(claims, nodes, self._volumes, self.handle.listers)


def _has_claims(pod: Pod) -> bool:
    return next(claims_of(pod), None) is not None
