"""Reduces what the API shows to what two schedulers must agree on.

Times, resource versions, generated names and ids differ from run to run and are left out; texts
are passed through `plain`, which replaces the rest.
"""

from collections.abc import Callable

from e2e.client import Json

Plain = Callable[[str], str]


def of_pod(item: Json, events: list[str], where: bool, plain: Plain) -> Json:
    """What is compared of one pod."""
    status = item.get("status", {})
    conditions = {
        condition["type"]: {
            key: plain(str(condition[key]))
            for key in ("status", "reason", "message", "observedGeneration")
            if condition.get(key)
        }
        for condition in status.get("conditions", ())
    }
    seen: Json = {"conditions": conditions, "events": events}
    if where:
        seen["node"] = item["spec"].get("nodeName")
    else:
        seen["bound"] = "nodeName" in item["spec"]
    if status.get("nominatedNodeName"):
        seen["nominated"] = status["nominatedNodeName"]
    if "deletionTimestamp" in item["metadata"]:
        seen["terminating"] = True
    return seen


def event_line(event: Json, plain: Plain) -> str:
    """What is compared of an event, in one line."""
    related = event.get("related", {}).get("name")
    about = f" related to {related}" if related else ""
    return plain(
        f"{event['type']} {event['reason']} ({event.get('action')}) by "
        f"{event.get('reportingController')}{about}: {event.get('note')}"
    )


def skeleton(value: object, plain: Plain) -> object:
    """A whole object with everything that differs from run to run replaced by a mark."""
    if isinstance(value, dict):
        return {
            key: _MARKS.get(key) or skeleton(inner, plain)
            for key, inner in sorted(value.items())
            if key != "managedFields" and inner is not None
        }
    if isinstance(value, list):
        return [skeleton(inner, plain) for inner in value]
    if isinstance(value, str):
        return plain(value)
    return value


_MARKS = {
    key: f"<{key}>"
    for key in (
        *("uid", "resourceVersion", "creationTimestamp", "eventTime", "lastTransitionTime"),
        *("deletionTimestamp", "lastObservedTime", "startTime"),
    )
}
