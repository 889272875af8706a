"""Shared GPUs in a whole scheduler: devices are reserved, written down and given back."""

import asyncio

import pytest

from gallery.gpu_clusters import gpu_node, gpu_pod, usual_args
from moorage.errors import ConfigError
from moorage.gallery.best_fit import BestFit
from moorage.gallery.fgd import FGD
from moorage.gallery.gpu_policy import GpuPolicy
from moorage.gallery.gpus import GPU_INDEX, GPU_MILLI, GPU_MODEL
from moorage.model.pod import Pod
from moorage.scenarios.openb import policy_profile
from moorage.testing import make_pod
from moorage.testing.virtual import VirtualScheduler
from reference.shared_gpus import Wish


def scheduler(kind: type[GpuPolicy] = BestFit, *usual: Pod) -> VirtualScheduler:
    """A scheduler with one policy."""
    return VirtualScheduler(kind, profiles=[policy_profile(kind.name, usual)])


def devices_of(made: VirtualScheduler, name: str) -> str | None:
    pod = made.handle.listers.of(Pod).get(name, "default")
    assert pod is not None
    return pod.metadata.annotations.get(GPU_INDEX)


def test_pods_get_devices_of_a_node_until_none_is_left() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=2))
    made.add(gpu_pod("whole", Wish(100, 1, 1000)), gpu_pod("half", Wish(100, 1, 500)))
    made.add(gpu_pod("third", Wish(100, 1, 333)), gpu_pod("late", Wish(100, 1, 300)))
    assert [devices_of(made, name) for name in ("whole", "half", "third")] == ["0", "1", "1"]
    assert made.node_of("late") is None
    assert made.message_of("late") == "0/1 nodes are available: 1 Insufficient GPU."


def test_whole_gpus_are_the_first_free_ones() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=4), gpu_pod("bit", Wish(100, 1, 10)))
    made.add(gpu_pod("three", Wish(100, 3, 1000)))
    assert devices_of(made, "three") == "1-2-3"


def test_devices_are_given_back_when_a_pod_goes() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=1))
    first, second = gpu_pod("first", Wish(100, 1, 700)), gpu_pod("second", Wish(100, 1, 700))
    made.add(first, second)
    assert made.node_of("second") is None
    made.delete(first)
    made.advance(10)
    assert made.node_of("second") == "quay"


def test_pods_that_have_devices_already_keep_them() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=2))
    made.add(gpu_pod("old", Wish(100, 1, 600), node_name="quay", devices=[1]))
    made.add(gpu_pod("new", Wish(100, 1, 400)))
    assert devices_of(made, "new") == "1"


def test_a_pod_that_does_not_tell_its_devices_takes_the_tightest() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=2))
    made.add(gpu_pod("old", Wish(100, 1, 600), node_name="quay"))
    made.add(gpu_pod("new", Wish(100, 1, 400)))
    assert devices_of(made, "new") == "0"


def test_a_pod_goes_only_where_the_model_is_right() -> None:
    made = scheduler()
    made.add(gpu_node("a", gpus=2, model="T4"), gpu_node("b", gpus=2, model="V100"))
    made.add(gpu_pod("old", Wish(100, 1, 500, ("P100", "V100"))))
    made.add(gpu_pod("odd", Wish(100, 1, 500, ("A10",))))
    assert made.node_of("old") == "b"
    assert made.message_of("odd") == (
        "0/2 nodes are available: 2 node(s) had no GPU of the right model."
    )


def test_a_request_that_cannot_be_read_is_refused() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=2))
    made.add(make_pod("odd", metadata={"annotations": {GPU_MILLI: "half"}}))
    made.add(make_pod("large", metadata={"annotations": {GPU_MILLI: "1001"}}))
    assert made.message_of("odd") == (
        "0/1 nodes are available: annotation alibabacloud.com/gpu-milli: "
        "expected a whole number from 0 to 1000, got half."
    )
    assert "from 0 to 1000, got 1001" in made.message_of("large")


def test_pods_without_gpus_are_placed_as_well() -> None:
    usual = gpu_pod("usual", Wish(1000, 1, 500))
    made = scheduler(FGD, usual)
    made.add(gpu_node("rich", cpu=4000, gpus=2), gpu_node("plain", cpu=4000, gpus=0))
    made.add(make_pod("web", cpu="4"))
    assert made.node_of("web") == "plain", "where no GPU loses its CPU"
    assert devices_of(made, "web") is None


def test_a_node_that_gets_more_gpus_is_seen() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=1), gpu_pod("two", Wish(100, 2, 1000)))
    assert made.node_of("two") is None
    made.add(gpu_node("quay", gpus=2))
    made.advance(10)
    assert devices_of(made, "two") == "0-1"


def test_the_devices_are_written_through_the_api_in_a_live_cluster() -> None:
    made = scheduler()
    made.add(gpu_node("quay", gpus=1))
    pod = gpu_pod("ship", Wish(100, 1, 500))
    plugin = made.engine.profiles["default-scheduler"].plugins["BestFit"]
    assert isinstance(plugin, GpuPolicy)
    made.put(pod, Pod)
    made.engine.schedule_one()
    assert plugin.has_pre_bind_work(pod, "quay")
    asyncio.run(plugin.pre_bind(pod, "quay", None))  # type: ignore[arg-type]  # it needs no port
    assert devices_of(made, "ship") == "0"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (None, "FGD: args.typicalPods: expected a list of pods"),
        ({"typicalPods": []}, "FGD: args.typicalPods: expected a list of pods"),
        (
            {"typicalPods": [{"cpu": 1}]},
            "args.typicalPods[0]: expected cpuMilli, gpuCount, gpuMilli, gpuModels, weight, "
            "got {'cpu': 1}",
        ),
        (
            {"typicalPods": [{"cpuMilli": "1"}]},
            "args.typicalPods[0].cpuMilli: expected a number of at least 0, got '1'",
        ),
        (
            {"typicalPods": [{"gpuModels": "T4"}]},
            "args.typicalPods[0].gpuModels: expected a list of models, got 'T4'",
        ),
        (
            {"typicalPods": [{"weight": 0}]},
            "FGD: args.typicalPods: expected a weight above 0",
        ),
    ],
)
def test_usual_pods_that_cannot_be_read_are_refused(args: object, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        VirtualScheduler(FGD, args={"FGD": args} if args is not None else {})
    assert str(error.value) == f'initializing plugin "FGD": {message}'


def test_a_policy_may_stand_beside_the_default_plugins() -> None:
    args = usual_args([(Wish(1000, 1, 500, (GPU_MODEL,)), 1.0), (Wish(500), 2.0)])
    made = VirtualScheduler(FGD, args={"FGD": args})
    made.add(gpu_node("quay", gpus=1), gpu_pod("ship", Wish(100, 1, 500)))
    assert made.node_of("ship") == "quay"
    assert devices_of(made, "ship") == "0"
