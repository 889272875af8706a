"""PodTopologySpread: keep matching pods evenly spread over the values of a node label."""

from moorage.plugins.topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
