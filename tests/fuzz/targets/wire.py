"""Bytes of HTTP answers, whole and in pieces: the same body, or a `WireError`."""

from random import Random

from fuzz.mutations import mutate_bytes, split
from fuzz.target import PropertyError, Target
from moorage.errors import WireError
from moorage.kube.http_wire import AnswerReader

EVENT = b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}}\n'
ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    % (len(EVENT), EVENT),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nto the end",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
)
_HEADS = (
    b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: \xb2\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"Content-Encoding: gzip\r\n",
    b"X: " + b"y" * 70_000 + b"\r\n", b"\r\n", b" folded\r\n",
    b"Retry-After: " + b"9" * 400 + b"\r\n",
    b"Retry-After: -1\r\n", b"Retry-After: \xb2\r\n", b"Connection: close\r\n",
)  # fmt: skip


def mutate_answer(data: bytes, random: Random) -> bytes:
    """An answer with other headers, chunks or bytes."""
    if random.random() < 0.4:
        at = data.find(b"\r\n") + 2
        data = data[:at] + random.choice(_HEADS) + data[at:]
    if random.random() < 0.1:
        data = data.replace(b"\r\n", b"\n", random.choice((1, -1)))
    return mutate_bytes(data, random, ANSWERS) if random.random() < 0.8 else data


class Wire(Target):
    """`kube.http_wire`."""

    name = "wire"

    def make(self, random: Random) -> bytes:
        """An answer, and how it is cut."""
        return bytes([random.randrange(256)]) + mutate_answer(random.choice(ANSWERS), random)

    def check(self, data: bytes) -> None:
        """However the bytes arrive, they mean the same."""
        cut, answer = data[:1], data[1:]
        whole = _read([answer])
        pieces = _read(split(answer, Random(cut[0] if cut else 0)))
        if whole != pieces and None not in (whole, pieces):
            raise PropertyError(f"whole {whole!r}, in pieces {pieces!r}")


def _read(pieces: list[bytes]) -> tuple[int, bytes, bool] | None:
    reader, body = AnswerReader(), b""
    try:
        for piece in pieces:
            body += reader.feed(piece)
        ended = reader.end()
        str(reader.reason)
        reader.header(b"retry-after")
    except WireError:
        return None
    return reader.status, body, ended


TARGET = Wire
