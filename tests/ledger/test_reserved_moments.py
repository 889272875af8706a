"""What Reserve plugins keep for pods on their way to a node is there again at a later moment."""

from collections.abc import Callable, Sequence

import pytest

from ledger.made import make_scheduler
from moorage.engine.actions import Binding
from moorage.engine.decisions import Bind
from moorage.engine.scheduler import Scheduler
from moorage.framework.status import Code, Status
from moorage.ledger import Ledger
from moorage.ledger.moment import finish
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing import make_node
from plugins.devices import device_objects as devices
from plugins.volumes import storage_objects as storage

Made = Callable[[], tuple[list[ApiObject], list[Pod]]]


def volumes() -> tuple[list[ApiObject], list[Pod]]:
    """Two nodes with a volume each, for three pods that want one."""
    objects: list[ApiObject] = [storage.storage_class()]
    objects += [storage.volume(f"pv-{name}", nodes=[name]) for name in ("n1", "n2")]
    objects += [storage.claim(f"data-{i}") for i in range(3)]
    pods = [storage.pod_with(*storage.uses(f"data-{i}"), name=f"pod-{i}") for i in range(3)]
    return objects, pods


def gpus() -> tuple[list[ApiObject], list[Pod]]:
    """Two nodes with a device each, for three pods that want one."""
    objects: list[ApiObject] = [devices.device_class()]
    objects += [
        devices.slice_of(f"s-{name}", [devices.device("gpu-0")], node=name) for name in ("n1", "n2")
    ]
    objects += [devices.claim(f"gpu-{i}", devices.request()) for i in range(3)]
    return objects, [devices.pod_with(f"gpu-{i}", name=f"pod-{i}") for i in range(3)]


def decided(scheduler: Scheduler, pods: Sequence[Pod]) -> list[Binding]:
    bindings = []
    for pod in pods:
        scheduler.handlers.add_pod(pod)
    while scheduler.schedule_one():
        bindings += [action for action in scheduler.outbox if isinstance(action, Binding)]
        scheduler.outbox.clear()
    return bindings


@pytest.mark.parametrize("make", [volumes, gpus])
def test_what_is_reserved_is_taken_again(make: Made) -> None:
    objects, pods = make()
    ledger, scheduler = Ledger(), make_scheduler()
    scheduler.record(ledger.recorder)
    for name in ("n1", "n2"):
        scheduler.handlers.add_node(make_node(name))
    for obj in objects:
        scheduler.handlers.add_object(obj)
    first, second = decided(scheduler, pods)
    assert {first.node_name, second.node_name} == {"n1", "n2"}
    assert [one.feasible for one in reversed(ledger.summaries())] == [2, 1, 0]
    for number in (3, 2, 1):
        moment, decision = finish(ledger.moment(number))
        again = moment.ask(decision)
        node = again.node_name if isinstance(again, Bind) else ""
        assert node == decision.node
        assert ledger.explain(number).note == ""
    # Once it is given back, another pod has it.
    scheduler.binding_failed(first, Status(Code.ERROR, ("timed out",)))
    scheduler.queue.activate([pods[2]])
    scheduler.outbox.clear()
    [third] = decided(scheduler, [])
    assert third.pod.name == "pod-2"
    assert ledger.explain(5).note == ""
