"""A watch's bytes as lines, whatever the pieces they arrive in.

Knows nothing of what the lines mean. What follows the last line break is never handed out: a
connection that broke there tore the line in two.
"""


class LineBuffer:
    """Pieces in, complete lines out."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this piece completes."""
        first, found, rest = chunk.partition(b"\n")
        self._tail.append(first)
        if not found:
            return []
        lines = [b"".join(self._tail), *rest.split(b"\n")]
        self._tail = [lines.pop()]
        return [line for line in lines if line]
