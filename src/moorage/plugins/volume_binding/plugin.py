"""The VolumeBinding plugin at each extension point."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.config.args import VolumeBindingArgs
from moorage.errors import StateError
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
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
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.quantity import whole
from moorage.model.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    claims_of,
    uses_claim,
)
from moorage.plugins.errors import VolumeBindingError
from moorage.plugins.volume_binding import scoring
from moorage.plugins.volume_binding.assume_cache import ClaimCache, VolumeCache
from moorage.plugins.volume_binding.binding import PodVolumes, assume, bind_volumes, revert
from moorage.plugins.volume_binding.claims import PodClaims, classify, objection
from moorage.plugins.volume_binding.search import VolumeSearch

SCORING_GATE = "StorageCapacityScoring"
_NO_CLAIMS = PodClaims()
_NODES, _FOUND, _ASSUMED = "nodes", "found", "assumed"
"""What the points hand on: the cluster as the pod was looked at, what there is for its claims
everywhere, and what was decided."""


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
        self._scores = handle.gates.enabled(SCORING_GATE)
        shape = self._settings.shape
        self._curve = scoring.Curve(shape) if shape else None
        # Shared, as all profiles draw on the same volumes, and those of a reloaded configuration
        # must know what pods on their way to a node were promised.
        listers = handle.listers
        self._volumes = listers.shared(
            VolumeCache, lambda: VolumeCache(listers.of(PersistentVolume))
        )
        self._claims = listers.shared(
            ClaimCache, lambda: ClaimCache(listers.of(PersistentVolumeClaim))
        )

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[PodClaims] | Skip | Status:
        """Claims that must be bound by now, and are not, rule out all nodes."""
        if not _has_claims(pod):
            return SKIP
        # Reserve looks at one of the nodes again.
        self.cycle_state(pod)[_NODES] = nodes
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
        search = self._search(state, nodes)
        if state.delayed and nodes is nodes.whole:
            self.cycle_state(pod)[_FOUND] = (nodes, search)
        return search.verdicts

    def pre_score(self, pod: Pod, nodes: NodeView) -> PodClaims | Skip:
        """All pods are scored, those without claims too, unless the feature gate is off."""
        if not self._scores:
            return SKIP
        if not _has_claims(pod):
            return _NO_CLAIMS
        claims = self._classified(pod)
        return _NO_CLAIMS if isinstance(claims, Status) else claims

    def score(self, pod: Pod, nodes: NodeView, state: PodClaims | None) -> Ints | Skip:
        """By how much of its storage the pod would take."""
        if self._curve is None or state is None or not state.delayed:
            return SKIP
        whole = nodes.whole
        looked_at, found = self.cycle_state(pod).get(_FOUND, (None, None))
        if looked_at is whole:
            scores = scoring.score(found, len(whole), self._curve)
            return scores if nodes is whole else scores[nodes.rows]
        return scoring.score(self._search(state, nodes), len(nodes), self._curve)

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        """Let the volumes found count as the pod's."""
        if not _has_claims(pod):
            return None
        # What was found everywhere is large, and binding may take long.
        self.cycle_state(pod).pop(_FOUND, None)
        claims = self._classified(pod)
        if isinstance(claims, Status):
            return claims
        if claims.all_bound:
            return None
        nodes: NodeView | None = self.cycle_state(pod).get(_NODES)
        row = nodes.row_of(node_name) if nodes is not None else None
        if nodes is None or row is None:
            return None  # the node was not looked at, so nothing was found for it
        search = self._search(claims, nodes.whole.take(np.array([row])))
        decided = PodVolumes(
            list(search.bindings(0)), [provision.claim for provision in search.provisions(0)]
        )
        try:
            assumed = assume(decided, node_name, self._volumes, self._claims)
        except StateError as error:
            self.handle.observer.volume_stage_failed("assume")
            return Status(Code.ERROR, (str(error),))
        self.cycle_state(pod)[_ASSUMED] = assumed
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Give the volumes back, as far as nothing was written yet."""
        assumed = self.cycle_state(pod).pop(_ASSUMED, None)
        if assumed is not None:
            revert(assumed, self._volumes, self._claims)

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        """Only pods for which something was reserved."""
        return _has_claims(pod) and _ASSUMED in self.cycle_state(pod)

    def pre_bind_offline(self, pod: Pod) -> None:
        """Nothing: what was reserved counts, and no controller comes who would bind volumes."""

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        """Write what was reserved, and wait for the volume controller and the provisioner."""
        assumed: PodVolumes | None = self.cycle_state(pod).get(_ASSUMED)
        if assumed is None:
            return None
        timeout = float(self._settings.bind_timeout_seconds)
        try:
            await bind_volumes(pod, node_name, assumed, api, self.handle.listers, timeout)
        except VolumeBindingError as error:
            self.handle.observer.volume_stage_failed("bind")
            return Status(Code.ERROR, (str(error),))
        # All of it is in the API now: nothing is left that could be given back.
        del self.cycle_state(pod)[_ASSUMED]
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Everything that takes part in finding volumes."""
        change = ActionType.ADD | ActionType.UPDATE
        return [
            on(EventResource.STORAGE_CLASS, change, _after_class_change),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, change, _after_claim_change),
            on(EventResource.PERSISTENT_VOLUME, change),
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(EventResource.CSI_NODE, change, _after_csi_node_change),
            on(EventResource.CSI_DRIVER, ActionType.UPDATE, _after_driver_update),
            on(EventResource.CSI_STORAGE_CAPACITY, change, _after_capacity_change),
        ]

    def _classified(self, pod: Pod) -> PodClaims | Status:
        return classify(pod, self._claims, self.handle.listers)

    def _search(self, claims: PodClaims, nodes: NodeView) -> VolumeSearch:
        return VolumeSearch(claims, nodes, self._volumes, self.handle.listers)


def _has_claims(pod: Pod) -> bool:
    return next(claims_of(pod), None) is not None


def _after_class_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return True
    return old.allowed_topologies != new.allowed_topologies


def _after_claim_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new)


def _after_csi_node_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    before, after = old.metadata.annotations, new.metadata.annotations
    return before.get(MIGRATED_PLUGINS, "") != after.get(MIGRATED_PLUGINS, "")


def _after_driver_update(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    """Upstream looks for the driver among inline volumes only, although those have no capacity."""
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return True
    disabled = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    volumes = pod.spec.volumes
    return disabled and any(v.csi is not None and v.csi.driver == new.name for v in volumes)


def _after_capacity_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return True
    before, after = old.milli_limit, new.milli_limit
    return after is not None and (before is None or whole(after) > whole(before))
