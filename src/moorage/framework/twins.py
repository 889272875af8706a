"""Pods that come one after the other and are alike: batches, as they come from one controller.

Owns what makes two pods twins: nothing tells them apart but who they are. Plugins give twins the
same key (see `Plugin.steady`), so that a whole batch is looked up once; each pod of it still gets
its own decision, because the one before has taken room. Where all plugins' keys follow from what
pods ask for (`Plugin.keyed_by_spec`), it is enough that they ask for the same.
"""

from moorage.model.pod import Pod


def are_twins(pod: Pod, other: Pod) -> bool:
    """Do two pods differ in nothing but name, uid, version and times?"""
    one, two = pod.metadata, other.metadata
    # Parts that are shared (`kube.interning`) need no comparing.
    return (
        one.namespace == two.namespace
        and (one.labels is two.labels or one.labels == two.labels)
        and ask_for_the_same(pod, other)
        and (one.annotations is two.annotations or one.annotations == two.annotations)
        and one.owner_references == two.owner_references
        and one.finalizers == two.finalizers
        and one.deletion_timestamp == two.deletion_timestamp
    )


def ask_for_the_same(pod: Pod, other: Pod) -> bool:
    """Are two pods equal in spec and status? Their labels and owners may be others."""
    return (pod.spec is other.spec or pod.spec == other.spec) and pod.status == other.status
