"""Objects as a real API server stored them are read whole and changed by nothing we add.

The sample in `data` is drawn from the recorded kube-scheduler decisions so that every field that
occurs in them occurs here. Recorded decisions below `tests` are sampled too.
"""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from moorage.model.checks import check_object
from moorage.model.decode import KINDS, decode_json, decode_object
from moorage.model.defaulting import Classes, with_defaults
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

TESTS = Path(__file__).parent.parent
SAMPLE = Path(__file__).parent / "data" / "stored_objects.jsonl.gz"
EVERY = 40


def lines(path: Path) -> Iterator[Any]:
    with gzip.open(path) as file:
        for line in file:
            yield json.loads(line)


@cache
def stored() -> tuple[dict[str, Any], ...]:
    found = list(lines(SAMPLE))
    for path in sorted(TESTS.glob("parity/**/*.jsonl.gz")):
        for number, case in enumerate(lines(path)):
            if number % EVERY == 0:
                found += [*case["objects"], case["pod"]]
    return tuple(found)


@cache
def decoded() -> tuple[ApiObject, ...]:
    objects = [decode_object(data, "sample") for data in stored()]
    return tuple(obj for obj in objects if isinstance(obj, ApiObject))


def test_every_kind_is_known_and_most_occur() -> None:
    assert len(decoded()) == len(stored())
    missing = set(KINDS) - {obj.kind for obj in decoded()}
    assert missing == {"PodGroup", "ResourceClaimTemplate"}


def test_both_ways_of_decoding_agree() -> None:
    for data, obj in zip(stored(), decoded(), strict=True):
        assert decode_json(type(obj), json.dumps(data).encode()) == obj


def test_stored_objects_pass_the_checks() -> None:
    for obj in decoded():
        check_object(obj, "sample")


def test_defaulting_changes_nothing_that_a_decision_depends_on() -> None:
    classes = Classes.among(decoded())
    for obj in decoded():
        again = with_defaults(obj, classes)
        if isinstance(obj, Pod) and isinstance(again, Pod):
            assert asdict(again.requests) == asdict(obj.requests)
            assert again.host_ports == obj.host_ports
            assert again.affinity_terms == obj.affinity_terms
            assert again.required_nodes == obj.required_nodes
            assert again.priority == obj.priority
            spread = again.spec.topology_spread_constraints
            assert spread == obj.spec.topology_spread_constraints
        elif isinstance(obj, Node) and isinstance(again, Node):
            assert again.allocatable == obj.allocatable
        else:
            assert again == (obj if obj.metadata.uid else with_defaults(obj, classes))
        assert with_defaults(again, classes) == again
