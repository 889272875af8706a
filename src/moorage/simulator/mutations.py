"""Golden cases changed at random, into ones that a cluster could hold just as well.

A change takes what other cases have at the same place (`Donors`), nudges a number, or leaves
something out; so most results are objects that the API takes, and whether they are is for somebody
else to find out. Everything is drawn from the generator that is passed in. Names stay, and pods
start at different times: of equal ones upstream may choose any as victims.
"""

import copy
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from moorage.model.meta import Json

_MOST_SAMPLES = 60
_LEFT_ALONE = {
    "apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace", "metadata.uid",
    "spec", "status", "status.startTime",
}  # fmt: skip
_QUANTITY = re.compile(r"(\d+)([mkMGT]i?)?")


class Donors:
    """What some cases have: at each place (`Pod.spec.containers.*.image`), and as a whole."""

    def __init__(self, cases: Iterable[Json], random: Random) -> None:
        self._random = random
        self.values: defaultdict[str, list[Any]] = defaultdict(list)
        self.keys: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.objects: defaultdict[str, list[Json]] = defaultdict(list)
        self.configs: list[Any] = [None]
        for case in cases:
            self._keep(self.configs, case["config"])
            for obj in (*case["objects"], case["pod"]):
                self._keep(self.objects[obj["kind"]], obj)
                for place, _, _, value in _parts(obj, obj["kind"]):
                    self._keep(self.values[place], value)
                    if isinstance(value, dict):
                        self.keys[place].update(dict.fromkeys(value))

    def _keep(self, kept: list[Any], value: Any) -> None:
        if len(kept) < _MOST_SAMPLES:
            kept.append(value)
        else:
            kept[self._random.randrange(_MOST_SAMPLES)] = value

    def some(self, place: str, random: Random) -> list[Any]:
        """A value from that place, if there is any."""
        return copy.deepcopy(random.sample(self.values[place], min(1, len(self.values[place]))))


def mutate(case: Json, donors: Donors, random: Random) -> tuple[Json, list[int]]:
    """A changed copy, and the numbers of the objects to be validated (the last means the pod)."""
    changed: Json = copy.deepcopy(case)
    objects: list[Json] = changed["objects"]
    touched: list[Json] = []
    for _ in range(random.choice((1, 1, 2, 2, 3, 5, 8))):
        way = random.random()
        if way < 0.03:
            changed["config"] = copy.deepcopy(random.choice(donors.configs))
        elif way < 0.10:
            _leave_out(objects, random)
        elif way < 0.22:
            touched.append(_bring_in(objects, donors, random))
        else:
            kind = random.choice(sorted({obj["kind"] for obj in objects}))
            same = [obj for obj in objects if obj["kind"] == kind]
            obj = random.choice(same) if random.random() < 0.55 else changed["pod"]
            _change(obj, donors, random)
            touched.append(obj)
    _start_apart(_of_kind("Pod", objects))
    everything = enumerate([*objects, changed["pod"]])
    return changed, [n for n, obj in everything if any(obj is one for one in touched)]


def _leave_out(objects: list[Json], random: Random) -> None:
    at = random.randrange(len(objects))
    if objects[at]["kind"] != "Node" or len(_of_kind("Node", objects)) > 1:
        del objects[at]


def _bring_in(objects: list[Json], donors: Donors, random: Random) -> Json:
    """An object of another case, instead of the one of its name; a pod comes beside the others."""
    kind = random.choice(["Pod", *sorted(donors.objects)])
    obj: Json = copy.deepcopy(random.choice(donors.objects[kind]))
    if kind == "Pod":
        serial = random.randrange(1 << 32)  # Two pods of one UID are no cluster.
        obj["metadata"].update(name=f"new-{serial}", uid=f"new-uid-{serial}")
        obj["spec"]["nodeName"] = random.choice(_of_kind("Node", objects))["metadata"]["name"]
        obj["status"] = {"phase": "Running"}
    objects[:] = [other for other in objects if _name(other) != _name(obj)] + [obj]
    if kind == "Node":  # They come first, and as the API lists them.
        objects.sort(key=lambda one: _name(one) if one["kind"] == kind else ("Other", "", ""))
    return obj


def _start_apart(pods: list[Json]) -> None:
    seen: set[str | None] = {None}
    for number, pod in enumerate(pods):
        status = pod.setdefault("status", {})
        if status.get("startTime") in seen:
            minutes = f"{number // 60 % 24:02}:{number % 60:02}"
            status["startTime"] = f"2025-03-{number // 1440 + 1:02}T{minutes}:00Z"
        seen.add(status["startTime"])


def _of_kind(kind: str, objects: list[Json]) -> list[Json]:
    return [obj for obj in objects if obj["kind"] == kind]


def _name(obj: Json) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _change(obj: Json, donors: Donors, random: Random) -> None:
    """One value is another, or gone; those that lie deep are as likely as the others."""
    parts = [p for p in _parts(obj, obj["kind"]) if p[0].partition(".")[2] not in _LEFT_ALONE]
    if not parts:
        return
    depth = random.choice(sorted({part[0].count(".") for part in parts}))
    chosen = [part for part in parts if part[0].count(".") == depth]
    place, parent, key, value = random.choice(chosen)
    way = random.random()
    if way < 0.15:
        del parent[key]
    elif way < 0.40 and isinstance(value, dict) and donors.keys[place]:
        name = random.choice(list(donors.keys[place]))
        value.update((name, one) for one in donors.some(f"{place}.{name}", random))
    elif way < 0.55 and isinstance(value, list):
        value += donors.some(f"{place}.*", random)
        random.shuffle(value)
    elif way < 0.60:
        parent[key] = _nudged(value, random)
    else:
        parent[key] = (donors.some(place, random) or [value])[0]


def _nudged(value: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(0, value + random.choice((-1, 1, value, -value, 100)))
    amount = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if amount is None:
        return value
    number = max(0, int(amount[1]) + random.choice((-1, 1, int(amount[1]), 10)))
    return f"{number}{amount[2] or ''}"


def _parts(value: Any, place: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """All that is in a value: its place, what it is in, under which key, and itself."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, item in inside:
        within = f"{place}.{'*' if isinstance(value, list) else key}"
        yield within, value, key, item
        yield from _parts(item, within)
