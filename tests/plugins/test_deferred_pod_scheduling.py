"""DeferredPodScheduling: profiles may name it, and it lets every pod pass."""

from framework.building import make_plugin, make_state, only
from moorage.cluster.view import NodeView
from moorage.framework.status import SKIP
from moorage.plugins.deferred_pod_scheduling import DeferredPodScheduling
from plugins.tables import asked, registered
from reference.objects import make_node, make_pod


def test_it_has_no_objections() -> None:
    state = make_state([make_node("n")])
    plugin, nodes, pod = make_plugin(DeferredPodScheduling, state), NodeView(state), make_pod("p")
    assert plugin.pre_filter(pod, nodes) is SKIP
    assert not plugin.filter(pod, nodes, None).rejected.any()
    assert plugin.permit(pod, "n") == (None, 0.0)
    assert asked(state, pod, only("DeferredPodScheduling")).first == {"n": None}


def test_it_waits_for_nothing() -> None:
    assert registered(DeferredPodScheduling) == []
