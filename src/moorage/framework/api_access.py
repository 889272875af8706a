"""The API as plugins reach it through their handle: a client, events, and work for later.

Owns the interfaces. `kube` fills them in for a live cluster, `simulator` for one in files; where
neither does (an explanation, a check of plugins), reading fails and what is written is dropped.
"""

from collections import deque
from collections.abc import AsyncIterator, Coroutine
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from moorage.errors import ApiError
from moorage.model.labels import Labels
from moorage.model.meta import ApiObject, Json

Kind = type[ApiObject] | str
"""A type of the model, its name (`Pod`), or a custom resource (`foos.v1.example.com`)."""

Work = Coroutine[Any, Any, object]
NO_LABELS: Labels = MappingProxyType({})


class WatchEvent(NamedTuple):
    """A line of a watch: ADDED, MODIFIED or DELETED, and the object."""

    type: str
    object: Json


class ApiClient(Protocol):
    """Objects of any kind, as JSON; a request that the API refuses raises `ApiError`.

    Leave the namespace out for objects that have none, and to list or watch all namespaces.
    `labels` are those that objects must have to be shown.
    """

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        """One object."""

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> list[Json]:
        """All objects."""

    async def create(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        """Make an object; the object as stored."""

    async def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json:
        """Change parts of an object by a merge patch (None removes a field); as stored."""

    async def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object."""

    def watch(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> AsyncIterator[WatchEvent]:
        """All objects as ADDED, then their changes, until the server ends it."""


class RestConfig(Protocol):
    """Where the API server is, and as whom it is asked; `moorage.kube.access.Access` in fact."""

    @property
    def server(self) -> str:
        """The URL."""

    @property
    def source(self) -> str:
        """The kubeconfig, or whatever else it came from."""


class EventWriter(Protocol):
    """Writes events without making anybody wait."""

    def __call__(
        self,
        regarding: ApiObject,
        type_: str,
        reason: str,
        action: str,
        note: str,
        *,
        controller: str,
        related: ApiObject | None = None,
    ) -> None:
        """Write an event."""


class _NoClient:
    """Where there is no API server to ask."""

    def __getattr__(self, verb: str) -> Any:
        raise ApiError(0, "NoCluster", f"{verb}: there is no API server here")


def _write_nothing(*_: object, **__: object) -> None:
    """Where events are dropped."""


class ApiAccess:
    """Filled in by whoever runs the scheduler, after the plugins were made.

    `later`: does anybody run what plugins leave for later?
    """

    def __init__(self, *, later: bool = False) -> None:
        self.client: ApiClient = _NoClient()
        self.rest_config: RestConfig | None = None
        self.write_event: EventWriter = _write_nothing
        self.later: deque[Work] = deque()
        """What is to be run in the event loop."""
        self._keeps = later

    def run_later(self, work: Work) -> None:
        """Have a coroutine run as soon as the attempt is over."""
        self.later.append(work)
        if not self._keeps:
            self.drop_later()

    def drop_later(self) -> None:
        """Nobody will run what was left."""
        while self.later:
            self.later.popleft().close()
