"""Between the form a client speaks and the form that is stored.

Most resources are stored as they are spoken. Events are written under two groups with different
field names; resources served in two versions differ only in `apiVersion`.
Upstream: kubernetes@v1.36.4 pkg/apis/events/v1/conversion.go.
"""

from moorage.apiserver.resources import STORED_AS, ApiResource
from moorage.apiserver.statuses import Json

# Field of events.k8s.io/v1 -> field of the core group, which is the stored form.
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_FIELDS = {core: newer for newer, core in _EVENT_FIELDS.items()}


def stored_as_is(resource: ApiResource) -> bool:
    """Can stored bytes be handed out unchanged?"""
    return STORED_AS[resource.storage] is resource


def to_stored(resource: ApiResource, obj: Json) -> Json:
    """A client's object in the stored form."""
    target = STORED_AS[resource.storage]
    if target is resource:
        return obj
    if resource.storage == "events":
        obj = {_EVENT_FIELDS.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": target.api_version}


def from_stored(resource: ApiResource, obj: Json) -> Json:
    """A stored object in the form the client speaks."""
    if STORED_AS[resource.storage] is resource:
        return obj
    if resource.storage == "events":
        obj = {_CORE_FIELDS.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": resource.api_version}
