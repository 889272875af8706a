"""NodeDeclaredFeatures: pods that need a kubelet feature go to nodes that declare it."""

from collections.abc import Hashable, Sequence

from moorage.cluster.node_table import Features
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Code, Reason, Skip, Verdicts
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"


class NodeDeclaredFeatures(PreFilterPlugin[Features], FilterPlugin[Features]):
    """Refuse nodes that lack a feature the pod's spec implies."""

    name = "NodeDeclaredFeatures"
    reads = (Aspect.FEATURES,)
    missing = Reason("node(s) didn't match Pod's required features", Code.UNRESOLVABLE)

    def pod_key(self, pod: Pod) -> Hashable:
        """Only the implied features matter."""
        return required_features(pod)

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[Features] | Skip:
        """Nothing to do for pods that need nothing special."""
        if not self.handle.gates.enabled("NodeDeclaredFeatures"):
            return SKIP
        features = required_features(pod)
        return PreFilterResult(features) if features else SKIP

    def filter(self, pod: Pod, nodes: NodeView, state: Features | None) -> Verdicts:
        """Every implied feature must be declared."""
        needed = required_features(pod) if state is None else state
        lacking = nodes.declared_features.where(lambda declared: not needed <= declared)
        return Verdicts(len(nodes), (self.missing,)).reject(lacking, self.missing)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A node that declares something else now, or the pod needing something else."""
        declared = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            on(EventResource.NODE, declared, _after_node_change),
            on(EventResource.TARGET_POD, ActionType.UPDATE, _after_pod_update),
        ]


def _after_node_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, Node) or not isinstance(new, Node):
        return True
    return old.status.declared_features != new.status.declared_features


def _after_pod_update(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(new, Pod) or not isinstance(old, Pod):
        return False
    return required_features(old) != required_features(new)


def required_features(pod: Pod) -> Features:
    """The features a pod's spec implies, whatever the gates of the scheduler."""
    features = set()
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    if any(
        rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules
    ):
        features.add(RESTART_ALL)
    if any(mount.bind_mount_options for c in containers for mount in c.volume_mounts):
        features.add(BIND_MOUNT_OPTIONS)
    if pod.spec.host_network and pod.spec.host_users is False:
        features.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(features)
