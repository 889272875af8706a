"""A cluster is recorded while the live scheduler is at work on it, and replayed."""

import asyncio
import time
from pathlib import Path
from random import Random

from integration.stage import Json, LiveStage, at_work, run_bounded, until
from moorage.apiserver.resources import BY_PLURAL
from moorage.config import load_config
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.resources import RESOURCES
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.recordings.comparison import Agreement, compare
from moorage.recordings.recorder import ClusterRecorder, readable_kinds, record
from moorage.recordings.recording_file import Recording, RecordingWriter
from moorage.simulator.world import World

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PODS = 60
LAST = "last"


class _Watched(ClusterRecorder):
    """Tells when the last pod has got its node."""

    done = False

    def put(self, obj: ApiObject) -> None:
        super().put(obj)
        self.done |= isinstance(obj, Pod) and obj.name == LAST and bool(obj.spec.node_name)


def test_replayed_with_the_same_configuration_every_decision_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "recording.gz"

    async def work() -> None:
        async with at_work(lambda server: LiveStage(server, CONFIG)) as stage:
            for number in range(6):
                await stage.create_node(f"n{number}", cpu=str(3 + number % 3))
            stop, writer = asyncio.Event(), RecordingWriter(path)
            recorder = _Watched(writer, time.time, None)
            async with KubeClient(Access(server=stage.server.url, source="test")) as client:
                kinds, refused = await readable_kinds(client)
                assert refused == {}
                recorder.begin(kinds)
                recording = asyncio.create_task(
                    record(client, recorder, kinds, stop, writer, lambda _: None)
                )
                await until(lambda: recorder.state.complete)
                await _churn(stage)
                await stage.create_pod(LAST, cpu="1m")
                await until(lambda: recorder.done)
                stop.set()
                await recording
            writer.close()

    run_bounded(work)
    found = compare(Recording(path), World(load_config(CONFIG, "test")))
    assert len(found.decisions) >= 20
    assert found.count(Agreement.SAME) == len(found.decisions)
    assert found.unseen == found.foreign == 0


async def _churn(stage: LiveStage) -> None:
    """Unlike pods, some of which go again and some of which fit nowhere."""
    dice = Random(3)
    pods = stage.server.store.collection(BY_PLURAL["", "v1", "pods"].storage)
    for number in range(PODS):
        cpu = dice.choice(["100m", "500m", "1", "2", "9"])
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {},
        }
        more = {"topologySpreadConstraints": [spread]} if dice.random() < 0.3 else {}
        await stage.create_pod(f"p{number}", cpu=cpu, **more)
        # One by one: of what happens at once, no recording tells what the scheduler knew first.
        await until(lambda: all(_is_decided(one.object()) for one in pods.all()))
        if dice.random() < 0.2:
            gone = f"p{dice.randrange(number + 1)}"
            if stage.node_of(gone):
                await stage.client.delete(RESOURCES["Pod"], "default", gone, grace_seconds=0)


def _is_decided(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName") or pod["status"].get("conditions"))
