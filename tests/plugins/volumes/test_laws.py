"""The volume plugins keep the laws of plugins that answer for nodes."""

import pytest

from moorage.framework.plugin import Plugin
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.plugins.volume_binding import VolumeBinding
from moorage.plugins.volume_restrictions import VolumeRestrictions
from moorage.plugins.volume_zone import VolumeZone
from moorage.testing import check_plugin
from plugins.volumes.storage_objects import (
    DRIVER,
    claim,
    csi_node,
    pod_with,
    storage_class,
    uses,
    volume,
)

OBJECTS = (
    claim("bound", bound_to="v"),
    volume(
        "v",
        nodes=["node-1", "node-2", "node-3"],
        labels={"topology.kubernetes.io/zone": "zone-1"},
        csi={"driver": DRIVER, "volumeHandle": "h"},
    ),
    claim("open"),
    storage_class(),
    volume("free", nodes=["node-4"]),
    *(csi_node(f"node-{i}", i % 2) for i in range(9)),
)
PODS = (
    pod_with(*uses("bound"), name="one"),
    pod_with(*uses("open"), name="two"),
    pod_with({"awsElasticBlockStore": {"volumeID": "vol-1"}}, name="three"),
)


@pytest.mark.parametrize(
    "plugin", [NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone]
)
def test_the_laws_hold(plugin: type[Plugin]) -> None:
    check_plugin(plugin, pods=PODS, others=OBJECTS)
