"""What keeps a pod out of the queue, or off nodes, by its own wish: gates, and kubelet features."""

from collections.abc import Iterator

from moorage.cluster.columns import Bools
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import RELAX, Change
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import Operation, remove
from moorage.model.pod import Pod

GATES = "SchedulingGates"
FEATURES = "NodeDeclaredFeatures"


def remove_gates(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Remove all of the pod's scheduling gates: as long as one is left it waits."""
    del bench, obstacles
    names = [gate.name for gate in pod.spec.scheduling_gates]
    if names and rows.any():
        text = f"remove the scheduling gate{'s' if len(names) > 1 else ''} {' and '.join(names)}"
        yield Change(RELAX, text, 0.5 * len(names), (GATES,), (remove("spec", "schedulingGates"),))


def need_no_features(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Do without what only some kubelets can do."""
    del bench, obstacles
    if not rows.any():
        return
    restarts: list[Operation] = []
    for field, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        for i, container in enumerate(containers):
            if any(r.action == "RestartAllContainers" for r in container.restart_policy_rules):
                restarts.append(remove("spec", field, i, "restartPolicyRules"))
    users: list[Operation] = []
    if pod.spec.host_network and pod.spec.host_users is False:
        users.append(remove("spec", "hostUsers"))
    texts = []
    if restarts:
        texts.append("drop the restartPolicyRules that restart all containers")
    if users:
        texts.append("drop hostUsers: false, as the pod uses the host's network")
    for text, operations in zip(texts, filter(None, (restarts, users)), strict=True):
        yield Change(RELAX, text, 1.5, (FEATURES,), tuple(operations))
    if len(texts) > 1:
        yield Change(RELAX, " and ".join(texts), 2.5, (FEATURES,), (*restarts, *users))
