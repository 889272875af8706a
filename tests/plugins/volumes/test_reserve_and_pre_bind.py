"""VolumeBinding after a node was chosen: books in memory, writes, waiting, and taking back."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from moorage.cluster.state import ClusterState
from moorage.config.args import VolumeBindingArgs
from moorage.errors import ApiError
from moorage.framework.plugin import ApiPort
from moorage.framework.status import Code, Status
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from moorage.plugins.volume_binding import VolumeBinding
from moorage.testing import cluster, make_node
from plugins.volumes.judging import ask, make
from plugins.volumes.storage_objects import (
    DRIVER,
    claim,
    pod_with,
    storage_class,
    uses,
    volume,
)

UNMATCHED = ("node(s) didn't find available persistent volumes to bind",)
NODES = (make_node("a"), make_node("b"))
FIRST, SECOND = pod_with(*uses("x"), name="first"), pod_with(*uses("y"), name="second")
TIMEOUT = 600

Kind = TypeVar("Kind", bound=ApiObject)


class FakeApi(ApiPort):
    """Stores what is written, and lets a "controller" act whenever time passes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.time = 0.0
        self.looks = 0
        self.written: list[str] = []
        self.refuse = ""
        self.gone_pods: set[str] = set()
        self.controller: Callable[[FakeApi], None] = lambda _: None

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise AssertionError("volumes are bound before pods")

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        return self._write(volume)

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        return self._write(claim)

    def node(self, name: str) -> Node | None:
        row = self._state.nodes.row_of.get(name)
        return None if row is None else self._state.nodes.nodes[row]

    def pod_exists(self, pod: Pod) -> bool:
        return pod.name not in self.gone_pods

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.looks += 1
        self.controller(self)

    def show(self, obj: ApiObject) -> None:
        """The object arrives by watch."""
        self._state.listers.of(type(obj)).put(obj)

    def _write(self, obj: Kind) -> Kind:
        if obj.name == self.refuse:
            raise ApiError(409, "Conflict", f'"{obj.name}" has been modified')
        self.written.append(obj.name)
        stored = newer(obj)
        self.show(stored)
        return stored


def newer(obj: Kind) -> Kind:
    """The object as the API stores it: with the next version."""
    version = str(int(obj.metadata.resource_version) + 1)
    metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
    return msgspec.structs.replace(obj, metadata=metadata)


