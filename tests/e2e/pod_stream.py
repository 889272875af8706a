"""Pods created one after the other while something else happens."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from e2e import objects
from e2e.client import Api
from e2e.cluster import ControlPlane

_PAUSE_SECONDS = 0.08


class PodStream:
    """Creates a pod every now and then, from a thread of its own."""

    def __init__(
        self, server: ControlPlane, namespace: str, prefix: str, fields: dict[str, Any]
    ) -> None:
        self.names: list[str] = []
        self._server = server
        self._namespace = namespace
        self._prefix = prefix
        self._fields = fields
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and complain if a pod could not be created."""
        self._over.set()
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    def has(self, count: int) -> bool:
        """Are there so many?"""
        return len(self.names) >= count

    def all_bound(self) -> bool:
        """Has every pod of the namespace a node?"""
        with closing(Api(self._server.admin)) as api:
            return not api.list("Pod", self._namespace, fieldSelector="spec.nodeName=")

    def _run(self) -> None:
        with closing(Api(self._server.admin)) as api:
            try:
                while not self._over.wait(_PAUSE_SECONDS):
                    name = f"{self._prefix}-{len(self.names)}"
                    body = objects.pod(name, **self._fields)
                    body["metadata"]["namespace"] = self._namespace
                    self.names.append(api.create(body)["metadata"]["name"])
            except Exception as failure:  # told by `stop`, in the thread that can fail
                self._failure = failure


@contextmanager
def pod_stream(
    server: ControlPlane, namespace: str, prefix: str, **fields: Any
) -> Iterator[PodStream]:
    """Create pods with these fields of their spec until the block ends, or `stop`."""
    stream = PodStream(server, namespace, prefix, fields)
    try:
        yield stream
    finally:
        stream.stop()
