"""A reflector that is sent anything but HTTP, or anything but events, and must come round."""

import asyncio
import json
from random import Random

from fuzz.corpus import golden_objects
from fuzz.mutations import mutate_bytes
from fuzz.raw_api import RawApi, chunk, event
from fuzz.target import Target
from fuzz.targets.engine import good_pod
from fuzz.targets.wire import ANSWERS, mutate_answer
from kube.fake_api import JumpingTimer, Recorder
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.reflector import Reflector
from moorage.kube.resources import RESOURCES
from moorage.kube.store import Store

_SECONDS = 15.0
_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Watch(Target):
    """`kube.connections`, `kube.client` and `kube.reflector` over a socket."""

    name = "watch"

    def __init__(self) -> None:
        self._objects: list[bytes] = []

    def prepare(self, random: Random) -> None:
        """Pods."""
        pods = [obj for obj in golden_objects(random) if obj.get("kind") == "Pod"]
        self._objects = [json.dumps(pod).encode() for pod in pods]

    def make(self, random: Random) -> bytes:
        """An answer to the first request: a watch that goes wrong, or something else."""
        if random.random() < 0.3:
            return mutate_answer(random.choice(ANSWERS), random)
        lines = [
            event(random.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")), obj)
            for obj in random.choices(self._objects, k=random.randrange(1, 4))
        ]
        if random.random() < 0.7:
            lines = [mutate_bytes(line, random) for line in lines]
        data = _HEAD + b"".join(map(chunk, lines)) + b"0\r\n\r\n"
        return data if random.random() < 0.5 else mutate_answer(data, random)

    def check(self, data: bytes) -> None:
        """After the hostile answer comes a good one, and the good pod is known."""
        asyncio.run(self._run(data))

    async def _run(self, data: bytes) -> None:
        api = RawApi()
        api.answers = [data]
        api.initial = {"Pod": [json.dumps(good_pod("good")).encode()]}
        await api.start()
        timer, recorder = JumpingTimer(), Recorder()
        client = KubeClient(Access(server=api.url), timer=timer, qps=0)
        store = Store([recorder])
        reflector = Reflector(client, RESOURCES["Pod"], store, timer=timer, random=Random(1))
        following = asyncio.create_task(reflector.run())
        known = asyncio.create_task(_known(recorder))
        try:
            async with asyncio.timeout(_SECONDS):
                await asyncio.wait({following, known}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            following.cancel()
            known.cancel()
            await asyncio.gather(following, known, return_exceptions=True)
            await client.close()
            await api.stop()


async def _known(recorder: Recorder) -> None:
    while "good/good" not in recorder.objects:
        await asyncio.sleep(0)


TARGET = Watch
