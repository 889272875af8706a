"""A cluster read once: pages, faults, and what is done without."""

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from kube.fake_api import FakeApi, failure, pod, status
from kube.fake_api import run as in_loop
from moorage.errors import ApiError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient, Page
from moorage.kube.requests import Request
from moorage.kube.snapshot import Snapshot, read_cluster
from moorage.model.meta import ApiObject

Json = dict[str, Any]


def read(
    *kinds: str, prepare: Callable[[FakeApi], None] = lambda api: None
) -> tuple[Snapshot | ApiError, list[str]]:
    """What is read from a server of three pods, and what it was asked."""

    async def scenario() -> tuple[Snapshot | ApiError, list[str]]:
        api = FakeApi()
        for name in ("a", "b", "c"):
            api.put(name)
        api.routes["GET /api/v1/nodes"] = _list()
        prepare(api)
        await api.start()
        try:
            access = Access(server=f"http://127.0.0.1:{api._port}")
            async with KubeClient(access, qps=0, read_only=True, env={}) as client:
                try:
                    return await read_cluster(client, kinds), api.requests
                except ApiError as error:
                    return error, api.requests
        finally:
            await api.stop()

    return in_loop(scenario())


def _list(*items: Json) -> Callable[[web.BaseRequest], Any]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": list(items)})

    return answer


def _refusal(code: int, reason: str) -> Callable[[web.BaseRequest], Any]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return failure(code, reason)

    return answer


def test_every_kind_is_listed_once_and_nothing_is_watched() -> None:
    found, asked = read("Namespace", prepare=lambda api: _route(api, "namespaces", _list()))
    assert isinstance(found, Snapshot)
    assert sorted(obj.name for obj in found.objects) == ["a", "b", "c"]
    assert len(asked) == 3
    assert all(request.startswith("GET ") and "watch" not in request for request in asked)


def _route(api: FakeApi, plural: str, answer: Callable[[web.BaseRequest], Any]) -> None:
    api.routes[f"GET /api/v1/{plural}"] = answer


def test_a_kind_that_may_not_be_listed_is_left_out_with_the_reason() -> None:
    refused = _refusal(403, "Forbidden")
    found, _ = read("Namespace", prepare=lambda api: _route(api, "namespaces", refused))
    assert isinstance(found, Snapshot)
    assert found.unread == {"Namespace": "Forbidden"}
    assert len(found.objects) == 3


def test_a_kind_that_the_server_does_not_have_has_no_objects() -> None:
    missing = _refusal(404, "NotFound")
    found, _ = read("Namespace", prepare=lambda api: _route(api, "namespaces", missing))
    assert isinstance(found, Snapshot)
    assert found.unread == {}


@pytest.mark.parametrize("code", [401, 403, 404])
def test_without_nodes_there_is_nothing_to_say(code: int) -> None:
    found, _ = read(prepare=lambda api: _route(api, "nodes", _refusal(code, "No")))
    assert isinstance(found, ApiError)
    assert found.status == code


def test_an_object_that_cannot_be_read_is_left_out_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def prepare(api: FakeApi) -> None:
        broken = pod("d", 11)
        broken["spec"] = {"containers": 7}
        _route(api, "pods", _list(pod("e", 12), broken))

    found, _ = read(prepare=prepare)
    assert isinstance(found, Snapshot)
    assert ([obj.name for obj in found.objects], found.malformed) == (["e"], 1)
    assert "skipped Pod default/d" in caplog.text


def test_pages_are_put_together_and_an_expired_list_is_begun_again() -> None:
    asked: list[str] = []

    async def pages(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.query.get("continue", "-") + "/" + request.query.get("limit", "-"))
        match request.query.get("continue", ""):
            case "":
                whole = "limit" not in request.query
                names = ("x", "y", "z") if whole else ("x",)
                meta = {"resourceVersion": "1"} if whole else {"continue": "2"}
            case "2":
                names, meta = ("y",), {"continue": "3"}
            case _:
                return web.json_response(status(410, "Expired"), status=410)
        items = [pod(name, 1) for name in names]
        return web.json_response({"metadata": meta, "items": items})

    found, _ = read(prepare=lambda api: _route(api, "pods", pages))
    assert isinstance(found, Snapshot)
    assert [obj.name for obj in found.objects] == ["x", "y", "z"]
    assert asked == ["-/1000", "2/1000", "3/1000", "-/-"]


def test_the_next_page_is_on_its_way_while_one_is_decoded() -> None:
    order: list[str] = []

    class Watched(KubeClient):
        async def page(self, request: Request) -> Page:
            if request.path.endswith("/pods"):
                order.append(f"ask {dict(request.query).get('continue', '0')}")
            return await super().page(request)

    def decoded(obj: ApiObject) -> bool:
        order.append(f"decode {obj.name}")
        return False

    async def pages(request: web.BaseRequest) -> web.StreamResponse:
        token = request.query.get("continue", "")
        meta = {} if token else {"continue": "1"}
        return web.json_response({"metadata": meta, "items": [pod(f"p{token or 0}", 1)]})

    async def scenario() -> None:
        async with FakeApi() as api:
            _route(api, "pods", pages)
            _route(api, "nodes", _list())
            async with Watched(Access(server=api.url), qps=0, env={}) as client:
                await read_cluster(client, (), decoded)

    in_loop(scenario())
    assert order == ["ask 0", "ask 1", "decode p0", "decode p1"]
