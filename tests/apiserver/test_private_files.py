"""Files with credentials are for their owner alone, whatever was there before."""

import os
from pathlib import Path

import pytest

from moorage.apiserver import ApiServer
from moorage.apiserver.certificates import kept_certificate
from moorage.errors import InputError
from moorage.http.certificates import _write
from moorage.private_files import write_privately


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_kubeconfig_that_everybody_could_read_is_tightened(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("older")
    path.chmod(0o644)
    reader = path.open()  # whoever had it open sees the old content only
    ApiServer().write_kubeconfig(path)
    assert mode(path) == 0o600
    assert "current-context" in path.read_text()
    assert reader.read() == "older"
    reader.close()
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("older")
    target.chmod(0o666)
    link.symlink_to(target)
    write_privately(link, b"new")
    assert link.is_symlink()
    assert (mode(target), target.read_bytes()) == (0o600, b"new")


def test_what_is_no_file_is_written_to_as_it_is() -> None:
    write_privately(Path(os.devnull), b"nothing")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ApiServer().write_kubeconfig(tmp_path / "file" / "kubeconfig")


def test_a_key_is_tightened_too(tmp_path: Path) -> None:
    for path in (tmp_path / "made.key", tmp_path / "tls.key"):
        path.write_text("longer than the new one" * 100)
        path.chmod(0o644)
    _write(str(tmp_path / "made.key"), b"key", 0o600)
    made = kept_certificate(tmp_path, "127.0.0.1")
    assert (mode(tmp_path / "made.key"), (tmp_path / "made.key").read_bytes()) == (0o600, b"key")
    assert mode(tmp_path / "tls.key") == 0o600
    assert (tmp_path / "tls.key").read_bytes() == made.key
