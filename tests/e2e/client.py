"""A small blocking client of the Kubernetes API; it shares no code with Moorage on purpose."""

import http.client
import json
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

Json = dict[str, Any]
Found = TypeVar("Found")

_REQUEST_SECONDS = 30.0
_MOST_LEVELS = 20_000
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


class Kind(NamedTuple):
    """Where objects of one kind live."""

    prefix: str
    plural: str
    namespaced: bool


KINDS = {
    "Namespace": Kind("/api/v1", "namespaces", False),
    "Node": Kind("/api/v1", "nodes", False),
    "Pod": Kind("/api/v1", "pods", True),
    "Service": Kind("/api/v1", "services", True),
    "PersistentVolume": Kind("/api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": Kind("/api/v1", "persistentvolumeclaims", True),
    "Event": Kind("/apis/events.k8s.io/v1", "events", True),
    "LeaseCandidate": Kind("/apis/coordination.k8s.io/v1beta1", "leasecandidates", True),
    "Lease": Kind("/apis/coordination.k8s.io/v1", "leases", True),
    "PriorityClass": Kind("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "PodGroup": Kind("/apis/scheduling.k8s.io/v1beta1", "podgroups", True),
    "PodDisruptionBudget": Kind("/apis/policy/v1", "poddisruptionbudgets", True),
    "StorageClass": Kind("/apis/storage.k8s.io/v1", "storageclasses", False),
    "CSINode": Kind("/apis/storage.k8s.io/v1", "csinodes", False),
    "CSIDriver": Kind("/apis/storage.k8s.io/v1", "csidrivers", False),
    "ResourceClaim": Kind("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceSlice": Kind("/apis/resource.k8s.io/v1", "resourceslices", False),
    "DeviceClass": Kind("/apis/resource.k8s.io/v1", "deviceclasses", False),
    "DeviceTaintRule": Kind("/apis/resource.k8s.io/v1", "devicetaintrules", False),
}


class ApiError(Exception):
    """The server answered with something else than success."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Access(NamedTuple):
    """How to reach a server as one user."""

    server: str
    token: str | None = None
    ca_file: str | None = None


class Api:
    """One user's connection to one API server; calls block and are not made from two threads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connection: http.client.HTTPConnection | None = None

    def create(self, body: Json) -> Json:
        """Create an object where its own kind, namespace and name say."""
        path = self._path(body["kind"], body["metadata"].get("namespace"))
        return self.call("POST", path, body)

    def create_text(self, kind: str, namespace: str, text: str) -> Json:
        """Create an object from JSON that somebody else wrote."""
        return self.call("POST", self._path(kind, namespace), text)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json:
        """One object."""
        return self.call("GET", self._path(kind, namespace, name))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """One object, or None where there is none of that name."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as failure:
            if failure.code == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, **query: str) -> list[Json]:
        """The objects of a kind, of one namespace or of all."""
        items: list[Json] = self.call("GET", self._path(kind, namespace), query=query)["items"]
        return items

    def patch(
        self,
        kind: str,
        name: str,
        change: Json,
        namespace: str | None = None,
        subresource: str = "",
        strategic: bool = False,
    ) -> Json:
        """Change an object by a merge patch (or a strategic one)."""
        path = self._path(kind, namespace, name, subresource)
        return self.call("PATCH", path, change, content_type=_STRATEGIC if strategic else _MERGE)

    def delete(
        self, kind: str, name: str, namespace: str | None = None, grace: int | None = None
    ) -> None:
        """Delete an object; it is no mistake if it is gone already."""
        body = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            self.call("DELETE", self._path(kind, namespace, name), body)
        except ApiError as failure:
            if failure.code != 404:
                raise

    def bind(self, pod: str, namespace: str, node: str) -> None:
        """Put a pod on a node, as a scheduler does."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.call("POST", self._path("Pod", namespace, pod, "binding"), body)

    def ready(self) -> bool:
        """Whether the server says that it serves."""
        try:
            self.call("GET", "/readyz")
        except (ApiError, OSError, http.client.HTTPException):
            return False
        return True

    def call(
        self,
        method: str,
        path: str,
        body: Json | str | None = None,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """One request; its JSON answer (or {"text": …} where the answer is not JSON)."""
        target = path + ("?" + urlencode(query) if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self._access.token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        payload = body if body is None or isinstance(body, str) else json.dumps(body)
        if self._connection is None:
            self._connection = self._connect()
        try:
            self._connection.request(method, target, payload, headers)
            response = self._connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        answer = _decoded(text)
        if response.status >= 300:
            raise ApiError(response.status, str(answer.get("message", text)))
        return answer

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPConnection:
        address = urlsplit(self._access.server)
        assert address.hostname is not None
        if address.scheme == "http":
            return http.client.HTTPConnection(
                address.hostname, address.port, timeout=_REQUEST_SECONDS
            )
        context = ssl.create_default_context(cafile=self._access.ca_file)
        return http.client.HTTPSConnection(
            address.hostname, address.port, timeout=_REQUEST_SECONDS, context=context
        )

    @staticmethod
    def _path(kind: str, namespace: str | None, name: str = "", subresource: str = "") -> str:
        where = KINDS[kind]
        parts = [where.prefix]
        if where.namespaced and namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.append(where.plural)
        return "/".join([*parts, *(part for part in (name, subresource) if part)])


def wait_for(
    what: str, found: Callable[[], Found | None], wait: float = 30.0, pause: float = 0.05
) -> Found:
    """Poll until there is an answer; complain with `what` was awaited after a while."""
    limit = time.monotonic() + wait
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > limit:
            raise AssertionError(f"waited {wait:g} s in vain for {what}")
        time.sleep(pause)


def names(objects: Iterable[Json]) -> list[str]:
    """The names of objects, sorted."""
    return sorted(item["metadata"]["name"] for item in objects)


def _decoded(text: str) -> Json:
    try:
        answer = json.loads(text)
    except ValueError:
        return {"text": text}
    except RecursionError:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(_MOST_LEVELS)
        try:
            answer = json.loads(text)
        finally:
            sys.setrecursionlimit(before)
    return answer if isinstance(answer, dict) else {"value": answer}
