"""What a pod takes from a node; every number is derived by hand from upstream's rules.

Upstream: kubernetes@v1.37.1 staging/src/k8s.io/component-helpers/resource/helpers.go.
"""

from typing import Any

import msgspec
import pytest

from moorage.model.pod import Pod
from moorage.model.pod_requests import DEFAULT_MEMORY, DEFAULT_MILLI_CPU, PodRequests
from moorage.model.resources import in_scheduler_units, is_extended, is_scalar, to_milli

MI = 1024 * 1024


def container(name: str, requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}, **more}


def sidecar(name: str, requests: dict[str, Any]) -> dict[str, Any]:
    return container(name, requests, restartPolicy="Always")


def requests_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> PodRequests:
    data = {"metadata": {"name": "p"}, "spec": spec, "status": status or {}}
    return msgspec.convert(data, Pod).requests


def test_containers_add_up() -> None:
    spec = {
        "containers": [
            container("a", {"cpu": "100m", "memory": "64Mi"}),
            container("b", {"cpu": "0.25", "memory": "1Gi", "nvidia.com/gpu": 1}),
        ]
    }
    assert requests_of(spec).incoming == {
        "cpu": 350,
        "memory": 1088 * MI,
        "nvidia.com/gpu": 1,
    }


def test_of_ordinary_init_containers_only_the_largest_counts_per_resource() -> None:
    spec = {
        "containers": [container("a", {"cpu": "1", "memory": "1Gi"})],
        "initContainers": [
            container("i", {"cpu": "3", "memory": "64Mi"}),
            container("j", {"cpu": "2", "memory": "2Gi"}),
        ],
    }
    assert requests_of(spec).incoming == {"cpu": 3000, "memory": 2048 * MI}


def test_sidecars_run_beside_containers_and_beside_the_init_containers_after_them() -> None:
    # Before the sidecar: i needs 700m alone. After it: j needs 800m + 200m. Running: 500m + 200m.
    spec = {
        "containers": [container("a", {"cpu": "500m"})],
        "initContainers": [
            container("i", {"cpu": "700m"}),
            sidecar("s", {"cpu": "200m"}),
            container("j", {"cpu": "800m"}),
        ],
    }
    assert requests_of(spec).incoming == {"cpu": 1000}


def test_an_init_container_before_the_sidecar_does_not_pay_for_it() -> None:
    spec = {
        "containers": [container("a", {"cpu": "100m"})],
        "initContainers": [container("i", {"cpu": "900m"}), sidecar("s", {"cpu": "200m"})],
    }
    assert requests_of(spec).incoming == {"cpu": 900}


def test_overhead_comes_on_top_of_everything() -> None:
    spec = {
        "containers": [container("a", {"cpu": "100m"})],
        "initContainers": [container("i", {"cpu": "300m"})],
        "overhead": {"cpu": "50m", "memory": "8Mi"},
    }
    assert requests_of(spec).incoming == {"cpu": 350, "memory": 8 * MI}


