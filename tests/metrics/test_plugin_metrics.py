"""What single plugins tell the metrics."""

import msgspec
import pytest

from metrics.measuring import values_in
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.metrics.exporter import AllMetrics
from plugins.devices.device_objects import device_class
from plugins.devices.test_device_reservations import BROKEN, EXTENDED, FIRST, Prepared, Scene
from plugins.volumes.storage_objects import storage_class, volume
from plugins.volumes.test_reserve_and_pre_bind import FIRST as WITH_CLAIM
from plugins.volumes.test_reserve_and_pre_bind import Scene as VolumeScene


def watched(scene: Scene) -> AllMetrics:
    """Let metrics hear of what a scene's plugin does."""
    metrics = AllMetrics(DEFAULT_FEATURE_GATES)
    handle = msgspec.structs.replace(scene.plugin.handle, observer=metrics.scheduler)
    scene.plugin.handle = handle
    return metrics


@pytest.mark.parametrize(
    ("condition", "status"), [("Ready", "success"), ("Broken", "failure"), ("", "timeout")]
)
def test_a_wait_for_devices_is_counted_by_driver_and_outcome(condition: str, status: str) -> None:
    scene = Prepared()
    metrics = watched(scene)
    scene.reserve(FIRST)
    if condition:
        scene.driver_says(condition)
    scene.pre_bind(FIRST)
    labels = f'driver="gpu.example.com",profile="default-scheduler",status="{status}"'
    text = metrics.render()[1]
    name = "scheduler_dra_bindingconditions"
    assert values_in(text, f"{name}_allocations_total") == {labels: 1}
    assert values_in(text, f"{name}_wait_duration_seconds_count") == {labels: 1}


@pytest.mark.parametrize("status", ["success", "failure"])
def test_claims_made_for_extended_resources_are_counted(status: str) -> None:
    scene = Scene(device_class("gpu", extendedResourceName="example.com/gpu"))
    metrics = watched(scene)
    if status == "failure":
        scene.api.refuse["create"] = [BROKEN]
    scene.reserve(EXTENDED)
    scene.pre_bind(EXTENDED)
    text = metrics.render()[1]
    labels = f'admin_access="false",owner_api_group="",owner_api_kind="Pod",status="{status}"'
    name = "dynamic_resource_allocation_resourceclaim_creates_total"
    assert values_in(text, name) == {labels: 1}


def test_volumes_that_cannot_be_bound_are_counted() -> None:
    scene = VolumeScene(storage_class(), volume("v", nodes=["a"]))
    metrics = AllMetrics(DEFAULT_FEATURE_GATES)
    handle = msgspec.structs.replace(scene.plugin.handle, observer=metrics.scheduler)
    scene.plugin.handle = handle
    scene.reserve(WITH_CLAIM, "a")
    scene.api.refuse = "v"
    assert scene.pre_bind(WITH_CLAIM, "a") is not None
    name = "scheduler_volume_scheduling_stage_error_total"
    assert values_in(metrics.render()[1], name) == {'operation="bind"': 1}
