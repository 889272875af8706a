"""What every namespace has: an account for its pods, and the authority that they trust.

Upstream: kubernetes@v1.37.1 pkg/controller/serviceaccount, .../certificates/rootcacertpublisher.
"""

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import Json, is_going, meta
from moorage.controllers.plan import Plan

ACCOUNT, AUTHORITY = "default", "kube-root-ca.crt"


def reconcile(cluster: ClusterObjects, namespace: Json, now: float) -> Plan:
    """Make what is missing."""
    del now
    plan = Plan()
    inside = meta(namespace)["name"]
    if is_going(namespace):
        return plan
    for kind, name, content in (
        ("ServiceAccount", ACCOUNT, {}),
        # Who trusts it finds the certificate in the kubeconfig; in plain HTTP there is none.
        ("ConfigMap", AUTHORITY, {"data": {"ca.crt": ""}}),
    ):
        if cluster.get(kind, inside, name) is None:
            metadata = {"name": name, "namespace": inside}
            plan.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, **content})
    return plan