def test_requests_of_the_whole_pod_replace_the_sum_but_not_the_overhead() -> None:
    spec = {
        "containers": [container("a", {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1k"})],
        "resources": {"requests": {"cpu": "2", "hugepages-2Mi": "4Mi"}},
        "overhead": {"cpu": "50m"},
    }
    assert requests_of(spec).incoming == {
        "cpu": 2050,
        "memory": 1024 * MI,
        "ephemeral-storage": 1000,
        "hugepages-2Mi": 4 * MI,
    }


def test_the_whole_pod_cannot_ask_for_what_is_counted_per_container() -> None:
    spec = {
        "containers": [container("a", {"nvidia.com/gpu": 1})],
        "resources": {"requests": {"nvidia.com/gpu": 5, "ephemeral-storage": "5Gi"}},
    }
    assert requests_of(spec).incoming == {"nvidia.com/gpu": 1}


def test_rounding_to_whole_units_happens_once_after_adding() -> None:
    # 3 x 500m bytes are 1.5 bytes, hence 2; rounding each first would give 3.
    spec = {"containers": [container(name, {"memory": "500m"}) for name in "abc"]}
    assert requests_of(spec).incoming == {"memory": 2}


def test_a_pod_without_requests_counts_defaults_where_only_scores_are_concerned() -> None:
    spec = {"containers": [container("a", {}), container("b", {"cpu": "1"})]}
    requests = requests_of(spec)
    assert requests.incoming == {"cpu": 1000}
    assert requests.occupied == {"cpu": 1000}
    assert requests.occupied_with_defaults["cpu"] == DEFAULT_MILLI_CPU + 1000
    assert requests.occupied_with_defaults["memory"] == 2 * DEFAULT_MEMORY
    assert requests.incoming_with_defaults["cpu"] == DEFAULT_MILLI_CPU + 1000
    assert requests.incoming_with_defaults["memory"] == 2 * DEFAULT_MEMORY


def test_a_request_of_zero_is_no_missing_request() -> None:
    requests = requests_of({"containers": [container("a", {"cpu": 0, "memory": 0})]})
    assert (requests.occupied_with_defaults["cpu"], requests.occupied_with_defaults["memory"]) == (
        0,
        0,
    )


def test_init_containers_without_requests_get_defaults_too() -> None:
    spec = {
        "containers": [container("a", {"cpu": "10m", "memory": "1Mi"})],
        "initContainers": [container("i", {})],
    }
    requests = requests_of(spec)
    assert (requests.occupied_with_defaults["cpu"], requests.occupied_with_defaults["memory"]) == (
        100,
        DEFAULT_MEMORY,
    )


def test_pod_level_requests_leave_defaults_only_to_what_nothing_asks_for() -> None:
    spec = {
        "containers": [container("a", {}), container("b", {"memory": "1Mi"})],
        "resources": {"requests": {"cpu": "2"}},
    }
    requests = requests_of(spec)
    # cpu is given for the pod; memory by one container, which switches its default off.
    assert (requests.occupied_with_defaults["cpu"], requests.occupied_with_defaults["memory"]) == (
        2000,
        MI,
    )
    # The scorer of NodeResourcesFit looks past the pod level: 2 x 100m, 200Mi + 1Mi.
    assert requests.incoming_with_defaults["cpu"] == 200
    assert requests.incoming_with_defaults["memory"] == DEFAULT_MEMORY + MI


def test_pod_level_requests_for_memory_only_leave_the_cpu_default() -> None:
    spec = {
        "containers": [container("a", {}), container("b", {})],
        "resources": {"requests": {"memory": "1Gi"}},
    }
    requests = requests_of(spec)
    assert (requests.occupied_with_defaults["cpu"], requests.occupied_with_defaults["memory"]) == (
        200,
        1024 * MI,
    )


def resizing(condition: str | None) -> PodRequests:
    """Spec says 4, the container runs with 1, the kubelet has allocated 2."""
    conditions = [] if condition is None else [{"type": "PodResizePending", "reason": condition}]
    status = {
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": "a",
                "resources": {"requests": {"cpu": "1"}},
                "allocatedResources": {"cpu": "2"},
            }
        ],
    }
    return requests_of({"containers": [container("a", {"cpu": "4"})]}, status)


@pytest.mark.parametrize(
    ("condition", "milli_cpu"),
    [
        pytest.param(None, 4000, id="resize under way"),
        pytest.param("Deferred", 4000, id="deferred resize may still happen"),
        pytest.param("Infeasible", 2000, id="infeasible resize will not happen"),
    ],
)
def test_a_pod_being_resized_counts_for_the_most_it_may_use(
    condition: str | None, milli_cpu: int
) -> None:
    requests = resizing(condition)
    assert requests.occupied == {"cpu": milli_cpu}
    assert requests.occupied_with_defaults["cpu"] == milli_cpu
    assert requests.incoming == {"cpu": 4000}, "a pod without a node is judged by its spec"


def test_a_container_scaled_down_counts_for_what_it_still_has() -> None:
    status = {
        "containerStatuses": [
            {
                "name": "a",
                "resources": {"requests": {"cpu": "3"}},
                "allocatedResources": {"cpu": "1"},
            }
        ]
    }
    requests = requests_of({"containers": [container("a", {"cpu": "1"})]}, status)
    assert requests.occupied == {"cpu": 3000}


def test_what_is_allocated_counts_even_if_nothing_is_known_to_run() -> None:
    status = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "9"}}]}
    requests = requests_of({"containers": [container("a", {"cpu": "1"})]}, status)
    assert requests.occupied == {"cpu": 9000}


def test_the_status_of_any_init_container_counts() -> None:
    running = {"resources": {"requests": {"cpu": "5"}}}
    status = {"initContainerStatuses": [{"name": "s", **running}, {"name": "i", **running}]}
    spec = {
        "containers": [container("a", {"cpu": "1"})],
        "initContainers": [sidecar("s", {"cpu": "1"}), container("i", {"cpu": "1"})],
    }
    # Running: 1 + 5. While i runs: 5 + 5.
    assert requests_of(spec, status).occupied == {"cpu": 10000}


