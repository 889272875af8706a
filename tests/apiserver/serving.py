"""A server in a thread of its own and a small client, for tests that speak HTTP.

Nothing here sleeps: watches are read with a time-out, and a time-out is a failed test.
"""

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from moorage.apiserver import ApiServer, Tls
from moorage.controllers.kubelet import KubeletOptions
from moorage.kube.access import Access
from moorage.local.kubelets import run_kubelets

Json = dict[str, Any]
T = TypeVar("T")
TIMEOUT = 20.0
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"


class Serving:
    """A started server; `call` runs something inside its loop."""

    def __init__(
        self,
        make: Callable[[], ApiServer],
        tls: Tls | bool | None = None,
        kubelets: KubeletOptions | None = None,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.server = make()
        self._wait(self.server.start(tls=tls))
        self._kubelets = None
        if kubelets is not None:
            work = run_kubelets(Access(self.url), kubelets)
            self._kubelets = asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def url(self) -> str:
        return self.server.url

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT)

    def call(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        result: T = self._wait(run())
        return result

    def stop(self) -> None:
        if self._kubelets is not None:
            self._kubelets.cancel()
        self._wait(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()


class Answer:
    """What came back."""

    def __init__(self, code: int, body: Json, headers: Message) -> None:
        self.code, self.body, self.headers = code, body, headers

    @property
    def warnings(self) -> list[str]:
        return self.headers.get_all("Warning") or []

    @property
    def reason(self) -> str:
        return str(self.body.get("reason"))

    @property
    def message(self) -> str:
        return str(self.body.get("message"))

    @property
    def fields(self) -> list[str]:
        return [cause["field"] for cause in self.body["details"]["causes"]]

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


class Watch:
    """A watch that is read event by event."""

    def __init__(self, connection: http.client.HTTPConnection, path: str, accept: str) -> None:
        self._connection = connection
        connection.request("GET", path, headers={"Accept": accept})
        self._response = connection.getresponse()
        self.code = self._response.status

    def next(self) -> tuple[str, Json]:
        line = self._response.readline()
        if not line:
            raise EOFError
        event = json.loads(line)
        return event["type"], event["object"]

    def ended(self) -> bool:
        try:
            return not self._response.readline()
        except (ConnectionError, http.client.IncompleteRead):
            return True

    def names(self, count: int) -> list[tuple[str, str]]:
        events = [self.next() for _ in range(count)]
        return [(kind, obj["metadata"]["name"]) for kind, obj in events]

    def until(self, test: Callable[[str, Json], bool]) -> Json:
        while True:
            kind, obj = self.next()
            if test(kind, obj):
                return obj

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()


class Client:
    """Requests against one server."""

    def __init__(self, url: str, token: str = "") -> None:
        self._address = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._address, timeout=TIMEOUT)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", accept: str = ""
    ) -> Answer:
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = content_type or "application/json"
        if accept:
            headers["Accept"] = accept
        with contextlib.closing(self._connect()) as connection:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
            kind = response.headers.get("Content-Type", "")
            parsed = json.loads(text) if "json" in kind else {"text": text.decode()}
            return Answer(response.status, parsed, response.headers)

    def get(self, path: str, accept: str = "") -> Answer:
        return self.request("GET", path, accept=accept)

    def post(self, path: str, body: Any) -> Answer:
        return self.request("POST", path, body)

    def put(self, path: str, body: Any) -> Answer:
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE) -> Answer:
        return self.request("PATCH", path, body, content_type)

    def delete(self, path: str, body: Any = None) -> Answer:
        return self.request("DELETE", path, body)

    def watch(self, path: str, accept: str = "") -> Watch:
        return Watch(self._connect(), path, accept)

    # ---- objects that many tests need ----

    def create_pod(self, name: str = "a", **spec: Any) -> Json:
        answer = self.post(PODS, pod(name, **spec))
        assert answer.code == 201, answer.body
        return answer.body

    def create_node(self, name: str = "n1", **metadata: Any) -> Json:
        body = {
            "metadata": {"name": name, **metadata},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        answer = self.post("/api/v1/nodes", body)
        assert answer.code == 201, answer.body
        return answer.body

    def bind(self, name: str, node: str = "n1", **metadata: Any) -> Answer:
        body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        return self.post(f"{PODS}/{name}/binding", body)


def pod(name: str, **spec: Any) -> Json:
    metadata = spec.pop("metadata", {})
    containers = [{"name": "main", "image": "registry.example/app:1"}]
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": containers, **spec}}


@contextlib.contextmanager
def served(
    make: Callable[[], ApiServer],
    tls: Tls | bool | None = None,
    kubelets: KubeletOptions | None = None,
) -> Iterator[tuple[Serving, Client]]:
    serving = Serving(make, tls, kubelets)
    try:
        yield serving, Client(serving.url)
    finally:
        serving.stop()
