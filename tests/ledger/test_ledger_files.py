"""Ledgers on disk: rotation, damage, other versions, and what is no ledger at all."""

import errno
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ledger.made import Maker, written
from moorage.errors import InputError
from moorage.ledger import Ledger, open_ledger
from moorage.ledger.files import MAGIC

HEADER = 16
NOBODY = 65534


def numbers(path: Path) -> list[int]:
    return [one.number for one in reversed(open_ledger(path).summaries(limit=100_000))]


def test_a_file_or_its_directory_reads_the_same(tmp_path: Path) -> None:
    written(tmp_path, 5, 2)
    [path] = tmp_path.iterdir()
    assert numbers(path) == numbers(tmp_path) == list(range(1, 11))
    assert not open_ledger(path).problems
    assert path.stat().st_mode & 0o777 == 0o600


def test_files_are_rotated_and_the_oldest_removed(tmp_path: Path) -> None:
    ledger = Ledger(2**24, tmp_path, file_bytes=10_000, kept_files=3)
    Maker(ledger).make(80, flush=True)
    ledger.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(path.stat().st_size < 12_000 for path in files)
    read = numbers(tmp_path)
    assert read == list(range(read[0], 81))
    assert 1 < read[0] < 75
    for path in files:
        reader = open_ledger(path)
        for number in numbers(path):
            assert reader.explain(number, matrix=(0, 3)).matrix is not None, "needs no other file"


def test_numbers_go_on_where_the_last_process_stopped(tmp_path: Path) -> None:
    written(tmp_path, 5)
    ledger = Ledger(2**24, tmp_path)
    Maker(ledger).make(2)
    ledger.close()
    assert numbers(tmp_path) == list(range(1, 8))
    assert len(list(tmp_path.iterdir())) == 2


def test_files_that_cannot_be_read_do_not_push_out_the_one_being_written(tmp_path: Path) -> None:
    for number in range(1000, 9000, 1000):
        path = tmp_path / f"decisions-{number:012}.ledger"
        path.write_bytes(MAGIC + struct.pack("<II", 9, 0))
    ledger = Ledger(2**24, tmp_path)
    Maker(ledger).make(3, flush=True)
    ledger.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == 8
    assert (files[0], files[-1]) == (
        "decisions-000000002000.ledger",
        "decisions-000000008001.ledger",
    )
    assert numbers(tmp_path) == [8001, 8002, 8003]


def test_the_file_being_written_stays_whatever_the_names_of_the_others(tmp_path: Path) -> None:
    ledger = Ledger(2**24, tmp_path, kept_files=2)
    for number in (900, 901, 902):
        (tmp_path / f"decisions-{number:012}.ledger").write_bytes(b"of somebody else")
    Maker(ledger).make(2, flush=True)
    ledger.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "decisions-000000000001.ledger",
        "decisions-000000000902.ledger",
    ]
    assert numbers(tmp_path) == [1, 2]


def test_a_directory_in_use_is_refused_in_one_sentence_and_can_be_read(tmp_path: Path) -> None:
    first = Ledger(2**24, tmp_path, file_bytes=9000)
    Maker(first).make(20, flush=True)  # several files: the lock is not theirs
    with pytest.raises(InputError) as refused:
        Ledger(2**24, tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}: the ledger cannot be kept here: "
        "another scheduler keeps its ledger in this directory."
    )
    assert numbers(tmp_path)[-1] == 20, "readers need no lock"
    first.close()
    second = Ledger(2**24, tmp_path)
    Maker(second).make(1)
    second.close()
    assert numbers(tmp_path)[-1] == 21


