"""DefaultPreemption: make room for a pod by evicting less important ones."""

from moorage.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
