"""The API client against a small server: what it sends, when it tries again, what it says."""

import asyncio
import re

import pytest
from aiohttp import web

from kube.fake_api import FakeApi, JumpingTimer, failure, run
from moorage.errors import ApiError, UnreachableError
from moorage.kube import requests
from moorage.kube.access import Access
from moorage.kube.client import KubeClient, user_agent
from moorage.kube.request_limits import TokenBucket
from moorage.kube.requests import Request
from moorage.kube.resources import RESOURCES
from moorage.version import KUBERNETES_VERSION

POD = RESOURCES["Pod"]


async def _fine(_: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "Status", "status": "Success"})


def _client(api: FakeApi, timer: JumpingTimer | None = None, **more: float) -> KubeClient:
    return KubeClient(
        Access(server=api.url, source="test.kubeconfig"),
        timer=timer or JumpingTimer(),
        qps=more.get("qps", 0),
        burst=int(more.get("burst", 100)),
        timeout=more.get("timeout", 10.0),
        agent=user_agent("scheduler"),
        env={},
    )


def test_binding() -> None:
    async def scenario() -> None:
        async with FakeApi() as api, _client(api) as client:
            api.routes["POST /api/v1/namespaces/default/pods/web/binding"] = _fine
            await client.send(requests.bind("default", "web", "u1", "node-1"))
            assert api.bodies == [
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"namespace": "default", "name": "web", "uid": "u1"},
                    "target": {"kind": "Node", "name": "node-1"},
                }
            ]
            headers = api.headers[0]
            assert headers["Content-Type"] == "application/json"
            assert headers["Accept-Encoding"] == "identity"
            agent = rf"moorage/\S+ \(linux/\w+\) kubernetes/{KUBERNETES_VERSION}/scheduler"
            assert re.fullmatch(agent, headers["User-Agent"])

    run(scenario())


def test_nothing_is_written_when_it_is_anothers_turn() -> None:
    async def scenario() -> None:
        turns = [True, False]
        async with FakeApi() as api:
            api.routes["POST /api/v1/namespaces/default/pods/web/binding"] = _fine
            api.routes["GET /api/v1/namespaces/default/pods/web"] = _fine
            access = Access(server=api.url, source="test.kubeconfig")
            async with KubeClient(access, may_write=lambda: turns.pop(0), env={}) as client:
                await client.send(requests.bind("default", "web", "u1", "node-1"))
                with pytest.raises(ApiError, match="it is another's turn to write"):
                    await client.send(requests.bind("default", "web", "u1", "node-1"))
                await client.get(POD, "default", "web")
            assert [request.split()[0] for request in api.requests] == ["POST", "GET"]

    run(scenario())


def test_requests_as_values() -> None:
    status_patch = requests.patch(POD, "ns", "web", {"status": {}}, subresource="status")
    assert str(status_patch) == "PATCH /api/v1/namespaces/ns/pods/web/status"
    assert status_patch.content_type == "application/strategic-merge-patch+json"
    deletion = requests.delete(POD, "ns", "web", uid="u", grace_seconds=0)
    assert deletion.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
    }
    assert requests.delete(POD, "ns", "web").body is None
    lease = RESOURCES["Lease"].item("kube-system", "kube-scheduler")
    assert lease == ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
    review = requests.token_review("secret")
    assert review.path == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert review.body["spec"] == {"token": "secret"}
    access = requests.subject_access_review({"user": "jane"})
    assert access.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert POD.item("ns", "we/ird").endswith("/pods/we%2Fird")


@pytest.mark.parametrize("code", [429, 503, 500])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_waits_as_long_as_it_is_told(code: int, method: str) -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with FakeApi() as api, _client(api, timer) as client:

            async def busy(_: web.BaseRequest) -> web.StreamResponse:
                return failure(code, "Busy", {"Retry-After": "7"})

            api.faults.extend([busy, busy, _fine])
            await client.send(Request(method, "/x"))
            assert timer.waits == [7.0, 7.0]
            assert len(api.requests) == 3

    run(scenario())


