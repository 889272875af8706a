"""A search for cases that upstream's plugins decide otherwise: mutate, compare, shrink.

Owns what counts as a difference worth telling. Where upstream leaves something to chance, it is
asked several times, and we agree if it ever decides as we do. A mutant depends on the seed and its
own number alone.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from moorage.errors import InputError
from moorage.framework.registry import Registry
from moorage.model.meta import Json
from moorage.simulator.conformance import Disagreement, check_case
from moorage.simulator.mutations import Donors, mutate
from moorage.simulator.oracle import Oracle
from moorage.simulator.replay import GoldenCase, find_files, read_lines
from moorage.simulator.world import full_registry

_MOST_BYTES = 100_000
"""Larger cases take long and show nothing that smaller ones do not."""
_DONORS = 400
_TRIES = 20
_MOST_TRIES = 200
"""Where upstream's answers vary: several things that are left to chance combine."""
_MOST_SMALLER = 3000
"""So many smaller cases are tried, at most."""
_MOST_KINDS = 100
_NEEDED = {"apiVersion", "kind", "metadata", "name", "namespace"}


class SearchCount(msgspec.Struct):
    """What became of the mutants so far."""

    tried: int = 0
    decided: int = 0
    invalid: int = 0
    failed: int = 0
    chance: int = 0
    """Upstream decides now so, now otherwise."""
    differ: int = 0


Difference = tuple[Json, list[Disagreement]]
"""A case that we decide otherwise, as small as it could be made, and in what."""


class Search:
    """Mutants of some cases, put to both sides."""

    def __init__(
        self, paths: Iterable[Path], oracle: Oracle, seed: int, families: Iterable[str] = ()
    ) -> None:
        wanted = frozenset(families)
        lines = [line for path in find_files(paths) for line in read_lines(path)]
        cases = [line.decode() for line in lines if len(line.text) <= _MOST_BYTES]
        self._cases = [case for case in cases if not wanted or case.family in wanted]
        if not self._cases:
            raise InputError("there are no cases to begin with in these files")
        self._oracle = oracle
        self._seed = seed
        random = Random(seed)
        donors = random.sample(self._cases, min(_DONORS, len(self._cases)))
        self._donors = Donors((_plain(case) for case in donors), random)
        self._registry: Registry = full_registry()
        self._seen: set[str] = set()
        self.count = SearchCount()

    def run(self, most: int, progress: Callable[[SearchCount], None]) -> Iterator[Difference]:
        """So many mutants; each new kind of difference, as it is found, up to a hundred."""
        for number in range(most):
            random = Random(f"{self._seed}-{number}")
            mutant, touched = mutate(_plain(random.choice(self._cases)), self._donors, random)
            mutant["name"] = f"found-{self._seed}-{number}"
            found = self._differing(mutant, touched)
            self.count.tried += 1
            progress(self.count)
            if not found:
                continue
            self.count.differ += 1
            kind = _kind(found)
            if kind in self._seen or len(self._seen) > _MOST_KINDS:
                continue
            small, found = self._shrunk(mutant, found)
            if kind not in self._seen and _kind(found) not in self._seen:
                yield small, found
            self._seen |= {kind, _kind(found)}

    def _differing(
        self, case: Json, touched: Iterable[int], tries: int = _TRIES
    ) -> list[Disagreement]:
        """In what we differ; `case` has upstream's decision afterwards."""
        found: list[Disagreement] = []
        check = list(touched)
        first: Json | None = None
        number = 0
        while number < tries:
            number += 1
            answer = self._oracle.ask(case, check)
            if answer.expect is None:
                self.count.invalid += bool(answer.invalid)
                self.count.failed += bool(answer.failed)
                return []
            first = first or answer.expect
            if answer.expect != first:
                tries = _MOST_TRIES
            case.update(expect=answer.expect, kubernetes=self._oracle.kubernetes)
            _put(case, answer.stored)
            before, found = found, self._compared(case)
            if not found:
                self.count.chance += bool(before)
                break
        self.count.decided += 1
        return found

    def _compared(self, case: Json) -> list[Disagreement]:
        golden = msgspec.json.decode(msgspec.json.encode(case), type=GoldenCase)
        return check_case(golden, self._registry).disagreements

    def _shrunk(self, case: Json, found: list[Disagreement]) -> Difference:
        """The smallest case in reach that differs in one of the same fields."""
        fields = {one.field for one in found}
        counted, largest = copy.copy(self.count), (case, found)
        start = tried = 0
        while tried < _MOST_SMALLER:
            size = _size(case)
            for at, (smaller, touched) in enumerate(_smaller(case)):
                if at < start:
                    continue
                tried += 1
                left = self._differing(smaller, touched, tries=2)
                if fields & {one.field for one in left} and _size(smaller) < size:
                    case, found, start = smaller, left, at
                    break
            else:  # What was kept at first may go now.
                if start == 0:
                    break
                start = 0
        found = self._differing(case, ())
        self.count = counted
        return (case, found) if found else largest


def _plain(case: GoldenCase) -> Json:
    plain: Json = msgspec.json.decode(msgspec.json.encode(case))
    return plain


def _put(case: Json, stored: dict[int, Json]) -> None:
    """Take objects as the API server has completed them."""
    objects = list(case["objects"])
    for number, obj in stored.items():
        if number == len(objects):
            case["pod"] = obj
        else:
            objects[number] = obj
    case["objects"] = objects


def _size(case: Json) -> int:
    return len(msgspec.json.encode((case["config"], case["objects"], case["pod"])))


def _kind(found: list[Disagreement]) -> str:
    """Equal for differences that probably have one cause: fields, plugins and words, no names."""
    words = sorted({f"{one.field}:{word}" for one in found for word in _words(one)})
    return " ".join(words)


def _words(one: Disagreement) -> Iterator[str]:
    for side in (one.expected, one.actual):
        text = msgspec.json.encode(side).decode()
        yield from (word for word in text.split('"') if word[:1].isupper())


def _smaller(case: Json) -> Iterator[tuple[Json, list[int]]]:
    """The case without a part, the larger parts first, and what has to be validated then."""
    objects = case["objects"]
    if case["config"] is not None:
        yield {**case, "config": None}, []
    size = len(objects) // 2
    while size:
        for at in range(0, len(objects), size):
            yield {**case, "objects": objects[:at] + objects[at + size :]}, []
        size //= 2
    for at, obj in enumerate([*objects, case["pod"]]):
        for less in _less(obj):
            if at == len(objects):
                yield {**case, "pod": less}, [at]
            else:
                yield {**case, "objects": [*objects[:at], less, *objects[at + 1 :]]}, [at]


def _less(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in value:
            if key not in _NEEDED:
                yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            yield from ({**value, key: less} for less in _less(item))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
        for at, item in enumerate(value):
            yield from ([*value[:at], less, *value[at + 1 :]] for less in _less(item))