def bound(obj: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    """The claim as the volume controller leaves it."""
    annotations = {**obj.metadata.annotations, BIND_COMPLETED: "yes"}
    metadata = msgspec.structs.replace(obj.metadata, annotations=annotations)
    spec = msgspec.structs.replace(obj.spec, volume_name=volume_name)
    return newer(msgspec.structs.replace(obj, metadata=metadata, spec=spec))


class Scene:
    """Two waiting pods with a claim each, and VolumeBinding over their cluster."""

    def __init__(self, *objects: ApiObject) -> None:
        self.state = cluster(NODES, [], [claim("x"), claim("y"), *objects])
        args = VolumeBindingArgs(bind_timeout_seconds=TIMEOUT)
        self.plugin: VolumeBinding = make(VolumeBinding, self.state, args=args)
        self.api = FakeApi(self.state)

    def ask(self, pod: Pod) -> object:
        return ask(self.plugin, pod, self.state)

    def reserve(self, pod: Pod, node: str) -> None:
        self.ask(pod)
        assert self.plugin.reserve(pod, node) is None

    def pre_bind(self, pod: Pod, node: str) -> Status | None:
        return asyncio.run(self.plugin.pre_bind(pod, node, self.api))

    def claim(self, name: str) -> PersistentVolumeClaim:
        found = self.state.listers.of(PersistentVolumeClaim).get(name, "default")
        assert found is not None
        return found

    def volume(self, name: str) -> PersistentVolume:
        found = self.state.listers.of(PersistentVolume).get(name)
        assert found is not None
        return found


@pytest.fixture
def static() -> Scene:
    """One volume that only node a reaches, and nothing on demand."""
    return Scene(storage_class(), volume("v", nodes=["a"]))


@pytest.fixture
def dynamic() -> Scene:
    """Volumes only on demand."""
    return Scene(storage_class(provisioner=DRIVER))


def test_a_reserved_volume_is_not_offered_to_the_next_pod(static: Scene) -> None:
    static.reserve(FIRST, "a")
    assert static.ask(SECOND) == {"a": UNMATCHED, "b": UNMATCHED}
    static.plugin.unreserve(FIRST, "a")
    assert static.ask(SECOND) == {"b": UNMATCHED}


def test_unreserve_may_come_twice_or_without_reserve(static: Scene) -> None:
    static.plugin.unreserve(FIRST, "a")
    static.reserve(FIRST, "a")
    static.plugin.unreserve(FIRST, "a")
    static.plugin.unreserve(FIRST, "a")
    assert static.ask(SECOND) == {"b": UNMATCHED}


def test_the_smallest_volume_of_the_chosen_node_is_the_one_reserved() -> None:
    scene = Scene(
        storage_class(),
        volume("large", "9Gi"),
        volume("small", "5Gi", nodes=["b"]),
        volume("middle", "7Gi"),
    )
    scene.reserve(FIRST, "a")
    scene.api.controller = lambda api: api.show(bound(scene.claim("x"), "middle"))
    assert scene.pre_bind(FIRST, "a") is None
    assert scene.api.written == ["middle"]


def test_a_claim_to_provision_for_stays_with_its_node(dynamic: Scene) -> None:
    dynamic.reserve(FIRST, "b")
    sharing = pod_with(*uses("x"), name="sharing")
    assert dynamic.ask(sharing) == {"a": UNMATCHED}
    dynamic.plugin.unreserve(FIRST, "b")
    assert dynamic.ask(sharing) == {}


def test_a_newer_object_from_the_api_outranks_an_assumed_one(static: Scene) -> None:
    static.reserve(FIRST, "a")
    static.api.show(newer(static.volume("v")))
    assert static.ask(SECOND) == {"b": UNMATCHED}


def test_an_object_that_changed_since_it_was_looked_at_cannot_be_assumed(static: Scene) -> None:
    cache = static.plugin._volumes
    old = static.volume("v")
    static.api.show(newer(old))
    with pytest.raises(Exception, match=r'"v" is out of sync \(stored: 2, assume: 1\)'):
        cache.assume(old)


def test_pods_whose_claims_are_bound_write_nothing() -> None:
    scene = Scene(claim("x", bound_to="v"), volume("v"), storage_class())
    scene.reserve(FIRST, "a")
    assert scene.pre_bind(FIRST, "a") is None
    assert scene.api.written == []
    assert scene.api.time == 0


def test_static_binding_writes_the_volume_and_waits_for_the_claim(static: Scene) -> None:
    static.reserve(FIRST, "a")

    def controller(api: FakeApi) -> None:
        if api.looks == 3:
            api.show(bound(static.claim("x"), "v"))

    static.api.controller = controller
    assert static.pre_bind(FIRST, "a") is None
    written = static.volume("v")
    assert written.spec.claim_ref is not None
    assert (written.spec.claim_ref.name, written.spec.claim_ref.uid) == ("x", "uid-x")
    assert written.metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}
    assert static.api.time == 3.0


def test_a_volume_that_the_user_bound_only_gets_the_uid() -> None:
    mine = {"namespace": "default", "name": "x"}
    scene = Scene(storage_class(), volume("v", claim_ref=mine))
    scene.reserve(FIRST, "a")
    scene.api.controller = lambda api: api.show(bound(scene.claim("x"), "v"))
    assert scene.pre_bind(FIRST, "a") is None
    written = scene.volume("v")
    assert written.metadata.annotations == {}
    assert written.spec.claim_ref is not None
    assert written.spec.claim_ref.uid == "uid-x"


def test_provisioning_writes_the_selected_node(dynamic: Scene) -> None:
    dynamic.reserve(FIRST, "b")

    def controller(api: FakeApi) -> None:
        if api.looks == 2:
            api.show(bound(dynamic.claim("x"), "made"))
        if api.looks == 4:
            api.show(volume("made", nodes=["b"]))

    dynamic.api.controller = controller
    assert dynamic.pre_bind(FIRST, "b") is None
    assert dynamic.claim("x").selected_node == "b"
    assert dynamic.api.time == 4.0, "a bound claim counts once its volume is seen, too"


def failure(text: str) -> Status:
    return Status(Code.ERROR, (text,))


def test_binding_ends_at_its_deadline_and_keeps_what_was_written(static: Scene) -> None:
    static.reserve(FIRST, "a")
    assert static.pre_bind(FIRST, "a") == failure("binding volumes: context deadline exceeded")
    assert static.api.time == TIMEOUT
    static.plugin.unreserve(FIRST, "a")
    assert static.ask(SECOND) == {"a": UNMATCHED, "b": UNMATCHED}, "the API says it is x's"
    assert static.ask(FIRST) == {"b": UNMATCHED}, "so x gets it at the next attempt"


