"""What survives, and what a damaged folder leads to."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apiserver.serving import PODS, TIMEOUT, Client, served
from moorage.apiserver import ApiServer
from moorage.apiserver.journal import Journal
from moorage.apiserver.operations import Operations
from moorage.apiserver.storage import Storage
from moorage.errors import InputError

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
_SERVE = """
import sys
from pathlib import Path
from moorage.apiserver import ApiServerOptions, run_apiserver
options = ApiServerOptions(data=Path(sys.argv[1]))
run_apiserver(options, lambda server: print(server.url, flush=True))
"""


def start(folder: Path) -> tuple["subprocess.Popen[str]", Client]:
    command = [sys.executable, "-c", _SERVE, str(folder)]
    source = str(Path(__file__).parents[2] / "src")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": source}
    )
    assert process.stdout is not None
    return process, Client(process.stdout.readline().strip())


def end(process: "subprocess.Popen[str]", number: int) -> int:
    process.send_signal(number)
    code = process.wait(TIMEOUT)
    assert process.stdout is not None
    process.stdout.close()
    return code


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    process, api = start(tmp_path)
    kept = [api.post(CONFIGMAPS, {"metadata": {"name": f"c{n}"}}).body for n in range(20)]
    api.delete(f"{CONFIGMAPS}/c3")
    version = api.get(CONFIGMAPS).version
    end(process, signal.SIGKILL)
    process, api = start(tmp_path)
    listed = api.get(CONFIGMAPS)
    expected = sorted((obj for n, obj in enumerate(kept) if n != 3), key=_name)
    assert listed.body["items"] == expected
    assert int(listed.version) >= int(version)
    fresh = api.post(CONFIGMAPS, {"metadata": {"name": "fresh"}})
    assert int(fresh.version) > int(version)
    assert end(process, signal.SIGTERM) == 0


def _name(obj: dict[str, dict[str, str]]) -> str:
    return obj["metadata"]["name"]


def test_a_watch_cannot_resume_from_before_the_restart(tmp_path: Path) -> None:
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        version = api.get(CONFIGMAPS).version
        api.post(CONFIGMAPS, {"metadata": {"name": "a"}})
        last = api.get(CONFIGMAPS).version
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        with api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}") as watch:
            assert watch.next()[1]["code"] == 410
        with api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={last}") as watch:
            api.post(CONFIGMAPS, {"metadata": {"name": "b"}})
            assert watch.names(1) == [("ADDED", "b")]


def test_a_torn_last_line_is_dropped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        for name in "ab":
            api.post(CONFIGMAPS, {"metadata": {"name": name}})
        version = int(api.get(CONFIGMAPS).version)
    journal = max(tmp_path.glob("journal-*.log"))
    journal.write_bytes(journal.read_bytes()[:-10])
    with caplog.at_level(logging.WARNING), served(lambda: ApiServer(data=tmp_path)) as (_, api):
        listed = api.get(CONFIGMAPS)
    assert listed.names == ["a"]
    assert "was never acknowledged" in caplog.text
    assert int(listed.version) > version, "a version that was seen must not come again"


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        for name in "abc":
            api.post(CONFIGMAPS, {"metadata": {"name": name}})
    journal = max(tmp_path.glob("journal-*.log"))
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2].replace(b'"', b"'", 1)
    journal.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=r"journal-\d+\.log:\d+ is damaged"):
        Journal(tmp_path).load(Storage())


def test_one_folder_serves_one_server(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.load(Storage())
    with pytest.raises(InputError, match="in use by another server"):
        Journal(tmp_path).load(Storage())


def test_a_long_journal_is_replaced_by_a_snapshot(tmp_path: Path) -> None:
    def make() -> ApiServer:
        server = ApiServer(data=tmp_path)
        server._journal = Journal(tmp_path, max_bytes=20_000)
        return server

    with served(make) as (_, api):
        for number in range(100):
            api.post(CONFIGMAPS, {"metadata": {"name": f"c{number:03}"}, "data": {"x": "y" * 500}})
            api.delete(f"{CONFIGMAPS}/c{number:03}") if number % 2 else None
    sizes = [path.stat().st_size for path in tmp_path.glob("*.log")]
    assert len(sizes) <= 4, "old files go"
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        assert len(api.get(CONFIGMAPS).names) == 50


def test_owners_and_secured_servers_survive_too(tmp_path: Path) -> None:
    with served(lambda: ApiServer(data=tmp_path), tls=True) as (serving, _):
        authority = serving.server.kubeconfig()["clusters"][0]["cluster"]
        operations = serving.server.operations
        serving.call(lambda: _owner_and_owned(operations))
    with served(lambda: ApiServer(data=tmp_path), tls=True) as (serving, _):
        again = serving.server.kubeconfig()["clusters"][0]["cluster"]
        key = "certificate-authority-data"
        assert again[key] == authority[key], "clients go on trusting the server"
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        api.delete(f"{CONFIGMAPS}/owner")
        assert api.get(CONFIGMAPS).names == []


def _owner_and_owned(operations: Operations) -> None:
    from moorage.apiserver.resources import BY_PLURAL

    configmaps = BY_PLURAL["", "v1", "configmaps"]
    owner = operations.create(configmaps, "default", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    operations.create(configmaps, "default", owned)


def test_pods_keep_their_place(tmp_path: Path) -> None:
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        api.create_pod("a")
        api.bind("a")
    with served(lambda: ApiServer(data=tmp_path)) as (_, api):
        assert api.get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1").names == ["a"]
        assert api.bind("a").code == 409


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_only_the_owner_reads_what_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    mask = os.umask(0)
    try:
        with served(lambda: ApiServer(data=folder), tls=True):
            found = modes(folder)
    finally:
        os.umask(mask)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {"lock", "tls.key", "tls.crt"} < set(found)
    assert set(found.values()) == {0o600}, found


def test_files_that_everybody_could_read_are_tightened(tmp_path: Path) -> None:
    with served(lambda: ApiServer(data=tmp_path)):
        pass
    left_by_a_crash = tmp_path / "snapshot-00000003.tmp"
    left_by_a_crash.write_text("half")
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    store = Storage()
    Journal(tmp_path).load(store)
    assert set(modes(tmp_path).values()) == {0o600}
    assert store.namespaces.get("", "default") is not None


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.log")}


def some_objects(folder: Path) -> None:
    """A snapshot with objects in it, and a journal."""
    for _ in range(2):
        with served(lambda: ApiServer(data=folder)):
            pass


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        pytest.param(lambda data: b"", "is empty or cut off", id="empty"),
        pytest.param(lambda data: data[:-10], "is damaged", id="torn in the last line"),
        pytest.param(
            lambda data: b"".join(data.splitlines(keepends=True)[:-1]),
            r"is cut off: it has \d+ objects of \d+",
            id="without the last line",
        ),
        pytest.param(
            lambda data: b"".join(data.splitlines(keepends=True)[1:]),
            "is empty or cut off",
            id="without the first line",
        ),
        pytest.param(lambda data: b"\0" * len(data), "is damaged", id="zeros"),
    ],
)
def test_a_damaged_snapshot_is_refused_and_stays(
    tmp_path: Path, damage: Callable[[bytes], bytes], complaint: str
) -> None:
    some_objects(tmp_path)
    (snapshot,) = tmp_path.glob("snapshot-*.log")
    snapshot.write_bytes(damage(snapshot.read_bytes()))
    before = content(tmp_path)
    with pytest.raises(InputError, match=complaint) as error:
        Journal(tmp_path).load(Storage())
    assert str(snapshot) in str(error.value)
    assert "\n" not in str(error.value)
    assert content(tmp_path) == before


def test_a_missing_snapshot_or_journal_is_refused(tmp_path: Path) -> None:
    some_objects(tmp_path)
    (snapshot,) = tmp_path.glob("snapshot-*.log")
    (journal,) = tmp_path.glob("journal-*.log")
    kept = snapshot.read_bytes()
    snapshot.unlink()
    with pytest.raises(InputError, match="has journals but no snapshot"):
        Journal(tmp_path).load(Storage())
    snapshot.write_bytes(kept)
    journal.rename(journal.with_name("journal-00000009.log"))
    with pytest.raises(InputError, match=f"{journal.name} is missing"):
        Journal(tmp_path).load(Storage())


def test_a_snapshot_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_objects(tmp_path)
    before = content(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("moorage.apiserver.journal.os.fsync", full)
        server = ApiServer(data=tmp_path)
        with pytest.raises(InputError, match=f"{tmp_path} cannot be used: No space left"):
            asyncio.run(server.start())
    assert content(tmp_path) == before
    assert not list(tmp_path.glob("*.tmp"))
