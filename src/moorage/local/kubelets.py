"""Runs simulated kubelets over the API, against any API server."""

from moorage.controllers.kubelet import KubeletOptions, Kubelets
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.local.controllers import Controllers

_WORKERS = 32
"""Each pod needs one write after the other, but pods do not wait for one another."""
_RATE = 100_000
"""Of requests a second: the API server says when it is too much."""


def kubelets(client: KubeClient, options: KubeletOptions) -> Controllers:
    """What runs the kubelets of a cluster."""
    return Controllers(client, machine=Kubelets(options).machine, workers=_WORKERS)


async def run_kubelets(access: Access, options: KubeletOptions) -> None:
    """Run the kubelets of a cluster until cancelled."""
    async with KubeClient(access, qps=_RATE, burst=_RATE) as client:
        await kubelets(client, options).run()
