"""`moorage conformance`: what it prints and how it ends."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.running import Run

GOLDEN = Path(__file__).parent.parent / "parity" / "golden"


@pytest.fixture
def cases() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / "taints.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(6), lines, strict=False)]


def save(path: Path, cases: list[dict[str, Any]]) -> str:
    text = "".join(json.dumps(case) + "\n" for case in cases)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


def test_agreement_is_counted_per_family(
    run: Run, tmp_path: Path, cases: list[dict[str, Any]]
) -> None:
    cases[5]["name"] = "gates-features-7"
    save(tmp_path / "a.jsonl", cases[:3])
    save(tmp_path / "b.jsonl.gz", cases[3:])
    done = run("conformance", str(tmp_path), "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "cases": 6,
        "agree": 6,
        "families": {
            "taints": {"cases": 5, "agree": 5},
            "gates-features": {"cases": 1, "agree": 1},
        },
        "disagreements": [],
    }
    assert run("conformance", str(tmp_path)).out.endswith("\n6 of 6 cases agree\n")


def test_a_difference_is_shown_and_ends_with_code_1(
    run: Run, tmp_path: Path, cases: list[dict[str, Any]]
) -> None:
    cases[0]["expect"]["best"] = ["atlantis"]
    cases[0]["expect"]["feasible"].append("atlantis")
    path = save(tmp_path / "a.jsonl", cases[:2])
    done = run("conformance", path, "--json")
    told = json.loads(done.out)
    assert done.code == 1
    assert (told["cases"], told["agree"]) == (2, 1)
    found = {d["field"]: d for d in told["disagreements"]}
    assert set(found) == {"best", "feasible"}
    assert set(found["best"]) == {"case", "field", "expected", "actual"}
    assert found["best"]["case"] == cases[0]["name"]
    assert found["best"]["expected"] == ["atlantis"]
    shown = run("conformance", path, "--show", "1").out
    assert "1 more disagreements" in shown
    assert (
        len(json.loads(run("conformance", path, "--json", "--show", "1").out)["disagreements"]) == 1
    )


def test_a_case_that_crashes_is_a_disagreement(
    run: Run, tmp_path: Path, cases: list[dict[str, Any]]
) -> None:
    cases[0]["pod"]["spec"]["priority"] = "high"
    done = run("conformance", save(tmp_path / "a.jsonl", cases[:2]), "--json")
    told = json.loads(done.out)
    assert done.code == 1
    (found,) = told["disagreements"]
    assert (found["case"], found["field"]) == (cases[0]["name"], "crash")
    assert "spec.priority" in found["actual"]


def test_a_family_can_be_chosen(run: Run, tmp_path: Path, cases: list[dict[str, Any]]) -> None:
    cases[0]["name"] = "ports-1"
    path = save(tmp_path / "a.jsonl", cases)
    done = run("conformance", path, "--family", "ports", "--json")
    assert json.loads(done.out)["cases"] == 1
    done = run("conformance", path, "--family", "whales")
    assert (done.code, done.out) == (1, "")
    assert "whales" in done.err


def test_several_processes_find_the_same(
    run: Run, tmp_path: Path, cases: list[dict[str, Any]]
) -> None:
    cases[1]["expect"]["best"] = []
    path = save(tmp_path / "a.jsonl", cases)
    assert run("conformance", path, "--jobs", "2") == run("conformance", path)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_goes_wrong_in_a_plugin_is_compared_and_not_logged(tmp_path: Path, jobs: str) -> None:
    with gzip.open(GOLDEN / "volumes.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [case for case in map(json.loads, lines) if case["name"] == "volumes-20"]
    assert cases[0]["expect"]["postFilter"]["code"] == "Error"
    path = save(tmp_path / "a.jsonl", cases)
    command = [sys.executable, "-m", "moorage", "conformance", path, "--jobs", jobs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.jsonl", b'{"name": "x", "objects": ['),
        ("odd.jsonl", b'{"title": "x"}\n'),
        ("empty.jsonl", b""),
        ("plain.jsonl.gz", b"{}"),
        ("cut.jsonl.gz", gzip.compress(b"x" * 1000, mtime=0)[:20]),
        ("cases.txt", b"{}"),
    ],
)
def test_files_that_hold_no_cases_are_one_sentence(
    run: Run, tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    done = run("conformance", str(path))
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert done.err.startswith("moorage: error: ")


def test_usage_errors_end_with_code_2(run: Run) -> None:
    assert run("conformance").code == 2
    assert run("conformance", "x", "--jobs", "0").code == 2
    assert run("conformance", "/no/such/folder").code == 1


ORACLE = f"""#!{sys.executable}
import json
import subprocess
import sys
print(json.dumps({{"kubernetes": "v1"}}), flush=True)
while True:
    case = json.loads(input())
    print(json.dumps({{"expect": {{"best": ["atlantis"]}}}}), flush=True)
"""


def test_a_search_writes_down_what_an_oracle_decides_otherwise(
    run: Run, tmp_path: Path, cases: list[dict[str, Any]]
) -> None:
    oracle, found = tmp_path / "oracle", tmp_path / "found.jsonl"
    oracle.write_text(ORACLE)
    oracle.chmod(0o755)
    path = save(tmp_path / "a.jsonl", cases)
    search = ("--search", "3", "--seed", "5", "--oracle", str(oracle), "--found", str(found))
    done = run("conformance", path, *search)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("the seed is 5, the oracle of v1\n")
    assert "of 3 3 differ" in done.out
    small = json.loads(found.read_text().splitlines()[0])
    assert (small["kubernetes"], small["expect"]) == ("v1", {"best": ["atlantis"]})
    assert run("conformance", str(found)).code == 1


def test_a_search_needs_an_oracle(run: Run, tmp_path: Path) -> None:
    done = run("conformance", str(tmp_path), "--search", "3")
    assert done.code == 2
    assert "--search and --oracle belong together" in done.err