def test_a_process_that_died_leaves_its_directory_to_the_next(tmp_path: Path) -> None:
    script = (
        "from moorage.ledger import Ledger\n"
        f"ledger = Ledger(2**24, {str(tmp_path)!r})\n"
        "print('ready', flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(InputError, match="another scheduler"):
            Ledger(2**24, tmp_path)
        other.kill()
    Ledger(2**24, tmp_path).close()


def test_two_ledgers_in_one_directory_are_listed_and_not_taken_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    # The files of two may still come together: by hand, or on a file system without locks.
    monkeypatch.setattr("moorage.ledger.files.fcntl.flock", no_locks)
    first, second = Ledger(2**24, tmp_path), Ledger(2**24, tmp_path)
    makers = Maker(first), Maker(second)
    makers[1].made = 100
    for maker, count in zip(makers, (3, 6), strict=True):
        maker.make(count)
        maker.ledger.close()
    reader = open_ledger(tmp_path)
    told = {(one.number, one.pod) for one in reader.summaries()}
    assert told == {(one.number, one.pod) for made in (first, second) for one in made.summaries()}
    assert reader.latest_about("default/pod-2") == 2
    assert reader.latest_about("default/pod-106") == 6
    assert reader.explain(6).decision.pod == "default/pod-106", "only one has so many"
    names = [str(tmp_path / f"decisions-000000000001{extra}.ledger") for extra in ("-1", "")]
    with pytest.raises(InputError) as refused:
        reader.explain(2)
    assert str(refused.value) == (
        f"There are 2 decisions 2, in {names[0]} and in {names[1]}: "
        "more than one scheduler wrote here, so ask one of the files."
    )
    assert [open_ledger(name).explain(2).decision.pod for name in names] == [
        "default/pod-102",
        "default/pod-2",
    ]
    with pytest.raises(InputError, match=r"There is no decision 7: the ledger holds 1 to 6\."):
        reader.explain(7)


def test_a_file_cut_off_anywhere_gives_what_is_whole_and_one_sentence(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 2, 3)
    path = tmp_path / "cut.ledger"
    whole = [explained(tmp_path / "whole", number) for number in range(1, 7)]
    seen, ends = set(), {HEADER, *(end for _, end in records(data))}
    for size in every_fifth_byte(len(data)):
        path.write_bytes(data[:size])
        reader = open_ledger(path)
        for number in range(1, len(reader) + 1) if len(reader) not in seen else ():
            assert reader.explain(number, matrix=(0, 3)) == whole[number - 1]
        seen.add(len(reader))
        if reader.problems:
            [sentence] = reader.problems
            assert sentence.startswith(f"{path} is cut off or damaged at byte ")
            assert sentence.endswith(".")
            assert "\n" not in sentence
        else:
            assert size in ends, "only a file that ends with a record looks whole"
    assert seen == {0, 2, 4}


def every_fifth_byte(size: int) -> list[int]:
    """All places near the beginning and the end, and every fifth in between."""
    return sorted({*range(0, size, 5), *range(min(64, size)), *range(max(0, size - 32), size)})


def explained(path: Path, number: int) -> object:
    return open_ledger(path).explain(number, matrix=(0, 3))


@pytest.mark.parametrize("at", [0.6, 0.8, 0.95])
def test_a_damaged_byte_costs_what_follows_but_not_what_precedes(tmp_path: Path, at: float) -> None:
    data = bytearray(written(tmp_path / "whole", 3, 6))
    place = int(len(data) * at)
    data[place] ^= 0xFF
    path = tmp_path / "damaged.ledger"
    path.write_bytes(data)
    reader = open_ledger(path)
    assert 0 < len(reader) < 18
    [sentence] = reader.problems
    assert f"; the decisions up to {len(reader)} can be read." in sentence
    assert reader.explain(len(reader), matrix=(0, 3)).matrix is not None


def test_every_damaged_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 2, 1)
    path = tmp_path / "damaged.ledger"
    for place in range(16, len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        reader = open_ledger(path)
        assert reader.problems
        assert reader.summaries() == []


def test_nonsense_with_a_right_checksum_is_told_in_one_sentence(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 2, 2)
    path = tmp_path / "damaged.ledger"
    answers: list[str] = []
    for begin, end in records(data):
        for place in range(begin, end, 9):
            payload = bytearray(data[begin:end])
            payload[place - begin] ^= 0xFF
            path.write_bytes(with_payload(data, begin, end, bytes(payload)))
            answers += refusals(path)
    assert answers
    assert all(answer.endswith(".") and "\n" not in answer for answer in answers)


def test_a_text_that_is_no_utf_8_is_damage(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 2, 2)
    path = tmp_path / "decisions-000000000001.ledger"
    begin, end = records(data)[-2]
    path.write_bytes(with_payload(data, begin, end, b"\x91\xa3\xff\xff\xff"))
    [sentence] = open_ledger(path).problems
    assert "is cut off or damaged at byte " in sentence
    ledger = Ledger(2**24, tmp_path)
    Maker(ledger).make(1)
    ledger.close()
    assert numbers(tmp_path) == [2], "the first number may be taken"


def with_payload(data: bytes, begin: int, end: int, payload: bytes) -> bytes:
    """A file with another payload in one of its records, and the checksum that belongs to it."""
    head = struct.pack("<BI", data[begin - 9], len(payload))
    checksum = struct.pack("<I", zlib.crc32(payload, zlib.crc32(head)))
    return data[: begin - 9] + head + checksum + payload + data[end:]


def records(data: bytes) -> list[tuple[int, int]]:
    """Where the payload of each record begins and ends."""
    found, at = [], HEADER
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 1)
        found.append((at + 9, at + 9 + length))
        at += 9 + length
    return found


