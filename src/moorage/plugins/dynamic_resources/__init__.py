"""DynamicResources: the plugin, the structured allocator behind it, and its CEL."""

from moorage.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
