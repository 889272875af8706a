"""The cluster's own word on whom to trust: the ConfigMap extension-apiserver-authentication.

Owns the reading of its keys and following it while we run: one read at the start, then a watch that
is begun anew whenever it ends. What is found goes into the bundles and headers of authentication.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from random import Random

import msgspec

from moorage.errors import ApiError, InputError, MoorageError
from moorage.http.authentication import ClientCertificates, Proxies, ProxyHeaders
from moorage.http.certificates import Bundle
from moorage.kube import requests
from moorage.kube.client import KubeClient
from moorage.kube.decoding import LineBuffer, envelope
from moorage.kube.resources import RESOURCES
from moorage.kube.timing import Backoff, Timer, WallTimer

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
_ROLE = "extension-apiserver-authentication-reader"
_LOOKUP_SECONDS = 10.0
_CONFIG_MAPS = RESOURCES["ConfigMap"]

CLIENT_CA_KEY = "client-ca-file"
PROXY_CA_KEY = "requestheader-client-ca-file"


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class ClusterLookup:
    """Fills whichever part is given from the ConfigMap; `changed` is called when a CA is new."""

    def __init__(
        self,
        client: KubeClient,
        certificates: ClientCertificates | None,
        proxies: Proxies | None,
        *,
        timer: Timer | None = None,
    ) -> None:
        self._client = client
        self._certificates = certificates
        self._proxies = proxies
        self._timer = timer or WallTimer()
        self._backoff = Backoff(self._timer, Random())
        self._listeners: list[Callable[[], None]] = []
        self._complained = False

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after every change of an authority."""
        self._listeners.append(listener)

    async def read(self) -> str:
        """Read it once; its resource version, empty if there is none; else `MoorageError`."""
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                body = await self._client.send(requests.get(_CONFIG_MAPS, NAMESPACE, NAME))
        except TimeoutError:
            raise ApiError(0, "Timeout", f"no answer within {_LOOKUP_SECONDS:g} s") from None
        except ApiError as error:
            if error.is_not_found:
                return ""
            if error.status == 403 and not self._complained:
                self._complained = True
                log.warning(
                    "Unable to get configmap/%s in %s.  Usually fixed by 'kubectl create"
                    " rolebinding -n %s ROLEBINDING_NAME --role=%s --serviceaccount=YOUR_NS:"
                    "YOUR_SA'",
                    *(NAME, NAMESPACE, NAMESPACE, _ROLE),
                )
            raise
        return self._take(body)

    async def follow(self) -> None:
        """Keep up with it until cancelled."""
        while True:
            try:
                version = await self.read()
                await self._watch(version)
            except MoorageError as error:
                log.debug("following configmap/%s in %s: %s", NAME, NAMESPACE, error)
            await self._timer.sleep(self._backoff.next())

    async def _watch(self, version: str) -> None:
        request = requests.watch(
            _CONFIG_MAPS,
            NAMESPACE,
            field_selector=f"metadata.name={NAME}",
            resource_version=version,
        )
        lines = LineBuffer()
        async with self._client.stream(request) as read:
            while piece := await read():
                for line in lines.feed(piece):
                    found = envelope(line)
                    if found is None or found.type == "ERROR":
                        return
                    if found.type in ("ADDED", "MODIFIED"):
                        self._take(bytes(found.object))

    def _take(self, body: bytes) -> str:
        """Use what it says; a part that cannot be used leaves the old one in place."""
        try:
            found = msgspec.json.decode(body, type=_ConfigMap)
        except msgspec.DecodeError as error:
            raise InputError(f"configmap/{NAME} in {NAMESPACE} cannot be read: {error}") from None
        changed = False
        if self._certificates is not None:
            changed |= self._load(self._certificates.bundle, found.data, CLIENT_CA_KEY)
        if self._proxies is not None:
            self._proxies.headers = proxy_headers(found.data)
            changed |= self._load(self._proxies.bundle, found.data, PROXY_CA_KEY)
        if changed:
            for listener in self._listeners:
                listener()
        return found.metadata.resource_version

    @staticmethod
    def _load(bundle: Bundle, data: Mapping[str, str], key: str) -> bool:
        if not data.get(key):
            return False
        try:
            return bundle.load(data[key].encode())
        except InputError as error:
            log.error("%s/%s failed with : %s", NAMESPACE, NAME, error)
            return False


def proxy_headers(data: Mapping[str, str]) -> ProxyHeaders:
    """The request-header settings: each a JSON list of strings; `InputError` if one is not."""
    return ProxyHeaders(
        usernames=_strings(data, "requestheader-username-headers"),
        uids=_strings(data, "requestheader-uid-headers"),
        groups=_strings(data, "requestheader-group-headers"),
        extra_prefixes=_strings(data, "requestheader-extra-headers-prefix"),
        allowed_names=_strings(data, "requestheader-allowed-names"),
    )


def _strings(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = data.get(key, "")
    if not text:
        return ()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if found is None and text.strip() == "null":
        return ()
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise InputError(f"configmap/{NAME} in {NAMESPACE}: {key} must be a JSON list of strings")
    return tuple(found)
