"""The heap that active and back-off queues are made of."""

from moorage.engine.queue.entities import QueuedPodInfo
from moorage.engine.queue.entity_heap import EntityHeap
from moorage.testing.builders import make_pod


def heap_of(*numbers: int) -> tuple[EntityHeap, list[QueuedPodInfo]]:
    heap = EntityHeap(lambda info: info.timestamp)
    infos = [
        QueuedPodInfo(make_pod(f"pod-{number}"), timestamp=float(number)) for number in numbers
    ]
    for info in infos:
        heap.put(info)
    return heap, infos


def drain(heap: EntityHeap) -> list[str]:
    names: list[str] = []
    while (entity := heap.pop()) is not None:
        names += (info.pod.name for info in entity.infos)
    return names


def test_pods_come_out_in_order_whatever_order_they_went_in() -> None:
    heap, _ = heap_of(5, 1, 4, 2, 3)
    assert [entity.infos[0].pod.name for entity in heap] == [
        f"pod-{number}" for number in range(1, 6)
    ]
    assert drain(heap) == [f"pod-{number}" for number in range(1, 6)]
    assert heap.peek() is None


def test_a_pod_whose_key_changes_and_changes_back_is_there_once() -> None:
    heap, infos = heap_of(1, 2, 3)
    for timestamp in (9.0, 1.0, 9.0, 1.0):
        infos[0].timestamp = timestamp
        heap.put(infos[0])
    assert drain(heap) == ["pod-1", "pod-2", "pod-3"]


def test_removed_pods_do_not_come_out() -> None:
    heap, infos = heap_of(1, 2, 3)
    assert heap.remove("default/pod-1") is infos[0]
    assert heap.remove("default/pod-1") is None
    assert "default/pod-1" not in heap
    assert drain(heap) == ["pod-2", "pod-3"]


def test_removed_pods_do_not_pile_up() -> None:
    heap, _ = heap_of(0)
    for number in range(10_000):
        info = QueuedPodInfo(make_pod(), timestamp=float(number))
        heap.put(info)
        heap.remove(info.key)
    assert len(heap) == 1
    assert len(heap._heap) < 200
