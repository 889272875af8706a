"""HTTP/1.1 as bytes: requests as they leave, answers in whatever pieces they come."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.errors import WireError
from moorage.kube.http_wire import AnswerReader, fixed_head, request_bytes, target

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _chunks(parts: list[bytes], *, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    body = b"".join(b"%X%s\r\n%s\r\n" % (len(part), extension, part) for part in parts if part)
    return HEAD + b"transfer-encoding: Chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


def _read(data: bytes, cuts: list[int]) -> tuple[AnswerReader, bytes]:
    answer = AnswerReader()
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges) if end > start]
    body = b"".join([answer.feed(piece) for piece in pieces])
    return answer, body


_cuts = st.lists(st.integers(0, 10_000), max_size=12)
_every_byte = list(range(400))


@given(st.lists(st.binary(max_size=40), max_size=6), _cuts, st.booleans())
@example([b"a", b"\r\n", b"0\r\n\r\n"], _every_byte, True)
def test_chunks_are_put_together_wherever_the_pieces_are_cut(
    parts: list[bytes], cuts: list[int], adorned: bool
) -> None:
    extension, trailer = (b";name=value", b"X-Sum: 1\r\n") if adorned else (b"", b"")
    answer, body = _read(_chunks(parts, extension=extension, trailer=trailer), cuts)
    assert body == b"".join(parts)
    assert (answer.status, answer.done, answer.reusable) == (200, True, True)


@given(st.binary(max_size=60), _cuts)
@example(b"\r\n\r\n", _every_byte)
def test_a_body_of_known_length_ends_there(content: bytes, cuts: list[int]) -> None:
    data = HEAD + b"CONTENT-LENGTH:  %d \r\n\r\n" % len(content) + content
    answer, body = _read(data, cuts)
    assert (body, answer.done, answer.reusable) == (content, True, True)


@given(st.binary(min_size=1, max_size=60), _cuts)
def test_a_body_without_a_length_ends_with_the_connection(content: bytes, cuts: list[int]) -> None:
    answer, body = _read(HEAD + b"\r\n" + content, cuts)
    assert body == content
    assert not answer.done
    assert answer.end()
    assert answer.done
    assert not answer.reusable


@given(_cuts)
def test_interim_answers_are_passed_over(cuts: list[int]) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
    final = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\nRetry-After: 7\r\n\r\nno"
    answer, body = _read(interim + final, cuts)
    assert (answer.status, answer.reason, body) == (409, "Conflict", b"no")
    assert answer.header(b"retry-after") == b"7"
    assert answer.header(b"link") == b""


@given(st.integers(0, 200))
def test_an_answer_that_is_cut_off_is_not_complete(cut: int) -> None:
    for data in (_chunks([b"abc", b"defg"]), HEAD + b"Content-Length: 7\r\n\r\nabcdefg"):
        answer, body = _read(data[: min(cut, len(data) - 1)], [])
        assert b"abcdefg".startswith(body)
        assert not answer.end()


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_whether_a_connection_may_be_used_again(head: bytes, reusable: bool) -> None:
    answer, body = _read(head, [])
    assert (body, answer.done, answer.reusable) == (b"", True, reusable)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"SSH-2.0-OpenSSH_9.0\r\n\r\n", "is not HTTP/1.1: b'SSH-2.0-OpenSSH_9.0'"),
        (HEAD + b"Content-Length: 1\r\n\r\nab", "longer than it said"),
        (HEAD + b"Content-Length: -1\r\n\r\n", "length is b'-1'"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "has the length b'xyz'"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1_0\r\n", "has the length b'1_0'"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc", "chunk of its answer is longer"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, "how long it is"),
        (_chunks([b"a"]) + b"more", "more than its answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000, "head does not end"),
    ],
)
def test_what_is_not_http_is_told_in_a_few_words(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError) as caught:
        _read(data, [])
    assert complaint in str(caught.value)


def test_what_follows_a_complete_answer_is_refused() -> None:
    answer, _ = _read(HEAD + b"Content-Length: 0\r\n\r\n", [])
    with pytest.raises(WireError, match="more than its answer"):
        answer.feed(b"x")


def test_a_request_leaves_in_one_piece() -> None:
    fixed = fixed_head("h:6443", (("User-Agent", "me"), ("Accept", "application/json")))
    assert request_bytes("POST", "/x?a=b", fixed, b"{}", "application/json") == (
        b"POST /x?a=b HTTP/1.1\r\nHost: h:6443\r\nUser-Agent: me\r\nAccept: application/json\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert request_bytes("GET", "/", fixed, None, "").endswith(b"application/json\r\n\r\n")
    assert request_bytes("DELETE", "/", fixed, None, "").endswith(b"\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\x00"])
def test_a_header_cannot_smuggle_in_another(value: str) -> None:
    with pytest.raises(ValueError, match="'Authorization' holds what a header cannot"):
        fixed_head("h", (("Authorization", value),))


@pytest.mark.parametrize(
    ("path", "query", "asked"),
    [
        ("/api", (), "/base/api"),
        ("/api/pods/a%2Fb", (), "/base/api/pods/a%2Fb"),
        ("/a b\r\n", (), "/base/a%20b%0D%0A"),
        (
            "/api",
            (("fieldSelector", "a!=b,c=d"), ("continue", "x y&z")),
            "/base/api?fieldSelector=a%21%3Db%2Cc%3Dd&continue=x%20y%26z",
        ),
    ],
)
def test_what_is_asked_for(path: str, query: tuple[tuple[str, str], ...], asked: str) -> None:
    assert target("/base", path, query) == asked
