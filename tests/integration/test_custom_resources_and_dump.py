"""Plugins may wait for custom resources; SIGUSR2's dump tells what the scheduler believes."""

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from moorage.app.logs import TextFormatter
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Binding
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.framework.cluster_events import ActionType, EventRegistration, on
from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import Reason
from moorage.kube.debugger import dump
from moorage.kube.informers import Informers
from moorage.kube.live import build_scheduler, watched_kinds
from moorage.model.custom import CustomObject
from moorage.model.meta import ObjectMeta
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod

BERTHS = "berths.v1.harbour.example"


class NeedsBerth(NodeFilterPlugin):
    """Refuses every node until somebody creates a Berth."""

    name = "NeedsBerth"
    none_free = Reason("no berth is free")

    def filter_node(self, pod: Pod, node: object) -> Reason | None:
        return None if len(self.handle.listers.of(BERTHS)) else self.none_free

    def events_to_register(self) -> Sequence[EventRegistration]:
        return [on(BERTHS, ActionType.ADD)]


@pytest.fixture
def scheduler() -> Scheduler:
    registry = in_tree_registry()
    registry.register(NeedsBerth)
    config = load_config(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    filter:
      enabled: [{name: NeedsBerth}]
""",
        "test",
    )
    clock = VirtualClock(1_000_000.0)
    made = build_scheduler(config, registry, DEFAULT_FEATURE_GATES, clock)
    made.handlers.add_node(make_node("n1", cpu="4"))
    return made


def decide_all(scheduler: Scheduler) -> list[object]:
    while scheduler.schedule_one():
        pass
    actions: list[object] = list(scheduler.outbox)
    scheduler.outbox.clear()
    return actions


def test_a_custom_resource_that_a_plugin_waits_for_is_watched(scheduler: Scheduler) -> None:
    assert BERTHS in watched_kinds(scheduler.profiles)


def test_a_custom_resource_wakes_the_pods_its_plugin_rejected(scheduler: Scheduler) -> None:
    scheduler.handlers.add_pod(make_pod("ship", cpu="1"))
    [failure] = decide_all(scheduler)
    assert "no berth is free" in str(failure)
    scheduler.handlers.add_object(CustomObject(metadata=ObjectMeta(name="b1")), BERTHS)
    [action] = decide_all(scheduler)
    assert isinstance(action, Binding)


def test_the_dump_shows_nodes_pods_and_queue_and_what_differs_from_the_api(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.handlers.add_pod(make_pod("moored", cpu="1").on_node("n1"))
    scheduler.handlers.add_pod(make_pod("waiting", cpu="1"))
    stores = {
        "Node": SimpleNamespace(objects={"n1": make_node("n1"), "n2": make_node("n2")}),
        "Pod": SimpleNamespace(objects={}),
    }
    informers = cast(Informers, SimpleNamespace(stores=stores))
    with caplog.at_level(logging.INFO):
        dump(scheduler, informers)
    text = "\n".join(map(TextFormatter().format, caplog.records))
    assert "Cache mismatch missedNodes=['n2'] redundantNodes=[]" in text
    assert '"Dump of cached NodeInfo" nodes=<\n\tNode name: n1\n' in text
    assert "name: moored, namespace: default" in text
    assert "activeQ:1; backoffQ:0; unschedulableEntities:0" in text
