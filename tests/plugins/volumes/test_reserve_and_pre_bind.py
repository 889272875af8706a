"""VolumeBinding after a node was chosen: books in memory, writes, waiting, and taking back."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from plugins.volumes.judging import ask, make
from plugins.volumes.storage_objects import (
    DRIVER,
    claim,
    pod_with,
    storage_class,
    uses,
    volume,
)

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

UNMATCHED = ("node(s) didn't find available persistent volumes to bind",)
NODES = (make_node("a"), make_node("b"))
FIRST, SECOND = pod_with(*uses("x"), name="first"), pod_with(*uses("y"), name="second")
TIMEOUT = 600


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

    def _write[Kind: ApiObject](self, obj: Kind) -> Kind: ...


def _newer(obj: ApiObject) -> ApiObject:
    version = str(int(obj.metadata.resource_version) + 1)
    metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
    return msgspec.structs.replace(obj, metadata=metadata)
