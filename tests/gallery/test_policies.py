"""The policies for shared GPUs agree with naive ones, node by node and device by device."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gallery.gpu_clusters import (
    built,
    everywhere,
    gpu_pod,
    only,
    policy,
    used_nodes,
    usual_args,
    usual_pods,
    wishes,
)
from moorage.gallery.best_fit import BestFit
from moorage.gallery.dot_prod import DotProd
from moorage.gallery.fgd import FGD
from moorage.gallery.gpu_clustering import GpuClustering
from moorage.gallery.gpu_headroom import GpuHeadroom
from moorage.gallery.gpu_packing import GpuPacking
from moorage.gallery.gpu_policy import GpuPolicy, first_of_best
from moorage.gallery.gpus import gpu_request
from moorage.gallery.random_node import RandomNode
from reference import shared_gpus
from reference.shared_gpus import GpuNode, Usual, Wish

Used = list[tuple[GpuNode, list[tuple[Wish, list[int]]]]]
OnNode = Callable[[GpuNode, Wish], int]
OnDevices = Callable[[GpuNode, Wish, list[int], Usual], float]


@given(used=used_nodes(), wish=wishes)
@pytest.mark.parametrize(
    ("kind", "naive"),
    [
        (BestFit, shared_gpus.best_fit),
        (DotProd, shared_gpus.dot_prod),
        (GpuPacking, shared_gpus.gpu_packing),
        (GpuClustering, shared_gpus.gpu_clustering),
    ],
)
def test_a_node_is_scored_as_by_the_naive_policy(
    kind: type[GpuPolicy], naive: OnNode, used: Used, wish: Wish
) -> None:
    state, nodes = built(used), [node for node, _ in used]
    scores = policy(kind, state).score(gpu_pod("new", wish), everywhere(state), None)
    for node, score in zip(nodes, scores.tolist(), strict=True):
        if node.fits(wish):
            assert score == naive(node, wish), node.name


@given(used=used_nodes(), wish=wishes)
def test_a_fraction_goes_to_the_tightest_device(used: Used, wish: Wish) -> None:
    assume(wish.gpus)
    state = built(used)
    best_fit, pod = policy(BestFit, state), gpu_pod("new", wish)
    for node, _ in used:
        if node.fits(wish):
            chosen = best_fit.choose(pod, gpu_request(pod), only(state, node.name))
            assert list(chosen) == shared_gpus.tight_devices(node, wish)


@given(used=used_nodes(), wish=wishes, usual=usual_pods)
@pytest.mark.parametrize(
    ("kind", "naive"),
    [(FGD, shared_gpus.fgd), (GpuHeadroom, shared_gpus.gpu_headroom)],
)
def test_all_devices_are_tried_as_by_the_naive_policy(
    kind: type[GpuPolicy], naive: OnDevices, used: Used, wish: Wish, usual: Usual
) -> None:
    state, pod = built(used), gpu_pod("new", wish)
    made = policy(kind, state, usual_args(usual))
    scores = made.score(pod, everywhere(state), None).tolist()
    again = made.score(pod, everywhere(state), None).tolist()
    assert again == scores, "what is kept"
    for (node, _), score in zip(used, scores, strict=True):
        if not node.fits(wish):
            continue
        fitting = [[i] for i, left in enumerate(node.left) if left >= wish.milli]
        choices = fitting if wish.is_fraction else [shared_gpus.tight_devices(node, wish)]
        exact = [naive(node, wish, devices, usual) for devices in choices]
        # Sums are taken in another order, so a whole number may be missed by very little.
        assert max(exact) - 1 - 1e-6 <= score <= max(exact) + 1e-6
        if wish.gpus:
            chosen = made.choose(pod, gpu_request(pod), only(state, node.name))
            points = dict(zip(map(tuple, choices), exact, strict=True))
            assert int(points[tuple(chosen)] + 1e-6) == int(max(exact) + 1e-6)


@given(used=used_nodes(), wish=wishes)
@pytest.mark.parametrize("kind", [BestFit, RandomNode])
def test_a_node_is_refused_that_the_naive_policy_finds_too_small(
    kind: type[GpuPolicy], used: Used, wish: Wish
) -> None:
    assume(wish.gpus)
    state, pod = built(used), gpu_pod("new", wish)
    verdicts = policy(kind, state).filter(pod, everywhere(state), gpu_request(pod))
    without_cpu = wish._replace(cpu=0)
    assert (~verdicts.rejected).tolist() == [node.fits(without_cpu) for node, _ in used]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_the_first_of_the_best_nodes_alone_has_the_most_points(scores: list[int]) -> None:
    import numpy as np

    first = scores.index(max(scores))
    normalized = first_of_best(np.array(scores, np.int64)).tolist()
    assert max(normalized) <= 100
    assert [i for i, score in enumerate(normalized) if score == max(normalized)] == [first]


def test_random_gives_one_node_all_points() -> None:
    state = built([(GpuNode(f"n-{i}", 8000, 1), []) for i in range(9)])
    made, pod = policy(RandomNode, state), gpu_pod("new", Wish(0, 1, 500))
    chosen = {tuple(made.score(pod, everywhere(state), None).tolist()) for _ in range(200)}
    assert chosen == {tuple(100 * (i == j) for j in range(9)) for i in range(9)}


def test_random_takes_any_device_that_suffices() -> None:
    state = built([(GpuNode("n", 8000, 4), [])])
    made, pod = policy(RandomNode, state), gpu_pod("new", Wish(0, 1, 500))
    request = gpu_request(pod)
    chosen = {tuple(made.choose(pod, request, only(state, "n"))) for _ in range(100)}
    assert chosen == {(0,), (1,), (2,), (3,)}
