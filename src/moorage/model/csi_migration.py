"""In-tree disks and the CSI drivers that serve them nowadays.

Owns the mapping from an in-tree volume source to its driver, its handle there and the nodes that
reach it. Must not ask whether a node has migrated: that is written on its CSINode, and plugins
differ in how they read it.
"""

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from moorage.errors import TranslationError
from moorage.model.node import (
    BETA_REGION_LABEL,
    BETA_ZONE_LABEL,
    REGION_LABEL,
    ZONE_LABEL,
)
from moorage.model.node_selector import (
    CompiledNodeSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    compile_node_selector,
)
from moorage.model.storage import PersistentVolume
from moorage.model.volumes import AWSElasticBlockStore, AzureDisk, GCEPersistentDisk, VolumeSources

ZONE_DELIMITER = "__"

_UNSPECIFIED = "UNSPECIFIED"
_MANAGED = "managed"
_EBS_URL = "aws://"
_EBS_ID = re.compile(r"vol-[^/]*")


class InTreePlugin(NamedTuple):
    """An in-tree volume plugin and the driver that took its place."""

    name: str
    driver: str
    handle: Callable[[Any], str]
    """What the driver calls a source's disk; raises `TranslationError`."""
    zone_key: str = ""
    """The driver's topology key that stands for the zone; empty if zones are left alone."""
    scheduled: bool = True
    """Does the scheduler translate its volumes? For two plugins upstream never switched it on."""


def _ebs_handle(disk: AWSElasticBlockStore) -> str:
    """The bare id; it may also be written as aws://<zone>/<id>."""
    text = disk.volume_id
    if not text.startswith(_EBS_URL):
        return text
    location = re.split("[?#]", text.removeprefix(_EBS_URL), maxsplit=1)[0]
    handle = location.partition("/")[2].strip("/")
    if _EBS_ID.fullmatch(handle) is None:
        raise TranslationError(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({text})"
        )
    return handle


def _azure_handle(disk: AzureDisk) -> str:
    if disk.kind.lower() != _MANAGED:
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


def _gce_handle(disk: GCEPersistentDisk, kind: str = "zones", place: str = _UNSPECIFIED) -> str:
    return f"projects/{_UNSPECIFIED}/{kind}/{place}/disks/{disk.pd_name}"


_volume_id = attrgetter("volume_id")
_PLUGINS = {
    "aws_elastic_block_store": InTreePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", _ebs_handle, "topology.ebs.csi.aws.com/zone"
    ),
    "gce_persistent_disk": InTreePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _gce_handle, "topology.gke.io/zone"
    ),
    "cinder": InTreePlugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        _volume_id,
        "topology.cinder.csi.openstack.org/zone",
    ),
    "azure_disk": InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", _azure_handle),
    "portworx_volume": InTreePlugin(
        "kubernetes.io/portworx-volume", "pxd.portworx.com", _volume_id
    ),
    # Shares of files are told apart by more than this; the scheduler never counts them.
    "azure_file": InTreePlugin(
        "kubernetes.io/azure-file",
        "file.csi.azure.com",
        attrgetter("share_name"),
        scheduled=False,
    ),
    "vsphere_volume": InTreePlugin(
        "kubernetes.io/vsphere-volume",
        "csi.vsphere.vmware.com",
        attrgetter("volume_path"),
        scheduled=False,
    ),
}
"""By the field that holds the source; volumes of pods and PersistentVolumes use the same names."""

_BY_NAME = {plugin.name: plugin for plugin in _PLUGINS.values()}


def plugin_of(source: VolumeSources) -> InTreePlugin | None:
    """The in-tree plugin of a volume; None if it has another kind of source."""
    for field, plugin in _PLUGINS.items():
        if getattr(source, field) is not None:
            return plugin
    return None


def translated(source: VolumeSources) -> InTreePlugin | None:
    """The same, of those that the scheduler translates."""
    plugin = plugin_of(source)
    return plugin if plugin is not None and plugin.scheduled else None


