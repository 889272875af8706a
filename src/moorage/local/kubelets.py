"""Runs simulated kubelets over the API, against any API server, and makes nodes for them."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from moorage.controllers.kubelet import KubeletOptions, Kubelets
from moorage.errors import ApiError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.requests import list_
from moorage.kube.resources import resource_for
from moorage.local.controllers import Controllers

_WORKERS = 32
"""Each pod needs one write after the other, but pods do not wait for one another."""
_RATE = 100_000
"""Of requests a second: the API server says when it is too much."""
_NODE = resource_for("Node")
_CONFLICT = 409


def kubelets(client: KubeClient, options: KubeletOptions) -> Controllers:
    """What runs the kubelets of a cluster."""
    return Controllers(client, machine=Kubelets(options).machine, workers=_WORKERS)


async def run_kubelets(access: Access, options: KubeletOptions) -> None:
    """Run the kubelets of a cluster until cancelled."""
    async with _client(access) as client:
        await kubelets(client, options).run()


async def create_nodes(access: Access, nodes: Sequence[Mapping[str, Any]]) -> int:
    """Create nodes; how many were not there yet.

    Without any it only shows whether the API server can be reached.
    """
    made = 0
    left = deque(nodes)

    async def create_some(client: KubeClient) -> None:
        nonlocal made
        while left:
            try:
                await client.create(_NODE, "", left.popleft())
                made += 1
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise

    async with _client(access) as client:
        await client.page(list_(_NODE, limit=1))
        await asyncio.gather(*(create_some(client) for _ in range(_WORKERS)))
    return made


def _client(access: Access) -> KubeClient:
    return KubeClient(access, qps=_RATE, burst=_RATE)
