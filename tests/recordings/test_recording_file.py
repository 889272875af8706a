"""Recordings as files: what is in them, what a kill leaves, and what is said of bad ones."""

import contextlib
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from moorage.config import default_config
from moorage.errors import InputError
from moorage.model.decode import KINDS, decode_json
from moorage.model.pod import Pod
from moorage.recordings.anonymous import Anonymizer, anonymizer_beside
from moorage.recordings.comparison import Agreement, compare
from moorage.recordings.recorder import ClusterRecorder
from moorage.recordings.recording_file import Recording, RecordingWriter
from moorage.recordings.reduced import reduced
from moorage.simulator.world import World
from moorage.testing import make_node, make_pod

Json = dict[str, Any]

POD: Json = {
    "metadata": {
        "name": "ship",
        "namespace": "fleet",
        "uid": "1",
        "labels": {"app": "web", "rank": "7"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
            "volume.kubernetes.io/selected-node": "quay-1",
        },
    },
    "spec": {
        "schedulerName": "default-scheduler",
        "nodeName": "quay-1",
        "containers": [
            {
                "name": "c",
                "image": "registry.example/team/web:1.2",
                "command": ["run", "--token=hunter2"],
                "env": [{"name": "PASSWORD", "value": "hunter2"}],
                "resources": {"requests": {"cpu": "1", "example.com/dongle": "2"}},
            }
        ],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "app", "operator": "In", "values": ["web", "db"]}
                            ]
                        },
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "zone", "labelSelector": {}, "whenUnsatisfiable": "x"}
        ],
    },
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "hunter2"}]},
}


def pod() -> Pod:
    return decode_json(Pod, json.dumps(POD).encode())