def plugin_named(name: str) -> InTreePlugin | None:
    """The in-tree plugin that a StorageClass names as provisioner."""
    return _BY_NAME.get(name)


def handle_of(source: VolumeSources) -> str:
    """The handle at the driver of an in-tree disk; raises `TranslationError`."""
    for field, plugin in _PLUGINS.items():
        disk = getattr(source, field)
        if disk is not None:
            return plugin.handle(disk)
    return ""


def handle_of_volume(volume: PersistentVolume) -> str:
    """The same of a PersistentVolume, whose labels may tell where it is."""
    disk = volume.spec.gce_persistent_disk
    if disk is None:
        return handle_of(volume.spec)
    text = volume.labels.get(BETA_ZONE_LABEL) or volume.labels.get(ZONE_LABEL, "")
    zones = text.split(ZONE_DELIMITER)
    if len(zones) > 1:
        return _gce_handle(disk, "regions", _gce_region(zones))
    return _gce_handle(disk, "zones", zones[0] or _UNSPECIFIED)


def required_nodes_at_driver(
    volume: PersistentVolume, plugin: InTreePlugin
) -> CompiledNodeSelector | None:
    """Which nodes reach the volume in the driver's terms; raises `TranslationError`.

    The driver labels nodes with its own zone key, so a demand for a zone becomes one for that key.
    """
    handle_of_volume(volume)  # a volume that cannot be translated is an error, wherever it is
    if not plugin.zone_key:
        return volume.required_nodes
    affinity = volume.spec.node_affinity
    selector = affinity.required if affinity is not None else None
    terms = _terms_at_driver(volume, selector, plugin.zone_key)
    if selector is None and not terms:
        return None
    return compile_node_selector(NodeSelector(node_selector_terms=terms))


def _terms_at_driver(
    volume: PersistentVolume, selector: NodeSelector | None, zone_key: str
) -> tuple[NodeSelectorTerm, ...]:
    terms = selector.node_selector_terms if selector is not None else ()
    zone, region = _label_names(volume, terms)
    if _has_values(terms, zone):
        terms = _renamed(terms, zone, zone_key)
    elif zone in volume.labels:
        parts = (part.strip() for part in volume.labels[zone].split(ZONE_DELIMITER))
        zones = tuple(sorted({part for part in parts if part}))
        if zones:
            wanted = NodeSelectorRequirement(key=zone_key, operator="In", values=zones)
            terms = _with_requirement(terms or (NodeSelectorTerm(),), wanted)
    if region == BETA_REGION_LABEL and _has_values(terms, region):
        terms = _renamed(terms, region, REGION_LABEL)
    return terms


def _label_names(volume: PersistentVolume, terms: tuple[NodeSelectorTerm, ...]) -> tuple[str, str]:
    """The names under which the volume speaks of zone and region: affinity first, then labels."""
    mentioned = {expr.key for term in terms for expr in term.match_expressions}
    for known in (mentioned, volume.labels):
        if ZONE_LABEL in known:
            return ZONE_LABEL, REGION_LABEL
        if BETA_ZONE_LABEL in known:
            return BETA_ZONE_LABEL, BETA_REGION_LABEL
    return ZONE_LABEL, REGION_LABEL


def _has_values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(expr.key == key and expr.values for t in terms for expr in t.match_expressions)


def _renamed(
    terms: tuple[NodeSelectorTerm, ...], old: str, new: str
) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(expr, key=new) if expr.key == old else expr
                for expr in term.match_expressions
            ),
        )
        for term in terms
    )


def _with_requirement(
    terms: tuple[NodeSelectorTerm, ...], wanted: NodeSelectorRequirement
) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, wanted))
        for term in terms
    )


def _gce_region(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        shown = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, "
            f"got: map[{shown}]"
        )
    return regions.pop()
