"""A server in a thread of its own that answers as a test tells it to."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from aiohttp import web

from kube.fake_api import FakeApi

Json = dict[str, Any]
Answer = Json | tuple[int, Json | str]
LIMIT = 30.0


class Answering:
    """A running server; `asked` are the requests so far, with their queries."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    @property
    def url(self) -> str:
        return self._api.url.replace("localhost", "127.0.0.1")

    @property
    def asked(self) -> list[str]:
        return self._api.requests

    @property
    def headers(self) -> list[Mapping[str, str]]:
        return self._api.headers


@contextmanager
def answering(
    answers: Mapping[str, Answer], context: ssl.SSLContext | None = None
) -> Iterator[Answering]:
    """Answer GETs of some paths, with a code where it is not 200; others do not exist."""
    api = FakeApi()
    for path, answer in answers.items():
        api.routes[f"GET {path}"] = _route(answer)
    started, over = Event(), Event()

    async def serve() -> None:
        await api.start(context)
        started.set()
        await asyncio.to_thread(over.wait, LIMIT)
        await api.stop()

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(LIMIT)
        yield Answering(api)
    finally:
        over.set()
        thread.join(LIMIT)


def _route(answer: Answer) -> Any:
    code, body = answer if isinstance(answer, tuple) else (200, answer)

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if isinstance(body, str):
            return web.Response(status=code, text=body)
        return web.json_response(body, status=code)

    return respond


def listed(*items: Json) -> Json:
    """A list as an API server gives it."""
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}


def kubeconfig_for(server: str) -> Json:
    """A kubeconfig of one cluster and nobody's credentials."""
    return {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