def test_what_is_recorded_reads_back_as_the_scheduler_had_it() -> None:
    found = reduced(pod())
    assert "hunter2" not in json.dumps(found)
    again = decode_json(Pod, json.dumps(found).encode())
    assert again.spec == pod().spec
    assert again.metadata.labels == POD["metadata"]["labels"]
    assert again.metadata.annotations == {"volume.kubernetes.io/selected-node": "quay-1"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_object_with_nothing_but_a_name_stays_as_it_is(kind: str) -> None:
    struct = KINDS[kind].struct
    bare = decode_json(struct, b'{"metadata": {"name": "one"}}')
    assert decode_json(struct, json.dumps(reduced(bare)).encode()) == bare


def test_names_are_replaced_everywhere_alike() -> None:
    found = Anonymizer(b"key").record(reduced(pod()))
    text = json.dumps(found)
    for name in ("ship", "fleet", "web", "quay", "team", "registry.example"):
        assert f'"{name}' not in text
    again = decode_json(Pod, text.encode())
    term = again.spec.affinity.pod_affinity.required[0]  # type: ignore[union-attr]
    assert again.labels["app"] in term.label_selector.match_expressions[0].values  # type: ignore[union-attr]
    assert again.labels["rank"] == "7", "numbers may be compared by size"
    assert again.metadata.annotations == {
        "volume.kubernetes.io/selected-node": again.spec.node_name
    }
    assert again.spec.containers[0].image.count("/") == 2
    assert again.requests == pod().requests
    assert again.spec.scheduler_name == "default-scheduler"
    assert Anonymizer(b"other").record(reduced(pod())) != found


def test_the_key_of_names_is_kept_beside_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.gz"
    assert anonymizer_beside(path).name("ship") == anonymizer_beside(path).name("ship")
    (tmp_path / "r.gz.key").write_text("no key")
    with pytest.raises(InputError, match=r"r\.gz\.key: expected the key of a recording"):
        anonymizer_beside(path)


def begin(path: Path, at: float = 0.0) -> tuple[ClusterRecorder, RecordingWriter]:
    writer = RecordingWriter(path)
    recorder = ClusterRecorder(writer, lambda: at, None)
    recorder.begin(["Node", "Pod"])
    return recorder, writer


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_a_recording_goes_on_after_a_kill_with_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "r.gz"
    node, stays, goes = make_node("n"), make_pod("stays"), make_pod("goes")
    recorder, writer = begin(path)
    for obj in (node, stays, goes):
        recorder.put(obj)
    recorder.complete()
    writer.close()
    whole = path.read_bytes()
    path.write_bytes(whole + gzip.compress(b'{"at":9,"complete":true}\n')[:-5])  # torn

    recorder, writer = begin(path, 5.0)
    new = make_pod("new")
    for obj in (node, stays, new):
        recorder.put(obj)
    recorder.synced("Pod", [stays, new])
    recorder.complete()
    writer.close()
    after = lines(path)[5:]
    assert path.read_bytes().startswith(whole)
    assert [sorted(set(one) - {"at"}) for one in after] == [
        ["resumed"],
        ["object"],
        ["deleted"],
        ["complete"],
    ]
    assert after[1]["object"]["metadata"]["name"] == "new"
    assert after[2]["deleted"]["name"] == "goes"


def test_only_one_writes(tmp_path: Path) -> None:
    _, writer = begin(tmp_path / "r.gz")
    with (
        contextlib.closing(writer),
        pytest.raises(InputError, match="another `moorage record` writes this file"),
    ):
        RecordingWriter(tmp_path / "r.gz")


HEAD = '{"apiVersion": "moorage.io/recording-v1", "kind": "Recording", "at": 0}\n'


def packed(text: str) -> bytes:
    """The same bytes whenever it is called: tests have the names of their bytes."""
    return gzip.compress(text.encode(), mtime=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected a recording, which `moorage record` writes"),
        (b"kind: Scenario\n", "expected gzip, from byte 0 on"),
        (packed("{}\n"), "record 1: expected the head of a recording"),
        (packed(HEAD.replace("v1", "v9")), "record 1: expected moorage.io/record"),
        (packed(HEAD) + b"\0" * 99, "expected gzip, from byte"),
        (packed(HEAD + "[1]\n"), "record 2: expected a record"),
        (packed(HEAD + '{"at": 1}\n'), "record 2: expected one of object, del"),
        (
            packed(HEAD + '{"at": 1, "object": {"kind": "Ship"}}\n'),
            "record 2: object.kind: expected a kind of the API, got 'Ship'",
        ),
        (
            packed(HEAD + '{"at": 1, "object": {"kind": "Pod", "spec": 3}}\n'),
            "record 2: Pod: spec must be a mapping, not the number 3",
        ),
    ],
)
def test_a_bad_recording_is_one_sentence(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gz"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        compare(Recording(path), World(default_config()))
    assert str(raised.value).startswith(f"{path}: ")
    assert said in str(raised.value)


def test_what_is_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.gz"
    first = gzip.compress(HEAD.encode())
    path.write_bytes(first + gzip.compress(b'{"at":1,"complete":true}\n' * 9)[:-9])
    recording = Recording(path)
    assert list(recording) == []
    assert (recording.is_cut_off, recording.whole_bytes) == (True, len(first))


# What is compared.


def recorded(tmp_path: Path, *records: Json) -> Recording:
    path = tmp_path / "made.gz"
    text = HEAD + "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(zlib.compress(text.encode(), wbits=31))
    return Recording(path)


def put(at: float, obj: Any) -> Json:
    return {"at": at, "object": reduced(obj)}


def agreements(recording: Recording) -> list[tuple[str, Agreement, str, str]]:
    found = compare(recording, World(default_config())).decisions
    return [(one.pod, one.agreement, one.plugin, one.moment) for one in found]


COMPLETE: Json = {"at": 1, "complete": True}
NODES = [put(0, make_node(name, cpu=cpu)) for name, cpu in (("a", "4"), ("b", "8"))]


def test_each_decision_is_the_same_a_tie_or_different(tmp_path: Path) -> None:
    ship, boat = make_pod("ship", cpu="1"), make_pod("boat", cpu="6")
    recording = recorded(
        tmp_path,
        *NODES,
        COMPLETE,
        put(2, ship),
        put(3, ship.on_node("b")),
        put(4, boat),
        put(5, boat.on_node("a")),
    )
    assert agreements(recording) == [
        ("default/ship", Agreement.SAME, "", ""),
        ("default/boat", Agreement.DIFFERENT, "NodeResourcesFit", ""),
    ]


def test_equal_nodes_are_a_tie(tmp_path: Path) -> None:
    twins = [put(0, make_node(name, cpu="4")) for name in "ab"]
    ship = make_pod("ship", cpu="1")
    recording = recorded(tmp_path, *twins, COMPLETE, put(2, ship), put(3, ship.on_node("b")))
    assert agreements(recording) == [("default/ship", Agreement.TIE, "", "")]


def test_scores_make_a_difference_and_who_made_it_is_named(tmp_path: Path) -> None:
    ship = make_pod("ship", cpu="1")
    recording = recorded(tmp_path, *NODES, COMPLETE, put(2, ship), put(3, ship.on_node("a")))
    assert agreements(recording) == [("default/ship", Agreement.DIFFERENT, "NodeResourcesFit", "")]


def test_bindings_that_overtook_each_other_are_put_in_order(tmp_path: Path) -> None:
    first = make_pod("first", cpu="6")
    second = make_pod("second", cpu="3")
    recording = recorded(
        tmp_path,
        *NODES,
        COMPLETE,
        put(2, first),
        put(2, second),
        put(3, second.on_node("a")),  # as b is taken: by a binding that is seen later
        put(3.01, first.on_node("b")),
    )
    assert agreements(recording) == [
        ("default/second", Agreement.SAME, "", "another order of bindings on their way"),
        ("default/first", Agreement.SAME, "", ""),
    ]


def test_a_pod_that_was_deleted_on_its_way_explains_its_neighbours(tmp_path: Path) -> None:
    lost, ship = make_pod("lost", cpu="6"), make_pod("ship", cpu="3")
    recording = recorded(
        tmp_path,
        *NODES,
        COMPLETE,
        put(2, lost),  # takes b
        put(2, ship),
        put(3, ship.on_node("a")),
        {"at": 3.1, "deleted": {"kind": "Pod", "name": "lost", "namespace": "default"}},
    )
    assert agreements(recording) == [
        ("default/ship", Agreement.SAME, "", "1 pods on their way that were deleted")
    ]


def test_pods_that_wait_in_the_end_are_counted(tmp_path: Path) -> None:
    ship, large = make_pod("ship", cpu="1"), make_pod("large", cpu="9")
    found = compare(
        recorded(tmp_path, *NODES, COMPLETE, put(2, ship), put(2, large)),
        World(default_config()),
    )
    assert (found.decisions, found.waiting, found.fitting) == ([], 1, 1)
