"""A lower total, shared out among the places where a pod asks for something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.explain.fixes.changes import patched
from moorage.explain.fixes.requests import amount_of, lowered, quantity_text, tidy
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.testing import make_pod
from properties.harness import effort


def container(name: str, cpu: str, **members: object) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **members}


def pod_of(*containers: Json, init: tuple[Json, ...] = (), **spec: object) -> Pod:
    return make_pod(spec={"containers": containers, "initContainers": init, **spec})


def told(pod: Pod, cpu: int) -> str:
    change = lowered(pod, {"cpu": cpu})
    assert change is not None
    assert change.of(pod).requests.incoming["cpu"] <= cpu
    return change.text


def test_the_container_that_gives_up_the_least_of_its_request_gives_way() -> None:
    pod = pod_of(container("large", "8"), container("small", "1"))

    assert told(pod, 6000) == "lower the cpu request of container large from 8 to 5"


def test_an_init_container_that_is_too_large_for_itself_is_lowered_alone() -> None:
    pod = pod_of(container("main", "1"), init=(container("setup", "8"),))

    assert told(pod, 4000) == "lower the cpu request of init container setup from 8 to 4"


def test_several_give_way_if_no_one_alone_can() -> None:
    pod = pod_of(
        container("a", "4"),
        container("b", "4"),
        init=(container("setup", "6"), container("tiny", "100m")),
    )

    assert told(pod, 4000) == (
        "lower the cpu requests of container a from 4 to 2 and container b from 4 to 2 and "
        "init container setup from 6 to 4"
    )


def test_a_sidecar_counts_beside_the_containers() -> None:
    pod = pod_of(container("main", "2"), init=(container("proxy", "2", restartPolicy="Always"),))

    assert told(pod, 3000) == "lower the cpu request of container main from 2 to 1"


def test_overhead_cannot_be_given_up() -> None:
    pod = pod_of(container("main", "2"), overhead={"cpu": "500m"})

    assert told(pod, 2000) == "lower the cpu request of container main from 2 to 1500m"
    assert lowered(pod, {"cpu": 400}) is None


def test_what_is_asked_for_the_whole_pod_is_lowered_with_its_parts() -> None:
    whole = {"requests": {"cpu": "6"}}
    pod = pod_of(container("main", "4"), resources=whole)

    assert told(pod, 5000) == "lower the cpu request of the pod from 6 to 5"
    assert told(pod, 3000) == (
        "lower the cpu requests of the pod from 6 to 3 and container main from 4 to 3"
    )


def test_the_limit_of_an_extended_resource_follows_its_request() -> None:
    resources = {name: {"example.com/gpu": "4"} for name in ("requests", "limits")}
    pod = pod_of({"name": "main", "resources": resources})

    change = lowered(pod, {"example.com/gpu": 1})

    assert change is not None
    lower = change.of(pod).spec.containers[0].resources
    assert (lower.requests, lower.limits) == ({"example.com/gpu": "1"}, {"example.com/gpu": "1"})


def test_nothing_left_is_a_request_dropped() -> None:
    pod = pod_of(container("main", "2"))

    assert told(pod, 0) == "drop the cpu request of container main (2)"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 3567, "3500m"),
        ("cpu", 8000, "8"),
        ("cpu", 3, "3m"),
        ("memory", 15_700_000_000, "14848Mi"),
        ("memory", 17 * 1024**3 + 12345, "17Gi"),
        ("memory", 1000, "1000"),
        ("ephemeral-storage", 10 * 1024**3, "10Gi"),
        ("hugepages-2Mi", 5 * 1024**2, "4Mi"),
        ("example.com/gpu", 1234567, "1234567"),
    ],
)
def test_amounts_are_written_tidily_and_never_rounded_up(
    resource: str, amount: int, text: str
) -> None:
    assert quantity_text(resource, tidy(resource, amount)) == text
    assert amount_of(resource, text) <= amount


amounts = st.integers(0, 20_000)


@effort(100)
@given(
    st.lists(amounts, min_size=1, max_size=3),
    st.lists(st.tuples(amounts, st.booleans()), max_size=3),
    st.integers(0, 500),
    st.one_of(st.none(), amounts),
    amounts,
)
def test_the_total_is_never_above_the_target_and_no_place_asks_for_more_than_before(
    main: list[int],
    init: list[tuple[int, bool]],
    overhead: int,
    whole: int | None,
    target: int,
) -> None:
    pod = pod_of(
        *[container(f"c{i}", f"{amount}m") for i, amount in enumerate(main)],
        init=tuple(
            container(f"i{i}", f"{amount}m", **({"restartPolicy": "Always"} if sidecar else {}))
            for i, (amount, sidecar) in enumerate(init)
        ),
        overhead={"cpu": f"{overhead}m"},
        resources=None if whole is None else {"requests": {"cpu": f"{whole}m"}},
    )
    if pod.requests.incoming["cpu"] <= target:
        return
    change = lowered(pod, {"cpu": target})
    if target < overhead:
        assert change is None
        return
    assert change is not None
    lower = patched(pod, change.patch)
    assert lower.requests.incoming["cpu"] <= target
    for before, after in zip(
        (*pod.spec.containers, *pod.spec.init_containers),
        (*lower.spec.containers, *lower.spec.init_containers),
        strict=True,
    ):
        asked, asks = (amount_of("cpu", one.resources.requests["cpu"]) for one in (before, after))
        assert asks <= asked
