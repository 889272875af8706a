"""Gates for pod-level resources that are off: what is taken off pods as they are read."""

import json

import msgspec
import pytest

from moorage.config import default_config
from moorage.config.feature_gates import FeatureGates
from moorage.config.pod_level import pod_level_adjustment
from moorage.kube.decoding import ObjectReader
from moorage.kube.resources import resource_for
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.simulator.world import World

RESIZES = {"InPlacePodLevelResourcesVerticalScaling": False}
BOTH = {
    **RESIZES,
    "PodLevelResources": False,
    "PodLevelResourcesFixDefaulting": False,
    "PodLevelResourcesFixKubeletQOSClass": False,
}
POD: Json = {
    "metadata": {"name": "whole", "namespace": "default"},
    "spec": {
        "resources": {"requests": {"cpu": "3"}},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    },
    "status": {
        "resources": {"requests": {"cpu": "4"}},
        "allocatedResources": {"cpu": "4"},
    },
}


def read(settings: dict[str, bool], body: Json = POD) -> Pod:
    adjust = pod_level_adjustment(FeatureGates(settings))
    reader = ObjectReader(resource_for("Pod"), adjust=adjust)
    pod = reader.read(msgspec.Raw(json.dumps(body).encode()))
    assert isinstance(pod, Pod)
    return pod


@pytest.mark.parametrize(
    ("settings", "occupied"), [({}, 4000), (RESIZES, 3000), (BOTH, 1000)], ids=["on", "spec", "off"]
)
def test_a_pod_on_a_node_counts_as_the_gates_say(settings: dict[str, bool], occupied: int) -> None:
    assert read(settings).requests.occupied == {"cpu": occupied}


@pytest.mark.parametrize(
    ("settings", "occupied"), [({}, 4000), (RESIZES, 1000), (BOTH, 1000)], ids=["on", "spec", "off"]
)
def test_what_is_reported_of_a_whole_pod_needs_no_word_in_its_spec(
    settings: dict[str, bool], occupied: int
) -> None:
    spec = {"containers": POD["spec"]["containers"]}
    assert read(settings, {**POD, "spec": spec}).requests.occupied == {"cpu": occupied}


def test_a_pod_to_be_placed_asks_for_what_counts() -> None:
    assert read({}).requests.incoming == {"cpu": 3000}
    assert read(BOTH).requests.incoming == {"cpu": 1000}


def test_nothing_is_done_by_default() -> None:
    assert pod_level_adjustment(FeatureGates({})) is None


def test_a_world_reads_pods_alike() -> None:
    world = World(default_config(), gates=FeatureGates(BOTH))
    world.add_all([msgspec.convert(POD, Pod)])
    assert world.pending[0].requests.incoming == {"cpu": 1000}
