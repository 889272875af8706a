"""Several kinds followed together: started on demand, awaited, stopped."""

import asyncio

import pytest
from aiohttp import web

from kube.fake_api import FakeApi, JumpingTimer, Recorder, failure, run
from moorage.errors import ApiError, CorruptStateError, InputError
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.informers import Informers
from moorage.kube.resources import RESOURCES, resource_for
from moorage.kube.store import Handler
from moorage.model.custom import CustomObject
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject


def test_every_kind_of_the_model_has_a_path() -> None:
    paths = {kind: resource_for(kind).collection() for kind in KINDS}
    assert paths["Pod"] == "/api/v1/pods"
    assert paths["CSIStorageCapacity"] == "/apis/storage.k8s.io/v1/csistoragecapacities"
    assert paths["StorageClass"] == "/apis/storage.k8s.io/v1/storageclasses"
    assert paths["PodDisruptionBudget"] == "/apis/policy/v1/poddisruptionbudgets"
    assert paths["DeviceClass"] == "/apis/resource.k8s.io/v1/deviceclasses"
    assert paths["PodGroup"] == "/apis/scheduling.k8s.io/v1beta1/podgroups"
    assert RESOURCES["Pod"].item("ns", "a", "status") == "/api/v1/namespaces/ns/pods/a/status"


def test_custom_resources_by_name() -> None:
    assert resource_for("foos.v1.example.com").collection() == "/apis/example.com/v1/foos"
    assert resource_for("foos.v1beta1.a.b.c").group == "a.b.c"
    for bad in ("foos", "foos.v1", "Foo.v1.example.com", "foos.example.com"):
        with pytest.raises(InputError):
            resource_for(bad)


def _following(api: FakeApi, *kinds: str) -> tuple[KubeClient, Informers]:
    timer = JumpingTimer()
    client = KubeClient(Access(server=api.url), timer=timer, qps=0, env={})
    return client, Informers(client, kinds, timer=timer, streaming=False)


async def _foos(request: web.BaseRequest) -> web.StreamResponse:
    if request.query.get("watch"):
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response
    foo = {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": {"name": "f", "namespace": "x", "uid": "u", "resourceVersion": "3"},
        "spec": {"size": 4},
    }
    return web.json_response({"metadata": {"resourceVersion": "5"}, "items": [foo]})


def test_only_what_was_asked_for_is_followed() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            api.routes["GET /apis/example.com/v1/foos"] = _foos
            client, informers = _following(api, "Pod", "foos.v1.example.com", "Pod")
            recorder = Recorder()
            informers.add_handler("foos.v1.example.com", recorder)
            assert not informers.has_synced
            informers.start()
            await informers.wait_for_sync(10)
            assert informers.has_synced
            (foo,) = informers.stores["foos.v1.example.com"].objects.values()
            assert isinstance(foo, CustomObject)
            assert (foo.kind, foo.key, foo.content["spec"]) == ("Foo", "x/f", {"size": 4})
            assert recorder.synced == 1
            late = Recorder()
            informers.add_handler("Pod", late)
            assert late.synced == 1
            assert [event[:2] for event in late.events] == [("add", "a")]
            await informers.stop()
            await client.close()
            paths = {request.split("?")[0] for request in api.requests}
            assert paths == {"GET /api/v1/pods", "GET /apis/example.com/v1/foos"}

    run(scenario())


def test_time_out_says_what_is_missing_and_why() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:

            async def forbid(_: web.BaseRequest) -> web.StreamResponse:
                return failure(403, "Forbidden")

            api.routes["GET /api/v1/nodes"] = forbid
            client, informers = _following(api, "Pod", "Node")
            informers.start()
            with pytest.raises(ApiError) as caught:
                await informers.wait_for_sync(0.2)
            assert str(caught.value) == "no full list of Node within 0.2 s: Forbidden"
            assert informers.waiting_for == {"Node": "Forbidden"}
            await informers.stop()
            await client.close()

    run(scenario())


def test_an_object_that_a_handler_fails_on_is_skipped_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Faulty(Handler):
        def __init__(self) -> None:
            self.added: list[str] = []

        def on_add(self, obj: ApiObject, /) -> None:
            if obj.name == "b":
                raise ZeroDivisionError("no such number")
            self.added.append(obj.name)

    async def scenario() -> None:
        async with FakeApi() as api:
            for name in "abc":
                api.put(name)
            client, informers = _following(api, "Pod")
            faulty = Faulty()
            informers.add_handler("Pod", faulty)
            informers.start()
            await informers.wait_for_sync(10)
            assert sorted(faulty.added) == ["a", "c"]
            [(followed, version)] = informers.followed().items()
            assert followed == ("", "v1", "Pod")
            assert int(version) > 0
            assert sum(informers.skipped_by_kind().values()) == 1
            assert sorted(informers.stores["Pod"].objects) == ["default/a", "default/c"]
            await informers.stop()
            await client.close()

    run(scenario())
    assert "skipped Pod default/b: ZeroDivisionError: no such number" in caplog.text


def test_a_state_that_contradicts_itself_is_not_hidden(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Handler):
        def on_add(self, obj: ApiObject, /) -> None:
            raise CorruptStateError("nothing is right any more")

    async def scenario() -> None:
        async with FakeApi() as api:
            api.put("a")
            client, informers = _following(api, "Pod")
            informers.add_handler("Pod", Faulty())
            informers.start()
            with pytest.raises(CorruptStateError):
                await informers.wait_for_sync(10)
            await informers.stop()
            await client.close()

    run(scenario())
    assert "reflector of Pod stopped" in caplog.text