def refusals(path: Path) -> list[str]:
    """Ask for all there is; why questions were refused."""
    reader = open_ledger(path)
    questions: list[Callable[[], object]] = [
        reader.summaries,
        lambda: reader.latest_about("default/pod-2"),
        *(partial(reader.explain, number, matrix=(0, 3)) for number in range(1, 5)),
    ]
    found = []
    for question in questions:
        try:
            question()
        except InputError as error:
            found.append(str(error))
    return found


def test_another_version_is_told_in_one_sentence(tmp_path: Path) -> None:
    data = written(tmp_path / "whole")
    path = tmp_path / "new.ledger"
    path.write_bytes(MAGIC + struct.pack("<I", 7) + data[12:])
    with pytest.raises(InputError) as told:
        open_ledger(path)
    assert str(told.value) == (
        f"{path} is a ledger of format version 7, but this version of Moorage reads version 1."
    )


def test_a_file_from_before_the_first_release_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "decisions-000000000001.ledger"
    path.write_bytes(b"MOORLEDG" + struct.pack("<II", 3, 0))
    for asked in (path, tmp_path):
        with pytest.raises(InputError) as told:
            open_ledger(asked)
        assert str(told.value) == (f"{path} is not a ledger: it does not begin as one.")


def test_what_is_no_ledger_is_told_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, today I scheduled nothing")
    with pytest.raises(InputError, match=r"notes.txt is not a ledger: it does not begin as one"):
        open_ledger(path)
    with pytest.raises(InputError, match=r"holds no ledger: there is no file decisions-"):
        open_ledger(tmp_path)
    with pytest.raises(InputError, match=r"nowhere: there is no such file or directory."):
        open_ledger(tmp_path / "nowhere")


@contextmanager
def closed_to_us(directory: Path) -> Iterator[None]:
    """A directory of somebody else's, also for root, whom no mode keeps out."""
    us = os.geteuid()
    directory.chmod(0o700 if us == 0 else 0)
    if us == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(us)
        directory.chmod(0o700)


def test_a_directory_that_may_not_be_read_is_not_called_empty() -> None:
    # Not in `tmp_path`, where others may not even look for it.
    with TemporaryDirectory() as name:
        directory = Path(name)
        written(directory, 3)
        [file] = directory.iterdir()
        with closed_to_us(directory):
            for path in (directory, file, directory / "nowhere"):
                with pytest.raises(InputError) as told:
                    open_ledger(path)
                assert str(told.value) == f"{path}: cannot be read: Permission denied."


def test_a_name_that_is_too_long_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"xxx: cannot be read: File name too long\."):
        open_ledger(tmp_path / ("x" * 300))


def test_in_a_directory_what_can_be_read_is_read(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (tmp_path / "decisions-000000000900.ledger").write_bytes(MAGIC + struct.pack("<II", 9, 0))
    (tmp_path / "decisions-000000000901.ledger").write_bytes(b"junk" * 10)
    (tmp_path / "other.txt").write_text("not looked at")
    reader = open_ledger(tmp_path)
    assert len(reader) == 3
    assert len(reader.problems) == 2


def test_an_unknown_decision_is_told_in_one_sentence(tmp_path: Path) -> None:
    written(tmp_path, 3)
    with pytest.raises(InputError) as told:
        open_ledger(tmp_path).explain(4)
    assert str(told.value) == "There is no decision 4: the ledger holds 1 to 3."


def test_a_directory_that_cannot_be_used_is_told_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="file/ledger: the ledger cannot be kept here: "):
        Ledger(2**24, file / "ledger")


def test_a_disk_that_fails_is_told_once_and_memory_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(2**24, tmp_path / "gone")
    assert ledger.directory == tmp_path / "gone"
    os.rmdir(tmp_path / "gone")
    Maker(ledger).make(3, flush=True)
    assert len(ledger) == len(ledger.summaries()) == 3
    assert ledger.directory is None, "nobody looks for them there"
    [record] = caplog.records
    assert "the ledger is not written any more: " in record.getMessage()


def test_what_waits_is_written_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    clock = [100.0]
    ledger = Ledger(2**24, tmp_path, stopwatch=lambda: clock[0])
    assert ledger.recorder.rest() is None, "there is nothing to write"
    Maker(ledger).make(3)
    assert ledger.recorder.rest() == 1.0
    assert list(tmp_path.iterdir()) == []
    clock[0] += 1.0
    assert (ledger.recorder.rest(), ledger.recorder.rest()) == (0.0, None)
    assert numbers(tmp_path) == [1, 2, 3]
    ledger.close()
