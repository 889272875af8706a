"""HTTP/1.1 as bytes: the head of a request, and answers out of whatever pieces arrive.

Reads what an API server may send: a body of known length, in chunks or up to the end of the
connection, and interim answers before it. Opens no connection and keeps no time.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from moorage.errors import WireError

_PLAIN_PATH = re.compile(r"[!-~]+")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: ([^\r\n]*))?")
_MOST_HEAD_BYTES = 1 << 17
_MOST_CHUNK_LINE = 1 << 12
_MOST_LENGTH_DIGITS = 18


def target(prefix: str, path: str, query: tuple[tuple[str, str], ...]) -> str:
    """What is asked for; a path that was not quoted by its maker is quoted here."""
    if not _PLAIN_PATH.fullmatch(path):
        path = quote(path, safe="/%?&=")
    if not query:
        return prefix + path
    return f"{prefix}{path}?{urlencode(query, quote_via=quote)}"


def fixed_head(host: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The part of a head that every request to one server shares; ValueError for a bad header."""
    lines = [" HTTP/1.1", f"Host: {host}"]
    for name, value in headers:
        if not value.isprintable() or not name.isprintable():
            raise ValueError(f"the header {name!r} holds what a header cannot")
        lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "")).encode("utf-8")


def request_bytes(
    method: str, asked: str, fixed: bytes, body: bytes | None, content_type: str
) -> bytes:
    """A whole request, so that it leaves in one piece."""
    if body is None:
        length = b"\r\n" if method in ("GET", "HEAD") else b"Content-Length: 0\r\n\r\n"
        return f"{method} {asked}".encode("ascii") + fixed + length
    tail = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return b"".join((f"{method} {asked}".encode("ascii"), fixed, tail.encode("ascii"), body))


@dataclass(slots=True, eq=False)
class AnswerReader:
    """One answer; `feed` it what arrives and it hands out the body's bytes."""

    status: int = 0
    """0 until the head is complete."""
    done: bool = False
    reusable: bool = False
    """May the connection serve another request once the answer is `done`?"""
    _reason: bytes = b""
    _head: bytes = b""  # with its names in lower case
    _rest: bytes = b""
    _chunked: bool = False
    _left: int = -1  # bytes of the body, or of the chunk, to come; -1 up to the end
    _gap: int = 0  # bytes of the line break after a chunk still to come

    @property
    def reason(self) -> str:
        """The word after the status."""
        return self._reason.decode("latin-1")

    def header(self, name: bytes) -> bytes:
        """A header's value, in lower case as its name; empty if there is none."""
        found = self._head.find(b"\r\n" + name + b":")
        if found < 0:
            return b""
        start = found + len(name) + 3
        end = self._head.find(b"\r\n", start)
        return self._head[start : end if end >= 0 else None].strip()

    def feed(self, data: bytes) -> bytes:
        """Take what arrived; the bytes of the body that were in it."""
        if self.done:
            raise WireError("it sent more than its answer")
        if not self._head:
            data = self._rest + data if self._rest else data
            rest = self._take_head(data)
            if rest is None:
                return b""
            self._rest = b""
            data = rest
        if self._chunked:
            return self._dechunked(data)
        if self._left < 0:
            return data
        if len(data) > self._left:
            raise WireError("its answer is longer than it said")
        self._left -= len(data)
        self.done = not self._left
        return data

    def end(self) -> bool:
        """The connection has ended; True if that completes the answer."""
        if self._head and not self._chunked and self._left < 0:
            self.done = True
        return self.done

    def _take_head(self, data: bytes) -> bytes | None:
        """Read the head; what follows it, or None while it is not complete."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _MOST_HEAD_BYTES:
                    raise WireError("its answer's head does not end")
                self._rest = data
                return None
            head, data = data[:end], data[end + 4 :]
            found = _STATUS_LINE.match(head)
            if found is None:
                raise WireError(f"its answer is not HTTP/1.1: {head[:40]!r}")
            # 100 Continue, 103 Early Hints: the answer itself follows.
            if not (found[1].startswith(b"1") and found[1] != b"101"):
                break
        self._head = head.lower()
        self.status = int(found[1])
        self._reason = found[2] or b""
        self._frame(self.status, head.startswith(b"HTTP/1.1"))
        return data

    def _frame(self, status: int, current: bool) -> None:
        """Learn from the head where the body ends."""
        # Two of the three are nearly never there, and looking is quicker than calling.
        head = self._head
        connection = self.header(b"connection") if b"\r\nconnection:" in head else b""
        self.reusable = connection != b"close" if current else connection == b"keep-alive"
        chunked = b"\r\ntransfer-encoding:" in head
        if chunked and self.header(b"transfer-encoding") == b"chunked":
            self._chunked, self._left = True, 0
            return
        length = self.header(b"content-length")
        if status in (204, 304):
            self._left, self.done = 0, True
        elif length:
            if not length.isdigit() or len(length) > _MOST_LENGTH_DIGITS:
                raise WireError(f"its answer's length is {length[:20]!r}")
            self._left = int(length)
            self.done = not self._left
        else:
            self.reusable = False

    def _dechunked(self, data: bytes) -> bytes:
        """The content of the chunks in what arrived."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._gap = 0 if self._left else 2
            elif self._gap:
                if data[at : at + 1] != (b"\r" if self._gap == 2 else b"\n"):
                    raise WireError("a chunk of its answer is longer than it said")
                at += 1
                self._gap -= 1
            else:
                after = self._chunk_size(data, at)
                if after is None:
                    break
                at = after
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _chunk_size(self, data: bytes, at: int) -> int | None:
        """Read a chunk's first line (for the last one, up to the end); where that ends."""
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            if len(data) - at > _MOST_CHUNK_LINE:
                raise WireError("a chunk of its answer does not say how long it is")
            self._rest = data[at:]
            return None
        digits = data[at:line_end].partition(b";")[0].strip()
        try:
            size = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            raise WireError(f"a chunk of its answer has the length {digits[:20]!r}")
        if size:
            self._left = size
            return line_end + 2
        # The last chunk; trailers may follow, and then an empty line.
        end = data.find(b"\r\n\r\n", line_end)
        if end < 0:
            if len(data) - at > _MOST_HEAD_BYTES:
                raise WireError("its answer's trailers do not end")
            self._rest = data[at:]
            return None
        if end + 4 < len(data):
            raise WireError("it sent more than its answer")
        self.done = True
        return end + 4
