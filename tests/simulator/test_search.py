"""The search for disagreements, with an oracle that decides as we do unless a test objects."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from explain.recorded import GOLDEN
from moorage.errors import InputError
from moorage.model.meta import Json
from moorage.simulator.mutations import Donors, mutate
from moorage.simulator.oracle import Oracle, OracleAnswer
from moorage.simulator.replay import GoldenCase, read_lines, replay
from moorage.simulator.search import Search, SearchCount
from moorage.simulator.world import full_registry

Judge = Callable[[Json, Json], OracleAnswer]
PREEMPTION = GOLDEN / "preemption.jsonl.gz"
TAINTS = GOLDEN / "taints.jsonl.gz"


class Stand(Oracle):
    """An oracle in this process: a judge has the last word about what we decide."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(Path("none"))
        self._judge = judge
        self._registry = full_registry()
        self.kubernetes = "v1"

    def ask(self, case: Json, check: Sequence[int] = ()) -> OracleAnswer:
        whole = {**case, "expect": {}}
        golden = msgspec.json.decode(msgspec.json.encode(whole), type=GoldenCase)
        return self._judge(case, replay(golden, self._registry))


def decides_alike(_: Json, ours: Json) -> OracleAnswer:
    return OracleAnswer(expect=ours)


def cases(path: Path, count: int) -> list[Json]:
    lines = [line for line, _ in zip(read_lines(path), range(count), strict=False)]
    return [msgspec.json.decode(line.text) for line in lines]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.jsonl"
    small = [case for case in cases(TAINTS, 60) if len(case["objects"]) < 6]
    path.write_bytes(msgspec.json.Encoder().encode_lines(small))
    return path


def searched(path: Path, judge: Judge, most: int = 30) -> tuple[SearchCount, list[Json]]:
    search = Search([path], Stand(judge), seed=1)
    found = [case for case, _ in search.run(most, lambda _: None)]
    return search.count, found


def test_what_is_decided_alike_is_no_difference(few: Path) -> None:
    count, found = searched(few, decides_alike)
    assert not found
    assert count == SearchCount(tried=30, decided=30)


def test_a_difference_is_made_small(few: Path) -> None:
    def minds_the_pods_tolerations(case: Json, ours: Json) -> OracleAnswer:
        minds = bool(case["pod"].get("spec", {}).get("tolerations")) and bool(ours["feasible"])
        return OracleAnswer(expect={**ours, "best": ["atlantis"]} if minds else ours)

    search = Search([few], Stand(minds_the_pods_tolerations), seed=1)
    found, _ = next(search.run(30, lambda _: None))
    assert search.count.differ == 1
    assert [obj["kind"] for obj in found["objects"]] == ["Node"]
    assert len(found["pod"]["spec"]["tolerations"]) == 1
    assert found["expect"]["best"] == ["atlantis"]
    assert found["kubernetes"] == "v1"


def test_what_is_left_to_chance_is_counted_apart(few: Path) -> None:
    dice = Random(0)

    def throws_dice(_: Json, ours: Json) -> OracleAnswer:
        return OracleAnswer(expect={**ours, "best": ["atlantis"]} if dice.random() < 0.5 else ours)

    count, found = searched(few, throws_dice)
    assert not found
    assert count.differ == 0 < count.chance


def test_where_answers_vary_more_of_them_are_awaited(few: Path) -> None:
    numbers = range(0)

    def comes_round_late(_: Json, ours: Json) -> OracleAnswer:
        nonlocal numbers
        if not numbers:
            numbers = range(40)
            return OracleAnswer(expect=ours)
        number, numbers = numbers[0], numbers[1:]
        return OracleAnswer(expect={**ours, "best": [f"atlantis-{number}"]})

    count, found = searched(few, comes_round_late, most=4)
    assert not found
    assert (count.differ, count.chance) == (0, 3)


def test_what_the_api_refuses_or_nobody_decides_is_counted_and_passed_over(few: Path) -> None:
    def refuses(case: Json, _: Json) -> OracleAnswer:
        odd = len(case["objects"]) % 2
        return OracleAnswer(invalid="no") if odd else OracleAnswer(failed="panic")

    count, found = searched(few, refuses)
    assert not found
    assert (count.decided, count.invalid + count.failed) == (0, 30)
    assert count.invalid
    assert count.failed


def test_objects_are_compared_as_the_api_server_stores_them(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[Json] = []

    def stores_a_label(case: Json, ours: Json) -> OracleAnswer:
        number = len(case["objects"])
        pod = {**case["pod"], "metadata": {**case["pod"]["metadata"], "labels": {"a": "b"}}}
        return OracleAnswer(expect=ours, stored={number: pod})

    search = Search([few], Stand(stores_a_label), seed=1)
    monkeypatch.setattr(search, "_compared", compared.append)
    list(search.run(1, lambda _: None))
    assert compared[0]["pod"]["metadata"]["labels"] == {"a": "b"}


def test_a_search_needs_cases(few: Path) -> None:
    with pytest.raises(InputError, match="no cases to begin with"):
        Search([few], Stand(decides_alike), 1, families=["volumes"])


def test_a_mutant_follows_from_its_seed_and_leaves_the_case_alone() -> None:
    known = cases(PREEMPTION, 20)
    before = msgspec.json.encode(known)
    twice = [mutate(known[0], Donors(known, Random(1)), Random(2)) for _ in range(2)]
    assert twice[0] == twice[1]
    assert msgspec.json.encode(known) == before


def test_mutants_keep_a_node_and_pods_that_start_at_different_times() -> None:
    known = cases(PREEMPTION, 20)
    donors = Donors(known, Random(1))
    for number in range(200):
        mutant, touched = mutate(known[number % 20], donors, Random(number))
        kinds = [obj["kind"] for obj in mutant["objects"]]
        assert "Node" in kinds
        starts = [obj["status"]["startTime"] for obj in mutant["objects"] if obj["kind"] == "Pod"]
        assert len(starts) == len(set(starts))
        assert set(touched) <= set(range(len(kinds) + 1))
