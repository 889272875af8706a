"""Where the way to the API server is described: a kubeconfig, or the service account of our pod.

Owns the order in which kube-scheduler looks (`--kubeconfig` and `--master`, else the pod's service
account) and the one sentence for when there is nothing at all.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from moorage.errors import KubeconfigError
from moorage.kube.access import Access, Pem
from moorage.kube.kubeconfig import Kubeconfig, default_paths, server_url

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_NOTHING = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER"
    " environment variable"
)


def scheduler_access(
    kubeconfig: str = "",
    master: str = "",
    *,
    env: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """What kube-scheduler uses: its two flags, else the service account of its pod."""
    if kubeconfig:
        files = Kubeconfig([kubeconfig], must_exist=True)
        if files.is_empty and not master:
            raise KubeconfigError(f"kubeconfig {kubeconfig}: {_NOTHING}")
        if not (files.is_empty and master):
            return files.access(master=master)
    if master:
        return Access(server=server_url(master, tls=False), source="--master")
    access = in_cluster_access(env=env, service_account=service_account)
    if access is None:
        raise KubeconfigError(_NOTHING)
    return access


def user_access(
    kubeconfig: str = "", context: str = "", *, env: Mapping[str, str] = os.environ
) -> Access:
    """What kubectl uses: the file named, else the files of KUBECONFIG, else `~/.kube/config`."""
    paths = (kubeconfig,) if kubeconfig else default_paths(env)
    files = Kubeconfig(paths, must_exist=bool(kubeconfig))
    if files.is_empty:
        raise KubeconfigError(f"{files.source}: {_NOTHING}")
    return files.access(context)


def in_cluster_access(
    *, env: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> Access | None:
    """The service account of the pod that we run in; None outside a cluster."""
    host = env.get("KUBERNETES_SERVICE_HOST", "")
    port = env.get("KUBERNETES_SERVICE_PORT", "")
    token = service_account / "token"
    if not (host and port and token.exists()):
        return None
    authority = service_account / "ca.crt"
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(
        server=server_url(address, tls=True),
        source="the pod's service account",
        ca=Pem(path=str(authority)) if authority.exists() else Pem(),
        token_file=str(token),
    )
