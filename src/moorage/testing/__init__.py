"""For tests of plugins, ours and other people's: builders of objects, and checks of a plugin.

from moorage.testing import check_plugin, cluster, make_node, make_pod

state = cluster([make_node("quay", cpu="4")], [make_pod("ship", node_name="quay", cpu="1")])
check_plugin(MyPlugin)
"""

from moorage.testing.builders import cluster, make_node, make_pod
from moorage.testing.errors import PluginCheckError
from moorage.testing.plugin_checks import check_plugin

__all__ = ["PluginCheckError", "check_plugin", "cluster", "make_node", "make_pod"]