def test_the_largest_sum_counts_not_the_sum_of_the_largest() -> None:
    # One container shrinks while the other grows: 4 + 1 wanted, 1 + 4 running, never 4 + 4.
    status = {
        "containerStatuses": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}}},
            {"name": "b", "resources": {"requests": {"cpu": "4"}}},
        ]
    }
    spec = {"containers": [container("a", {"cpu": "4"}), container("b", {"cpu": "1"})]}
    assert requests_of(spec, status).occupied == {"cpu": 5000}


@pytest.mark.parametrize(
    ("reported", "milli_cpu"),
    [
        pytest.param({}, 3000, id="no requests of the whole pod are running"),
        pytest.param({"resources": {"requests": {"cpu": "5"}}}, 3000, id="or none is allocated"),
        pytest.param(
            {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "4"}},
            5000,
            id="what the whole pod runs with takes the containers' place",
        ),
    ],
)
def test_the_status_of_the_whole_pod_stands_for_its_containers(
    reported: dict[str, Any], milli_cpu: int
) -> None:
    running = [{"name": "a", "resources": {"requests": {"cpu": "3"}}}]
    spec = {"containers": [container("a", {"cpu": "1"})]}
    requests = requests_of(spec, {"containerStatuses": running, **reported})
    assert requests.occupied == {"cpu": milli_cpu}


def test_of_an_infeasible_resize_only_what_is_reported_counts() -> None:
    condition = {"type": "PodResizePending", "reason": "Infeasible"}
    spec = {"containers": [container("a", {"cpu": "1"}), container("b", {"cpu": "2"})]}
    assert requests_of(spec, {"conditions": [condition]}).occupied == {}
    reported = [{"name": "b", "allocatedResources": {"cpu": "3"}}]
    status = {"conditions": [condition], "containerStatuses": reported}
    assert requests_of(spec, status).occupied == {"cpu": 3000}


@pytest.mark.parametrize(("condition", "milli_cpu"), [("Deferred", 4000), ("Infeasible", 2000)])
def test_pod_level_requests_are_resized_likewise(condition: str, milli_cpu: int) -> None:
    status = {
        "conditions": [{"type": "PodResizePending", "reason": condition}],
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "2"},
    }
    spec = {
        "containers": [container("a", {"cpu": "100m"})],
        "resources": {"requests": {"cpu": "4"}},
        "overhead": {"cpu": "10m"},
    }
    assert requests_of(spec, status).occupied == {"cpu": milli_cpu + 10}


def test_a_resource_that_an_infeasible_pod_level_resize_would_add_does_not_count() -> None:
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        "resources": {"requests": {"cpu": "1"}},
    }
    spec = {
        "containers": [container("a", {"memory": "1Gi"})],
        "resources": {"requests": {"cpu": "2", "memory": "2Gi"}},
    }
    assert requests_of(spec, status).occupied == {"cpu": 1000}


def test_the_whole_pod_may_be_given_what_its_spec_does_not_ask_for() -> None:
    status = {"resources": {"requests": {"cpu": "1", "memory": "3Gi", "nvidia.com/gpu": "1"}}}
    spec = {
        "containers": [container("a", {"memory": "1Gi"})],
        "resources": {"requests": {"cpu": "2"}},
    }
    assert requests_of(spec, status).occupied == {"cpu": 2000, "memory": 3072 * MI}


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("nvidia.com/gpu", True, True),
        ("requests.nvidia.com/gpu", False, False),
        ("kubernetes.io/batch", False, True),
        ("sub.kubernetes.io/x", False, True),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("gpu", False, False),
        ("cpu", False, False),
    ],
)
def test_resources_are_told_apart_by_name(name: str, extended: bool, scalar: bool) -> None:
    assert is_extended(name) is extended
    assert is_scalar(name) is scalar


def test_resources_that_no_scheduler_counts_are_left_out() -> None:
    milli = to_milli({"cpu": "1", "memory": "1k", "pods": 5, "gpu": 1, "storage": "1Gi"})
    assert in_scheduler_units(milli) == {"cpu": 1000, "memory": 1000, "pods": 5}


def test_a_bad_quantity_is_reported_with_its_resource() -> None:
    with pytest.raises(ValueError, match="memory: 'lots' is not a quantity"):
        to_milli({"cpu": "1", "memory": "lots"})


def test_of_several_statuses_of_a_container_the_first_counts() -> None:
    reported = [{"name": "a", "allocatedResources": {"cpu": "3"}}, {"name": "a"}]
    spec = {"containers": [container("a", {"cpu": "1"})]}
    assert requests_of(spec, {"containerStatuses": reported}).occupied == {"cpu": 3000}
