"""A secure port on loopback for tests, certificates for clients, an API server that reviews."""

import asyncio
import atexit
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import trustme
import yaml
import yarl
from aiohttp import web

from kube.fake_api import FakeApi
from moorage.http.application import build_application
from moorage.http.authentication import Authenticator
from moorage.http.authorization import Authorizer
from moorage.http.certificates import Bundle, new_pair
from moorage.http.endpoints import Endpoints
from moorage.http.options import ServingOptions
from moorage.http.secure_port import SecurePort

Json = dict[str, Any]

TOKEN_REVIEWS = "POST /apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"


class Reviews:
    """An API server that knows some tokens and who may do what."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.api.routes[TOKEN_REVIEWS] = self._token
        self.api.routes[ACCESS_REVIEWS] = self._access
        self.users: dict[str, Json] = {}
        self.allowed: Callable[[Json], Json] = lambda spec: {"allowed": False}
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def asked(self) -> list[str]:
        return self.api.requests

    def specs(self) -> list[Json]:
        return [body["spec"] for body in self.api.bodies if body]

    def kubeconfig(self, folder: Path) -> str:
        return write_kubeconfig(folder / "kubeconfig", f"http://127.0.0.1:{self.api._port}")

    async def __aenter__(self) -> Self:
        await self.api.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.api.stop()

    async def _token(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.gate.wait()
        body = await request.json()
        user = self.users.get(body["spec"]["token"])
        status: Json = {"authenticated": True, "user": user}
        if user is None:
            status = {"authenticated": False, "error": "[invalid bearer token, unknown]"}
        return web.json_response({**body, "status": status}, status=201)

    async def _access(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.gate.wait()
        body = await request.json()
        return web.json_response({**body, "status": self.allowed(body["spec"])}, status=201)


def write_kubeconfig(path: Path, server: str, **user: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


class Files(NamedTuple):
    """A certificate and its key."""

    cert: str
    key: str


def serving_files(
    folder: Path, ca: trustme.CA, *names: str, stem: str = "tls", common_name: str | None = None
) -> Files:
    """Write a server's certificate."""
    issued = ca.issue_cert(*names, common_name=common_name)
    files = Files(str(folder / f"{stem}.crt"), str(folder / f"{stem}.key"))
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    Path(files.cert).write_bytes(chain)
    Path(files.key).write_bytes(issued.private_key_pem.bytes())
    return files


def client_context(
    ca: trustme.CA | None = None, name: str = "", groups: Sequence[str] = ()
) -> ssl.SSLContext:
    """A client that trusts every server; with a CA it shows a certificate of that."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if ca is not None:
        group = groups[0] if groups else None
        ca.issue_cert(
            f"{name}@example.com", common_name=name, organization_name=group
        ).configure_cert(context)
    return context


class Port:
    """A running port and a way to ask it."""

    def __init__(self, server: SecurePort) -> None:
        self.server = server
        self.url = f"https://127.0.0.1:{server.port}"

    async def ask(
        self,
        path: str,
        *,
        token: str = "",
        method: str = "GET",
        context: ssl.SSLContext | None = None,
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
    ) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers, over a connection of its own."""
        sent = {"User-Agent": "test", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        target = yarl.URL(self.url + path, encoded=True)  # sent as it is written
        connector = aiohttp.TCPConnector(ssl=context or client_context(), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(
                method, target, headers=sent, data=data, allow_redirects=False
            ) as answer,
        ):
            return answer.status, await answer.text(), dict(answer.headers)

    async def certificate(self, name: str = "localhost") -> bytes:
        """The certificate that is served to those who ask for this name."""
        context = client_context()
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=context, server_hostname=name
        )
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return found


@cache
def _made_once() -> Files:
    """A certificate as the server makes it for itself; making one takes a moment."""
    made = new_pair("127.0.0.1")
    folder = Path(tempfile.mkdtemp(prefix="moorage-test-"))
    atexit.register(shutil.rmtree, folder)
    files = Files(str(folder / "tls.crt"), str(folder / "tls.key"))
    Path(files.cert).write_bytes(made.certificate)
    Path(files.key).write_bytes(made.key)
    return files


def loopback_port(**options: Any) -> SecurePort:
    """A secure port on a free number."""
    return SecurePort(ServingOptions(bind_address="127.0.0.1", secure_port=0, **options), env={})


@asynccontextmanager
async def open_port(
    endpoints: Endpoints | None = None,
    authenticator: Authenticator | None = None,
    authorizer: Authorizer | None = None,
    *,
    app: web.Application | None = None,
    bundles: Sequence[Bundle] | None = None,
    self_made: bool = False,
    **options: Any,
) -> AsyncIterator[Port]:
    """Serve for as long as the block runs."""
    if app is None:
        app = build_application(endpoints or Endpoints(), authenticator, authorizer)
    if bundles is None:
        bundles = authenticator.bundles if authenticator is not None else ()
    if not self_made and "cert_file" not in options:
        options["cert_file"], options["key_file"] = _made_once()
    async with loopback_port(**options) as server:
        await server.serve(app, bundles)
        yield Port(server)
