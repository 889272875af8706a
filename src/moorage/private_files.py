"""Files that only their owner may read: kubeconfigs, keys, configurations with passwords.

Owns how they are written: to a new file that then replaces the old one, so that a wider mode of the
old one does not last and nobody reads half a file; or for a moment, where only a file will do.
Must not import anything of Moorage.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_privately(path: Path, content: bytes) -> None:
    """Replace a file, or make it, with mode 0600; an `OSError` leaves the old one as it was.

    A link is followed and the file behind it replaced. What is no regular file, such as
    /dev/stdout, is written to as it is.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        target.write_bytes(content)
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """A file for the ssl module, which reads keys from files only; on Linux it is in memory."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("moorage-tls")
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    with tempfile.NamedTemporaryFile(prefix="moorage-") as file:  # created with mode 0600
        file.write(content)
        file.flush()
        yield file.name
