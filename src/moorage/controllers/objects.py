"""Reading API objects as controllers have them: plain JSON, never changed in place.

Owns what a controller asks of one object: who controls it, what it selects, whether a pod counts.
Knows no other objects and plans nothing.
"""

import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from moorage.model.labels import LabelSelector, Selector, compile_selector

Json = dict[str, Any]

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Letters for names: no vowels, so no words."""


def meta(obj: Json) -> Json:
    """`metadata`."""
    found: Json = obj["metadata"]
    return found


def spec(obj: Json) -> Json:
    """`spec`, empty where there is none."""
    return obj.get("spec") or {}


def status(obj: Json) -> Json:
    """`status`, empty where there is none."""
    return obj.get("status") or {}


def labels(obj: Json) -> dict[str, str]:
    """`metadata.labels`."""
    return meta(obj).get("labels") or {}


def annotations(obj: Json) -> dict[str, str]:
    """`metadata.annotations`."""
    return meta(obj).get("annotations") or {}


def replicas(obj: Json) -> int:
    """How many replicas are asked for; one where nothing is said."""
    wanted = spec(obj).get("replicas")
    return 1 if wanted is None else int(wanted)


def is_going(obj: Json) -> bool:
    """Is it being deleted?"""
    return bool(meta(obj).get("deletionTimestamp"))


def age(obj: Json) -> tuple[str, str]:
    """To sort by: the oldest first, and by name where two are of one second."""
    return meta(obj).get("creationTimestamp") or "", meta(obj)["name"]


# ---- owners and selectors ----


def controller_of(obj: Json) -> Json | None:
    """The owner reference that is marked as controller."""
    references = meta(obj).get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)


def reference_to(owner: Json) -> Json:
    """The owner reference that makes `owner` the controller of something."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta(owner)["name"],
        "uid": meta(owner)["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(obj: Json) -> Selector | None:
    """What `spec.selector` selects; None if it is missing or empty, and then selects nothing."""
    given = spec(obj).get("selector")
    if given and obj["kind"] == "ReplicationController":  # older than label selectors
        given = {"matchLabels": given}
    return compile_selector(msgspec.convert(given, LabelSelector)) if given else None


def template_labels(obj: Json) -> dict[str, str]:
    """The labels that pods made from `spec.template` have."""
    return ((spec(obj).get("template") or {}).get("metadata") or {}).get("labels") or {}


def finds_its_own(obj: Json) -> bool:
    """Does the selector select what the template makes? Otherwise there would be no end of it."""
    selector = selector_of(obj)
    return selector is not None and selector.matches(template_labels(obj))


# ---- pods ----


def phase(pod: Json) -> str:
    """`status.phase`."""
    return str(status(pod).get("phase", ""))


def is_finished(pod: Json) -> bool:
    """Has the pod run to its end?"""
    return phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Does the pod count as a replica?"""
    return not is_finished(pod) and not is_going(pod)


def is_ready(pod: Json) -> bool:
    """Is the condition Ready true?"""
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def seconds_to_available(pod: Json, min_ready: int, now: float) -> float | None:
    """0 for a pod that has been ready long enough, else how long until then; None if unready."""
    found = condition(pod, "Ready")
    if found is None or found.get("status") != "True":
        return None
    since = found.get("lastTransitionTime")
    return max(0.0, seconds(since) + min_ready - now) if min_ready and since else 0.0


def pod_from(template: Json, owner: Json, name: str = "", **more_labels: str) -> Json:
    """A pod as a template describes it, controlled by `owner`; without a name it gets one made."""
    given = template.get("metadata") or {}
    named = {"generateName": meta(owner)["name"] + "-", **({"name": name} if name else {})}
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **named,
            "namespace": meta(owner)["namespace"],
            "labels": {**(given.get("labels") or {}), **more_labels},
            "annotations": dict(given.get("annotations") or {}),
            "ownerReferences": [reference_to(owner)],
        },
        "spec": dict(template.get("spec") or {}),
    }
    if given.get("finalizers"):
        body["metadata"]["finalizers"] = list(given["finalizers"])
    return body


# ---- conditions ----


def condition(obj: Json, kind: str) -> Json | None:
    """The condition of that type."""
    return next((one for one in status(obj).get("conditions") or () if one["type"] == kind), None)


def with_condition(conditions: Iterable[Json], new: Json, now: float) -> list[Json]:
    """The conditions with one set; it keeps the time of its last change of status."""
    old = next((one for one in conditions if one["type"] == new["type"]), None)
    if old is not None and old["status"] == new["status"]:
        since = old.get("lastTransitionTime") or rfc3339(now)
    else:
        since = rfc3339(now)
    rest = [one for one in conditions if one["type"] != new["type"]]
    return [*rest, {**new, "lastTransitionTime": since}]


def without_condition(conditions: Iterable[Json], kind: str) -> list[Json]:
    """The conditions without those of a type."""
    return [one for one in conditions if one["type"] != kind]


# ---- numbers, times and names ----


def scaled(amount: int | str | None, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total rounded up or down."""
    if isinstance(amount, str) and amount.endswith("%"):
        hundredths = int(amount[:-1]) * total
        return -(-hundredths // 100) if up else hundredths // 100
    return int(amount or 0)


def seconds(text: str) -> float:
    """An RFC 3339 time of the API as seconds since the epoch."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def rfc3339(now: float) -> str:
    """Seconds since the epoch as the API writes a time."""
    return _second(int(now))


@lru_cache(maxsize=8)
def _second(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hash_of(value: Any, salt: int = 0) -> str:
    """A short text for a value that is the same wherever and whenever it is worked out."""
    number = zlib.crc32(msgspec.json.encode(value, order="sorted"), salt)
    return "".join(_SAFE[int(digit)] for digit in str(number)) if number else _SAFE[0]
