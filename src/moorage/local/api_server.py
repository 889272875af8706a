"""Which API server the stage is on: an embedded one, the real one started here, or one that exists.

Owns what follows from that: which nodes are simulated, who runs the controllers, and that no two
schedulers take the same pods. Starts no scheduler.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from moorage.controllers.kubelet import KubeletOptions
from moorage.controlplane.plane import (
    ADMIN_ALONE,
    GROUPS_OF_PODS,
    ControlPlane,
    find_binaries,
    has_controllers,
)
from moorage.errors import ApiError, InputError
from moorage.kube.access import Access
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient
from moorage.kube.requests import Json
from moorage.kube.resources import RESOURCES
from moorage.kube.timing import WallTimer, parse_time
from moorage.private_files import write_privately

_SYSTEM = "kube-system"
_SCHEDULER = "kube-scheduler"
_OF_CONTROLLERS = "kube-root-ca.crt"
"""The ConfigMap that kube-controller-manager puts into every namespace."""
_GONE = 404
_LOOK_SECONDS = 1.0


class OtherApi(NamedTuple):
    """An API server that is not the embedded one."""

    access: Access
    kubeconfig: Path
    kubelets: KubeletOptions
    plane: ControlPlane | None = None
    """Where it was started here."""

    async def check(self) -> None:
        """Complain if it cannot be reached, or if a scheduler is at work there."""
        async with KubeClient(self.access) as client:
            lease = await _found(client, "Lease", _SCHEDULER)
        spec = lease.get("spec") or {}
        holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
        if not (holder and renewed):
            return
        if WallTimer().now() - parse_time(renewed) < (spec.get("leaseDurationSeconds") or 0):
            raise InputError(
                f"{self.access.address}: {holder} holds the lease {_SYSTEM}/{_SCHEDULER}, and two "
                "schedulers would take the same pods: end that one first, or run `moorage "
                "kubelets` beside it"
            )

    async def has_controllers(self) -> bool:
        """Is there a kube-controller-manager, or was there one?"""
        if self.plane is not None:
            return self.plane.has_controllers
        async with KubeClient(self.access) as client:
            return bool(await _found(client, "ConfigMap", _OF_CONTROLLERS))

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig where a user wants it, for its owner alone."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_privately(path, self.kubeconfig.read_bytes())
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    async def watch(self) -> None:
        """For ever: complain when one of the programs that were started has ended."""
        while True:
            if self.plane is not None:
                self.plane.check()
            await asyncio.sleep(_LOOK_SECONDS)


async def _found(client: KubeClient, kind: str, name: str) -> Json:
    """An object of the system; empty if there is none."""
    try:
        return await client.get(RESOURCES[kind], _SYSTEM, name)
    except ApiError as error:
        if error.status == _GONE:
            return {}
        raise


def existing_api(kubeconfig: str, context: str) -> OtherApi:
    """The server of a kubeconfig; real nodes may be there, so only marked ones are simulated."""
    access = user_access(kubeconfig, context)
    return OtherApi(access, Path(kubeconfig), KubeletOptions(all_nodes=False))


@contextmanager
def real_api(folder: str, gates: str) -> Iterator[OtherApi]:
    """The programs of a folder (empty: the usual ones), started; they go with their files."""
    binaries = find_binaries(folder)
    flags: dict[str, object] = {
        # Pods from files come before anybody has made the account that they would get.
        "disable-admission-plugins": "ServiceAccount",
        "runtime-config": GROUPS_OF_PODS,
    }
    controllers = has_controllers(binaries)
    if not controllers:
        flags["disable-admission-plugins"] = "ServiceAccount,TaintNodesByCondition"
    if gates:
        flags["feature-gates"] = gates
    with tempfile.TemporaryDirectory(prefix="moorage-up-") as files:
        plane = ControlPlane(binaries, Path(files), ADMIN_ALONE, flags, controllers=controllers)
        try:
            kubeconfig = plane.kubeconfig()
            access = user_access(str(kubeconfig))
            yield OtherApi(access, kubeconfig, KubeletOptions(), plane)
        finally:
            plane.stop()
