"""NodeVolumeLimits: the plugin, and what drivers have attached, kept for nodes close to limits."""

from moorage.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
