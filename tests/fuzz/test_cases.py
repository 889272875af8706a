"""Faults that `make fuzz` found once, and the fuzzer itself."""

import json
from pathlib import Path
from random import Random

import pytest

from fuzz.cases import CASES, load, save
from fuzz.minimising import minimised
from fuzz.mutations import MOST_BYTES, encode, mutate_bytes, mutate_json
from fuzz.run import main
from fuzz.target import PropertyError, Target
from fuzz.targets import NAMES, target_named
from fuzz.watchdog import signature


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_fault_that_was_found_stays_mended(path: Path) -> None:
    name, data = load(path)
    target = target_named(name)
    try:
        target.check(data)
    finally:
        target.reset()


@pytest.mark.parametrize("name", NAMES)
def test_a_target_takes_what_it_makes(name: str) -> None:
    target, random = target_named(name), Random(1)
    target.prepare(random)
    made = [target.make(random) for _ in range(5)]
    assert all(0 < len(data) <= MOST_BYTES for data in made)


def test_a_seed_repeats_all_mutations() -> None:
    value = {"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"list": [1, 2.5, None]}}

    def made(seed: int) -> list[bytes]:
        random = Random(seed)
        texts = [encode(mutate_json(value, random, [value])) for _ in range(50)]
        return texts + [mutate_bytes(text, random, texts) for text in texts]

    assert made(1) == made(1) != made(2)


class _Planted(Target):
    name = "planted"

    def make(self, random: Random) -> bytes:
        raise NotImplementedError

    def check(self, data: bytes) -> None:
        if b'"bad"' in data:
            raise PropertyError("a planted fault")


def test_a_failing_input_is_made_small() -> None:
    target = _Planted()
    data = json.dumps({"a": list(range(100)), "b": {"c": ["x", "bad", "y"]}}).encode()

    def fails(candidate: bytes) -> bool:
        try:
            target.check(candidate)
        except PropertyError as error:
            return signature("planted", error) == "planted: PropertyError in a planted fault"
        return False

    assert minimised(data, fails, seconds=600) == b'"bad"'


@pytest.mark.parametrize("data", [b'{"a": "\xc3\xa9"}', b"\xff\0", b"x" * 10_000])
def test_a_case_reads_back_as_it_was_saved(tmp_path: Path, data: bytes) -> None:
    path = save(tmp_path, "decoder", "a fault", data)
    assert load(path) == ("decoder", data)
    assert path.stat().st_size < 5000


def test_a_run_prints_its_seed_and_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seconds", "0.5", "--seed", "7", "--jobs", "1", "--target", "wire"]
    assert main([*arguments, "--cases", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 7, 0.5 s, 1 processes"
    assert lines[-1].endswith("0 faults; seed 7 repeats the run")
