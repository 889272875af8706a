"""Good inputs to begin with: golden cases, recorded configurations and command lines, samples."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fuzz.target import SAMPLES, TESTS
from fuzz.typed import typed_objects
from moorage.testing.random_objects import random_node, random_pod

Json = dict[str, Any]
GOLDEN = (TESTS / "parity" / "golden", TESTS / "parity" / "corners")


def golden_cases(random: Random, count: int = 200, family: str = "") -> list[Json]:
    """Some cases of three files, chosen at random."""
    files = sorted(path for folder in GOLDEN for path in folder.glob(f"{family}*.jsonl.gz"))
    lines: list[bytes] = []
    for path in random.sample(files, min(3, len(files))):
        with gzip.open(path) as file:
            lines += file.readlines()
    chosen = random.sample(lines, min(count, len(lines)))
    return [json.loads(line) for line in chosen]


def golden_objects(random: Random) -> list[Json]:
    """Objects of golden cases, and those of two generators beside them."""
    objects = [
        obj for case in golden_cases(random, 60) for obj in (case["pod"], *case["objects"][:20])
    ]
    for number in range(50):
        made = (random_node(random, f"n{number}"), random_pod(random, f"p{number}"))
        objects += [json.loads(msgspec.json.encode(obj)) for obj in made]
    return objects + typed_objects(random)


def configurations() -> list[bytes]:
    """Texts of KubeSchedulerConfigurations."""
    recorded = json.loads((TESTS / "config" / "upstream.json").read_text())
    return [case["text"].encode() for case in recorded if case.get("text")]


def command_lines() -> list[list[str]]:
    """Arguments of kube-scheduler."""
    recorded = json.loads((TESTS / "app" / "data" / "command-lines.json").read_text())
    return [[str(part) for part in found] for found in _string_lists(recorded)]


def _string_lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _string_lists(item)


def samples() -> list[bytes]:
    """YAML manifests."""
    return [path.read_bytes() for path in sorted(Path(SAMPLES).glob("*.yaml"))]


def expressions(random: Random) -> list[str]:
    """CEL expressions of golden cases."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("expression"), str):
                found.add(value["expression"])
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    for family in ("dra", "cel"):
        for case in golden_cases(random, 150, family):
            look(case["objects"])
    return sorted(found)