def test_a_refused_write_gives_the_volume_back(static: Scene) -> None:
    static.reserve(FIRST, "a")
    static.api.refuse = "v"
    assert static.pre_bind(FIRST, "a") == failure('"v" has been modified')
    static.plugin.unreserve(FIRST, "a")
    assert static.ask(SECOND) == {"b": UNMATCHED}


def test_after_a_partial_write_only_the_rest_is_given_back() -> None:
    scene = Scene(
        storage_class(), volume("1", "5Gi"), volume("2", "6Gi"), claim("w", "5Gi", version="1")
    )
    both = pod_with(*uses("x", "y"), name="both")
    scene.reserve(both, "a")
    scene.api.refuse = "2"
    assert scene.pre_bind(both, "a") == failure('"2" has been modified')
    scene.plugin.unreserve(both, "a")
    third = pod_with(*uses("w"), name="third")
    scene.reserve(third, "a")
    scene.api.refuse = ""
    scene.api.controller = lambda api: api.show(bound(scene.claim("w"), "2"))
    assert scene.pre_bind(third, "a") is None
    assert scene.api.written == ["1", "2"]


def test_a_provisioner_gives_up_by_taking_the_annotation_away(dynamic: Scene) -> None:
    dynamic.reserve(FIRST, "a")

    def controller(api: FakeApi) -> None:
        current = dynamic.claim("x")
        kept = {"other": "yes"}
        metadata = msgspec.structs.replace(current.metadata, annotations=kept)
        api.show(newer(msgspec.structs.replace(current, metadata=metadata)))

    dynamic.api.controller = controller
    expected = failure('binding volumes: provisioning failed for PVC "x"')
    assert dynamic.pre_bind(FIRST, "a") == expected


def test_a_volume_made_elsewhere_fails_the_binding(dynamic: Scene) -> None:
    dynamic.reserve(FIRST, "a")

    def controller(api: FakeApi) -> None:
        api.show(volume("made", nodes=["b"]))
        api.show(bound(dynamic.claim("x"), "made"))

    dynamic.api.controller = controller
    assert dynamic.pre_bind(FIRST, "a") == failure(
        'binding volumes: pv "made" node affinity doesn\'t match node "a": '
        "no matching NodeSelectorTerms"
    )


def test_a_claim_reference_that_is_dropped_fails_the_binding(static: Scene) -> None:
    static.reserve(FIRST, "a")
    static.api.controller = lambda api: api.show(volume("v", nodes=["a"], version="7"))
    assert static.pre_bind(FIRST, "a") == failure('binding volumes: ClaimRef got reset for pv "v"')


def test_an_older_object_is_not_taken_for_an_answer(static: Scene) -> None:
    """A watch may still deliver the state from before our write."""
    static.reserve(FIRST, "a")
    before = static.volume("v")

    def controller(api: FakeApi) -> None:
        if api.looks == 1:
            api.show(before)
        if api.looks == 2:
            after = static.plugin.cycle_state(FIRST)["assumed"].bindings[0].volume
            api.show(after)
            api.show(bound(static.claim("x"), "v"))

    static.api.controller = controller
    assert static.pre_bind(FIRST, "a") is None
    assert static.api.time == 2.0


def test_a_deleted_pod_or_node_ends_the_wait(static: Scene, dynamic: Scene) -> None:
    static.reserve(FIRST, "a")
    static.api.gone_pods.add("first")
    assert static.pre_bind(FIRST, "a") == failure(
        'binding volumes: pod does not exist any more: pod "first" not found'
    )
    dynamic.reserve(FIRST, "b")
    dynamic.api.controller = lambda _: dynamic.state.remove_node("b")
    assert dynamic.pre_bind(FIRST, "b") == failure(
        'binding volumes: failed to get node "b": node "b" not found'
    )


def test_objects_that_never_saw_an_api_server_can_be_assumed() -> None:
    """Offline there are no versions: then an object is newer if it is another one."""
    scene = Scene(storage_class(), volume("v", version=""))
    scene.reserve(FIRST, "a")
    assert scene.ask(SECOND) == {"a": UNMATCHED, "b": UNMATCHED}
    scene.api.show(volume("v", version=""))
    assert scene.ask(SECOND) == {}


def test_the_selected_node_is_written_over_the_claims_other_annotations() -> None:
    scene = Scene(storage_class(provisioner=DRIVER), claim("x", annotations={"kept": "yes"}))
    scene.reserve(FIRST, "a")
    scene.api.controller = lambda api: api.show(bound(scene.claim("x"), ""))
    scene.pre_bind(FIRST, "a")
    annotations = scene.claim("x").metadata.annotations
    assert annotations["kept"] == "yes"
    assert annotations[SELECTED_NODE] == "a"
