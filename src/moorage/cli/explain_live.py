"""Answers of `moorage explain` from a running scheduler, over its secure port.

Owns who asks, the paths below /explain/v1 and what is said when the scheduler does not answer.
"""

import argparse
import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from moorage.cli.explain_sources import PodQuestion, decision_number
from moorage.errors import ApiError, InputError, UnreachableError
from moorage.explain.listing import DecisionPage, PodPage
from moorage.explain.report import (
    SCHEMA,
    DecisionExplanation,
    Matrix,
    NodeExplanation,
    PodExplanation,
)
from moorage.kube.access import Access, Pem
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient, user_agent
from moorage.kube.kubeconfig import server_url
from moorage.kube.requests import Query, Request

Answer = TypeVar(
    "Answer", PodExplanation, NodeExplanation, DecisionExplanation, DecisionPage, PodPage
)
Whole = TypeVar("Whole", PodExplanation, DecisionExplanation)

_ROOT = "/explain/v1"
_NO_SUCH_PATH = "the server could not find the requested resource"
_PATIENCE = 30.0
"""How long an answer may take; looking for fixes takes a second, waiting for one's turn longer."""
_AT_ONCE = 10_000
"""The longest page that the API gives."""


class _UnknownError(InputError):
    """The scheduler knows nothing of that name."""


class LiveSource:
    """A scheduler that is asked over HTTP; each question has an event loop of its own."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._access = scheduler_access(args)

    def pod(self, asked: PodQuestion) -> PodExplanation:
        return self._ask(lambda client: _pod(client, asked))

    def node(self, name: str) -> NodeExplanation:
        return self._ask(lambda client: _ask(client, f"nodes/{_segment(name)}", NodeExplanation))

    def decision(self, which: str, *, top: int, rows: int) -> DecisionExplanation:
        """The decision of this number, or the latest one about this pod."""
        return self._ask(lambda client: _decision(client, which, top, rows))

    def decisions(self, limit: int) -> DecisionPage:
        return self._ask(lambda client: _decisions(client, limit))

    def _ask(self, question: Callable[[KubeClient], Awaitable[Answer]]) -> Answer:
        async def ask() -> Answer:
            agent = user_agent("explain")
            async with KubeClient(self._access, qps=0, agent=agent, read_only=True) as client:
                return await question(client)

        return asyncio.run(ask())


async def _pod(client: KubeClient, asked: PodQuestion) -> PodExplanation:
    query: Query = (
        *(("node", node) for node in asked.nodes),
        ("top", str(asked.top)),
        ("fixes", "true" if asked.fixes else "false"),
    )
    pod = asked.name
    if "/" not in pod:
        # Only where `default` has no such pod is the whole list worth its pages.
        with contextlib.suppress(_UnknownError):
            path = _pod_path(f"default/{pod}")
            return await _with_matrix(client, path, PodExplanation, query, asked.rows)
        pod = await _full_name(client, pod)
    return await _with_matrix(client, _pod_path(pod), PodExplanation, query, asked.rows)


async def _decision(client: KubeClient, which: str, top: int, rows: int) -> DecisionExplanation:
    number = decision_number(which)
    if number is None:
        number = await _latest(client, which)
    query: Query = (("top", str(top)),)
    return await _with_matrix(client, f"decisions/{number}", DecisionExplanation, query, rows)


async def _decisions(client: KubeClient, limit: int) -> DecisionPage:
    page = DecisionPage(())
    while len(page.items) < limit:
        query: Query = (("limit", str(min(limit - len(page.items), _AT_ONCE))),)
        if page.continue_:
            query += (("continue", page.continue_),)
        more = await _ask(client, "decisions", DecisionPage, query)
        page = DecisionPage(page.items + more.items, more.continue_)
        if not page.continue_:
            break
    return page


def scheduler_access(args: argparse.Namespace) -> Access:
    """The scheduler's address, with the credentials of the flags, else of the kubeconfig."""
    server = server_url(args.server, tls=True)
    access = Access(server=server, source="the flags")
    if args.kubeconfig or args.context:
        known = user_access(args.kubeconfig or "", args.context)
        if args.token or args.token_file or args.client_certificate:
            # Two identities in one request would leave it to the server whose name counts.
            access = msgspec.structs.replace(access, ca=known.ca, insecure=known.insecure)
        else:
            access = msgspec.structs.replace(known, server=server, tls_server_name="")
    if args.certificate_authority or args.insecure_skip_tls_verify:
        access = msgspec.structs.replace(
            access,
            ca=Pem(path=args.certificate_authority or ""),
            insecure=args.insecure_skip_tls_verify,
        )
    if args.client_certificate:
        access = msgspec.structs.replace(
            access,
            client_certificate=Pem(path=args.client_certificate),
            client_key=Pem(path=args.client_key),
        )
    if args.token or args.token_file:
        access = msgspec.structs.replace(
            access, token=args.token or "", token_file=args.token_file or ""
        )
    return access


