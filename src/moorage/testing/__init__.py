"""For tests of plugins, ours and other people's: builders of objects, and the laws of a plugin.

from moorage.testing import check_plugin, cluster, make_node, make_pod

state = cluster([make_node("quay", cpu="4")], [make_pod("ship", node_name="quay", cpu="1")])
check_plugin(MyPlugin)
"""

from moorage.testing.asking import LawBrokenError
from moorage.testing.builders import cluster, make_node, make_pod
from moorage.testing.plugin_laws import check_plugin

__all__ = ["LawBrokenError", "check_plugin", "cluster", "make_node", "make_pod"]
