"""Files that only their owner may read: kubeconfigs, keys, configurations with passwords.

Owns how they are written: to a new file that then replaces the old one, so that a wider mode of the
old one does not last and nobody reads half a file.
Must not import anything of Moorage.
"""

import os
import stat
import tempfile
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
