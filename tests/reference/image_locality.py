"""ImageLocality: how many bytes of the pod's images a node has, weighed by how common they are."""

from moorage.model.pod import Pod
from reference.answers import truncated
from reference.cluster import NaiveCluster

_MIB = 1024 * 1024


def full_name(name: str) -> str:
    """The image name with its tag."""
    last = name.split("/")[-1]
    return name if ":" in last else f"{name}:latest"


def score_images(pod: Pod, node_name: str, cluster: NaiveCluster) -> int:
    """The score of one node."""
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    names = [container.image for container in containers]
    names += [volume.image.reference for volume in pod.spec.volumes if volume.image is not None]
    total = 0
    for name in names:
        image = cluster.images.get(full_name(name))
        if image is not None and node_name in image.nodes:
            share = float(len(image.nodes)) / float(len(cluster.nodes))
            total += int(float(image.size) * share)
    least, most = 23 * _MIB, 1000 * _MIB * len(names)
    total = max(least, min(total, most))
    return truncated(100 * (total - least), most - least)
