"""InterPodAffinity: pods that want to be, or must not be, near other pods."""

from moorage.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