@pytest.mark.parametrize("nonsense", ["\xb2", "9" * 400, "-1", "soon"])
def test_a_wait_that_means_nothing_is_not_waited_for(nonsense: str) -> None:
    async def busy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 503 Busy\r\nRetry-After: {nonsense}\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode("latin-1"))
        writer.close()

    async def scenario() -> None:
        timer = JumpingTimer()
        server = await asyncio.start_server(busy, "127.0.0.1", 0)
        access = Access(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with server, KubeClient(access, timer=timer, env={}) as client:
            with pytest.raises(ApiError, match="503 Busy"):
                await client.send(Request("GET", "/x"))
        assert timer.waits == []

    run(scenario())


@pytest.mark.parametrize("last", [429, 401])
def test_gives_up_after_ten_retries(last: int) -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with FakeApi() as api, _client(api, timer) as client:

            async def busy(_: web.BaseRequest) -> web.StreamResponse:
                return failure(429, "TooManyRequests", {"Retry-After": "1"})

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(last, "Whatever", {"Retry-After": "1"})

            api.faults.extend([busy] * 10 + [refuse] * 5)
            with pytest.raises(ApiError) as caught:
                await client.send(Request("GET", "/x"))
            assert caught.value.status == last
            assert len(api.requests) == 11

    run(scenario())


BINDING = requests.bind("default", "web", "u1", "node-1")
STATUS = requests.patch(POD, "default", "web", {"status": {}}, subresource="status")


@pytest.mark.parametrize(
    ("request_", "code", "again"),
    [
        (BINDING, 500, True),
        (BINDING, 503, True),
        (BINDING, 409, False),
        (BINDING, 404, False),
        (STATUS, 500, True),
        (STATUS, 409, True),
        (STATUS, 404, False),
    ],
)
def test_a_binding_and_a_status_are_written_again_while_that_may_help(
    request_: Request, code: int, again: bool
) -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with FakeApi() as api, _client(api, timer) as client:

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(code, "Reason")

            api.faults.extend([refuse] * 4)
            with pytest.raises(ApiError):
                await client.persist(request_)
            assert timer.waits == ([0.01, 0.05, 0.25] if again else [])
            if again:
                api.faults.extend([refuse, _fine])
                await client.persist(request_)

    run(scenario())


@pytest.mark.parametrize(("request_", "again"), [(BINDING, False), (STATUS, True)])
def test_a_binding_that_may_have_been_made_is_not_made_again(
    request_: Request, again: bool
) -> None:
    async def scenario() -> None:
        async with FakeApi() as api, _client(api) as client:
            asked = []

            async def hang_up(request: web.BaseRequest) -> web.StreamResponse:
                asked.append(request.path)
                assert request.transport is not None
                request.transport.close()
                return web.Response()

            api.faults.extend([hang_up] * 4)
            with pytest.raises(UnreachableError):
                await client.persist(request_)
            assert len(asked) == (4 if again else 1)

    run(scenario())


def test_a_binding_that_could_not_be_sent_is_sent_again() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        access = Access(server="http://127.0.0.1:9")
        async with KubeClient(access, timer=timer, env={}) as client:
            with pytest.raises(UnreachableError):
                await client.persist(BINDING)
        assert timer.waits == [0.01, 0.05, 0.25]

    run(scenario())


@pytest.mark.parametrize("code", [400, 403, 404, 409, 422, 500, 503])
def test_other_errors_are_not_retried(code: int) -> None:
    async def scenario() -> None:
        async with FakeApi() as api, _client(api) as client:

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(code, "Reason")

            api.faults.append(refuse)
            with pytest.raises(ApiError) as caught:
                await client.send(Request("GET", "/x"))
            error = caught.value
            assert (error.status, error.reason, error.message) == (code, "Reason", "Reason")
            assert error.is_not_found == (code == 404)
            assert error.is_conflict == (code == 409)
            assert len(api.requests) == 1

    run(scenario())


def test_error_without_a_status_object_names_the_request() -> None:
    async def scenario() -> None:
        async with FakeApi() as api, _client(api) as client:

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return web.Response(status=502, text="<html>")

            api.faults.append(refuse)
            with pytest.raises(ApiError, match=r"^GET /x: the API server answered 502"):
                await client.send(Request("GET", "/x"))

    run(scenario())


async def _hang_up(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def test_broken_connections_are_retried_only_where_that_is_safe() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with FakeApi() as api, _client(api, timer) as client:
            api.faults.extend([_hang_up] * 3)
            api.routes["GET /x"] = _fine
            await client.send(Request("GET", "/x"))
            assert timer.waits
            assert set(timer.waits) == {1.0}
            api.faults.clear()
            api.faults.append(_hang_up)
            before = len(api.requests)
            with pytest.raises(UnreachableError) as caught:
                await client.send(Request("POST", "/x", body={}))
            assert caught.value.maybe_applied
            assert len(api.requests) == before + 1

    run(scenario())


def test_who_is_in_a_hurry_gives_up_on_broken_connections_sooner() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with (
            FakeApi() as api,
            KubeClient(Access(server=api.url), timer=timer, reconnects=1, env={}) as client,
        ):
            api.faults.extend([_hang_up] * 5)
            with pytest.raises(UnreachableError):
                await client.send(Request("GET", "/x"))
            assert len(timer.waits) == 1

    run(scenario())


def test_unreachable_server_is_one_sentence() -> None:
    async def scenario() -> None:
        api = FakeApi()
        await api.start()
        await api.stop()
        async with _client(api) as client:
            with pytest.raises(UnreachableError) as caught:
                await client.send(Request("GET", "/x"))
            assert not caught.value.maybe_applied
            assert str(caught.value) == (
                f"the API server {api.url} cannot be reached: connection refused"
            )

    run(scenario())


def test_unknown_host_is_one_sentence() -> None:
    async def scenario() -> None:
        access = Access(server="http://no-such-host.invalid:1")
        async with KubeClient(access, timer=JumpingTimer(), env={}) as client:
            with pytest.raises(UnreachableError, match=r"the host no-such-host.invalid is not"):
                await client.send(Request("GET", "/x"))

    run(scenario())


def test_silent_server_runs_into_the_time_out() -> None:
    async def scenario() -> None:
        release = asyncio.Event()

        async def silent(_: web.BaseRequest) -> web.StreamResponse:
            await release.wait()
            return web.Response()

        async with FakeApi() as api, _client(api, timeout=0.05) as client:
            api.faults.append(silent)
            with pytest.raises(UnreachableError, match="no answer in time"):
                await client.send(Request("POST", "/x"))
            release.set()

    run(scenario())


def test_refused_credentials_are_one_sentence() -> None:
    async def scenario() -> None:
        async with FakeApi() as api, _client(api) as client:

            async def refuse(_: web.BaseRequest) -> web.StreamResponse:
                return failure(401, "Unauthorized")

            api.faults.append(refuse)
            with pytest.raises(ApiError) as caught:
                await client.send(Request("GET", "/x"))
            assert str(caught.value) == (
                f"the API server {api.url} does not accept the credentials of test.kubeconfig:"
                " Unauthorized"
            )

    run(scenario())


def test_lists_in_pages() -> None:
    async def scenario() -> None:
        async with FakeApi() as api, _client(api) as client:
            for number in range(1100):
                api.put(f"p{number:04}")
            listing = await client.list_all(POD, bytes)
            assert len(listing.items) == 1100
            assert listing.resource_version == str(api.version)
            assert len(api.requests) == 3

    run(scenario())


def test_rate_is_kept() -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        async with FakeApi() as api, _client(api, timer, qps=10, burst=5) as client:
            api.routes["GET /x"] = _fine
            for _ in range(15):
                await client.send(Request("GET", "/x"))
            assert sum(timer.waits) == pytest.approx(1.0, abs=0.01)

    run(scenario())


def test_token_bucket_queues_callers_in_order() -> None:
    timer = JumpingTimer(0.0)
    bucket = TokenBucket(10, 2, timer)
    assert [bucket.reserve() for _ in range(5)] == pytest.approx([0, 0, 0.1, 0.2, 0.3])
    timer.time = 100.0
    assert [bucket.reserve() for _ in range(3)] == pytest.approx([0, 0, 0.1])
    assert TokenBucket(-1, 1, timer).reserve() == 0


def test_connections_are_limited() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            running = 0
            most = 0

            async def slow(_: web.BaseRequest) -> web.StreamResponse:
                nonlocal running, most
                running += 1
                most = max(most, running)
                for _turn in range(20):
                    await asyncio.sleep(0)
                running -= 1
                return web.json_response({})

            api.routes["GET /x"] = slow
            access = Access(server=api.url)
            async with KubeClient(access, qps=0, max_connections=3, env={}) as client:
                await asyncio.gather(*(client.send(Request("GET", "/x")) for _ in range(30)))
            assert most <= 3

    run(scenario())


class _Watcher:
    """Remembers what the client was answered, and how much of it there was."""

    def __init__(self, seen: list[tuple[str, int]]) -> None:
        self._seen = seen
        self.finishes: list[tuple[str, int, int]] = []
        self.throttles: list[str] = []

    def answered(self, host: str, method: str, status: int) -> None:
        self._seen.append((method, status))

    def finished(self, host: str, method: str, seconds: float, sent: int, received: int) -> None:
        self.finishes.append((method, sent, received))

    def throttled(self, host: str, method: str, seconds: float) -> None:
        self.throttles.append(method)

    def retried(self, host: str, method: str, status: int) -> None:
        self._seen.append((f"{method} again", status))

    def plugin_ran(self, code: int, status: str) -> None:
        del code, status

    def plugin_certificate(self, begins: float, ends: float) -> None:
        del begins, ends


def test_every_attempt_is_observed() -> None:
    async def scenario() -> None:
        seen: list[tuple[str, int]] = []
        async with FakeApi() as api:
            access = Access(server=api.url)

            watcher = _Watcher(seen)
            async with KubeClient(access, observe=watcher, env={}, timer=JumpingTimer()) as client:
                api.routes["GET /x"] = _fine
                await client.send(Request("GET", "/x"))
                with pytest.raises(ApiError):
                    await client.send(Request("PUT", "/nothing", body={"a": 1}))
            assert seen == [("GET", 200), ("PUT", 404)]
            answer = len(b'{"kind": "Status", "status": "Success"}')
            assert watcher.finishes == [("GET", 0, answer), ("PUT", len(b'{"a":1}'), 0)]
            assert watcher.throttles == ["GET", "PUT"]

    run(scenario())
