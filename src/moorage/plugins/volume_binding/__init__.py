"""VolumeBinding: claims and the volumes they are, or will be, bound to."""

from moorage.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
