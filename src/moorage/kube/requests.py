"""What is asked of the API server, as values: built here, sent by `client`.

Knows the REST protocol's paths, queries and bodies; opens no connection and holds no state, so a
request can be printed, compared and sent twice.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from moorage.kube.resources import RESOURCES, Resource

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PAGE_SIZE = 500
_WATCH_SECONDS = (300.0, 600.0)

Query = tuple[tuple[str, str], ...]
Json = dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One request; `timeout` in seconds, None for the client's own."""

    method: str
    path: str
    query: Query = ()
    body: Any = None
    content_type: str = "application/json"
    timeout: float | None = None

    @property
    def repeatable(self) -> bool:
        """May it be sent again when a broken connection hid the answer?"""
        return self.method == "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def list_(
    resource: Resource,
    namespace: str = "",
    *,
    field_selector: str = "",
    label_selector: str = "",
    resource_version: str = "",
    limit: int = 0,
    continue_: str = "",
) -> Request:
    """Read a page of objects; a continued page must not name a resource version."""
    query = {
        "fieldSelector": field_selector,
        "labelSelector": label_selector,
        "limit": str(limit) if limit else "",
        "continue": continue_,
        "resourceVersion": "" if continue_ else resource_version,
    }
    return Request("GET", resource.collection(namespace), _query(query))


def watch(
    resource: Resource,
    namespace: str = "",
    *,
    field_selector: str = "",
    label_selector: str = "",
    resource_version: str = "",
    timeout_seconds: int = 300,
    initial_events: bool = False,
) -> Request:
    """Follow a collection; with `initial_events` the stream begins with all there is."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "fieldSelector": field_selector,
        "labelSelector": label_selector,
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_seconds),
    }
    if initial_events:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    # The server ends the watch by itself; the grace is for one that has forgotten to.
    timeout = timeout_seconds + 30.0
    return Request("GET", resource.collection(namespace), _query(query), timeout=timeout)


def watch_seconds(random: Random) -> int:
    """How long a watch is to last, so that not all of them end at once."""
    return int(random.uniform(*_WATCH_SECONDS))


def create(resource: Resource, namespace: str, body: Any) -> Request:
    """Make an object."""
    return Request("POST", resource.collection(namespace), body=body)


def patch(
    resource: Resource,
    namespace: str,
    name: str,
    body: Any,
    *,
    content_type: str = STRATEGIC,
    subresource: str = "",
) -> Request:
    """Change parts of an object."""
    path = resource.item(namespace, name, subresource)
    return Request("PATCH", path, body=body, content_type=content_type)


def delete(
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str = "",
    grace_seconds: int | None = None,
) -> Request:
    """Delete an object; with `uid` only that very one, not a later one of the same name."""
    options: Json = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
    return Request("DELETE", resource.item(namespace, name), body=body)


def bind(namespace: str, name: str, uid: str, node_name: str) -> Request:
    """Put a pod on a node, as kube-scheduler's DefaultBinder does."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "target": {"kind": "Node", "name": node_name},
    }
    return Request("POST", RESOURCES["Pod"].item(namespace, name, "binding"), body=body)


def token_review(token: str) -> Request:
    """Ask who a bearer token belongs to."""
    return _review(RESOURCES["TokenReview"], {"token": token})


def subject_access_review(spec: Json) -> Request:
    """Ask whether somebody may do something; `spec` is the API's SubjectAccessReviewSpec."""
    return _review(RESOURCES["SubjectAccessReview"], spec)


def _review(resource: Resource, spec: Json) -> Request:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    return create(resource, "", body)


def _query(values: Mapping[str, str]) -> Query:
    return tuple((name, value) for name, value in values.items() if value)