async def _latest(client: KubeClient, name: str) -> int:
    """The number of the latest decision about a pod."""
    found = await _about(client, name if "/" in name else f"default/{name}")
    if found is None and "/" not in name:
        name = await _full_name(client, name)
        found = await _about(client, name)
    if found is None:
        raise InputError(
            f"the scheduler at {client.access.address} remembers no decision about pod {name}"
        )
    return found


async def _about(client: KubeClient, pod: str) -> int | None:
    query: Query = (("pod", pod), ("limit", "1"))
    found = (await _ask(client, "decisions", DecisionPage, query)).items
    return found[0].number if found else None


async def _full_name(client: KubeClient, name: str) -> str:
    """`namespace/name` of the pod of a bare name: in `default`, else anywhere."""
    found: list[str] = []
    page = PodPage((), 0)
    while True:
        query: Query = (("state", "all"), ("limit", str(_AT_ONCE)))
        if page.continue_:
            query += (("continue", page.continue_),)
        page = await _ask(client, "pods", PodPage, query)
        found += [line.pod for line in page.items if line.pod.partition("/")[2] == name]
        if f"default/{name}" in found or not page.continue_:
            break
    if f"default/{name}" in found:
        return f"default/{name}"
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"several pods are called {name}: {', '.join(found)}; name one in full")
    raise InputError(f"the scheduler at {client.access.address} knows no pod {name}")


async def _with_matrix(
    client: KubeClient, path: str, into: type[Whole], query: Query, rows: int
) -> Whole:
    """An answer with so many rows of its matrix, put together from pages."""
    if not rows:
        return await _ask(client, path, into, query)
    limit = str(min(rows, _AT_ONCE))
    answer = await _ask(client, path, into, (*query, ("matrix", "true"), ("limit", limit)))
    matrix = answer.matrix
    while matrix is not None and len(matrix.rows) < min(rows, matrix.total):
        place: Query = (("matrix", "true"), ("limit", limit), ("offset", str(len(matrix.rows))))
        more = await _ask(client, path, into, (("top", "0"), *place))
        if more.matrix is None or not more.matrix.rows:
            break
        matrix = Matrix(matrix.plugins, matrix.rows + more.matrix.rows, matrix.total)
    return msgspec.structs.replace(answer, matrix=matrix)


async def _ask(client: KubeClient, path: str, into: type[Answer], query: Query = ()) -> Answer:
    request = Request("GET", f"{_ROOT}/{path}", query)
    server = client.access.address
    try:
        # One limit for all tries of the client: its own is made for schedulers, who have time.
        async with asyncio.timeout(_PATIENCE):
            body = await client.send(request)
    except TimeoutError:
        raise InputError(
            f"the scheduler at {server} does not answer: nothing came in {_PATIENCE:.0f} seconds"
        ) from None
    except ApiError as error:
        unknown = error.status == 404 and not _is_elsewhere(error)
        kind = _UnknownError if unknown else InputError
        raise kind(_complaint(error, client.access)) from None
    try:
        answer = msgspec.json.decode(body, type=into)
    except msgspec.DecodeError as error:
        raise InputError(
            f"the scheduler at {server} answers {request} unreadably: {error}"
        ) from None
    if answer.schema != SCHEMA:
        raise InputError(
            f"the scheduler at {server} speaks {answer.schema}, and this command {SCHEMA}"
        )
    return answer


def _complaint(error: ApiError, access: Access) -> str:
    server, who = access.address, access.source
    if isinstance(error, UnreachableError):
        text = str(error).replace(f"the API server {server}", f"the scheduler at {server}")
        if "certificate" in text.lower():
            text += "; --certificate-authority says whom to trust"
        return text
    if error.status == 401:
        return (
            f"the scheduler at {server} does not accept the credentials of {who}: give"
            " --token-file, --client-certificate with --client-key, or --kubeconfig"
        )
    if error.status == 403:
        return f"the scheduler at {server} does not allow it: {error}"
    if _is_elsewhere(error):
        return f"{server} has no {_ROOT}: it is no scheduler of Moorage, or an older one"
    return f"the scheduler at {server} answers: {error}"


def _is_elsewhere(error: ApiError) -> bool:
    """Does the answer tell that the path is unknown, and not what was asked for by it?

    API servers answer so, as a Status; others with a 404 that is none and has no reason.
    """
    return error.status == 404 and (not error.reason or error.message == _NO_SUCH_PATH)


def _pod_path(pod: str) -> str:
    namespace, _, name = pod.partition("/")
    return f"pods/{_segment(namespace)}/{_segment(name)}"


def _segment(name: str) -> str:
    if not name or "/" in name:
        raise InputError(f'"{name}" is no name of a pod or node; pods are named NAMESPACE/NAME')
    return quote(name, safe="")
