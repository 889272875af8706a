"""Ledgers on disk: rotation, damage, other versions, and what is no ledger at all."""

import os
import struct
from pathlib import Path

import pytest

from ledger.made import Maker, written
from moorage.errors import InputError
from moorage.ledger import Ledger, open_ledger
from moorage.ledger.files import MAGIC

HEADER = 16


def numbers(path: Path) -> list[int]:
    return [one.number for one in reversed(open_ledger(path).summaries(limit=100_000))]


def test_a_file_or_its_directory_reads_the_same(tmp_path: Path) -> None:
    written(tmp_path, 5, 2)
    [path] = tmp_path.iterdir()
    assert numbers(path) == numbers(tmp_path) == list(range(1, 11))
    assert not open_ledger(path).problems
    assert path.stat().st_mode & 0o777 == 0o600


def test_files_are_rotated_and_the_oldest_removed(tmp_path: Path) -> None:
    ledger = Ledger(2**24, tmp_path, file_bytes=4000, kept_files=3)
    Maker(ledger).make(40, flush=True)
    ledger.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(path.stat().st_size < 6500 for path in files)
    read = numbers(tmp_path)
    assert read == list(range(read[0], 41))
    assert 1 < read[0] < 35
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


def test_a_file_cut_off_anywhere_gives_what_is_whole_and_one_sentence(tmp_path: Path) -> None:
    data = written(tmp_path / "whole", 2, 3)
    path = tmp_path / "cut.ledger"
    whole = [explained(tmp_path / "whole", number) for number in range(1, 7)]
    seen = set()
    for size in every_fifth_byte(len(data)):
        path.write_bytes(data[:size])
        reader = open_ledger(path)
        seen.add(len(reader))
        for number in range(1, len(reader) + 1):
            assert reader.explain(number, matrix=(0, 3)) == whole[number - 1]
        if reader.problems:
            [sentence] = reader.problems
            assert sentence.startswith(f"{path} is cut off or damaged at byte ")
            assert sentence.endswith(".")
            assert "\n" not in sentence
        else:
            assert len(reader) or size == HEADER, "only a file that ends with a chunk looks whole"
    assert seen == {0, 2, 4}


def every_fifth_byte(size: int) -> list[int]:
    """All places near the beginning and the end, and every fifth in between."""
    return sorted({*range(0, size, 5), *range(min(64, size)), *range(max(0, size - 32), size)})


def explained(path: Path, number: int) -> object:
    return open_ledger(path).explain(number, matrix=(0, 3))


@pytest.mark.parametrize("at", [0.3, 0.6, 0.95])
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


def test_another_version_is_told_in_one_sentence(tmp_path: Path) -> None:
    data = written(tmp_path / "whole")
    path = tmp_path / "new.ledger"
    path.write_bytes(MAGIC + struct.pack("<I", 7) + data[12:])
    with pytest.raises(InputError) as told:
        open_ledger(path)
    assert str(told.value) == (
        f"{path} is a ledger of format version 7, but this version of Moorage reads version 1."
    )


def test_what_is_no_ledger_is_told_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, today I scheduled nothing")
    with pytest.raises(InputError, match=r"notes.txt is not a ledger: it does not begin with "):
        open_ledger(path)
    with pytest.raises(InputError, match=r"holds no ledger: there is no file decisions-"):
        open_ledger(tmp_path)
    with pytest.raises(InputError, match=r"nowhere: there is no such file or directory."):
        open_ledger(tmp_path / "nowhere")


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
    os.rmdir(tmp_path / "gone")
    Maker(ledger).make(3, flush=True)
    assert len(ledger) == len(ledger.summaries()) == 3
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
    assert ledger.recorder.rest() is None
    assert numbers(tmp_path) == [1, 2, 3]
    ledger.close()
