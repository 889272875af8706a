"""The cluster's own word on whom to trust: the ConfigMap extension-apiserver-authentication.

Owns the reading of its keys, at the start and whenever it changes. What is found goes into the
bundles and headers of authentication.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from random import Random

import msgspec

from moorage.errors import ApiError, InputError
from moorage.http.authentication import ClientCertificates, Proxies
from moorage.http.certificates import Bundle
from moorage.http.options import RequestHeaderOptions
from moorage.kube.client import KubeClient
from moorage.kube.object_watch import follow_object
from moorage.kube.requests import Json
from moorage.kube.resources import RESOURCES
from moorage.kube.timing import WallTimer

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"
_ROLE = "extension-apiserver-authentication-reader"
_LOOKUP_SECONDS = 10.0
_CONFIG_MAPS = RESOURCES["ConfigMap"]

CLIENT_CA_KEY = "client-ca-file"
PROXY_CA_KEY = "requestheader-client-ca-file"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class ClusterLookup:
    """Fills whichever part is given from the ConfigMap; `changed` is called when a CA is new."""

    def __init__(
        self,
        client: KubeClient,
        certificates: ClientCertificates | None,
        proxies: Proxies | None,
        changed: Callable[[], None],
    ) -> None:
        self._client = client
        self._certificates = certificates
        self._proxies = proxies
        self._changed = changed

    async def read(self) -> None:
        """Read it once; it need not exist. `MoorageError` if that cannot be found out."""
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                found = await self._client.get(_CONFIG_MAPS, NAMESPACE, NAME)
        except TimeoutError:
            raise ApiError(0, "Timeout", f"no answer within {_LOOKUP_SECONDS:g} s") from None
        except ApiError as error:
            if error.is_not_found:
                return
            if error.status == 403:
                log.warning(
                    "Unable to get configmap/%s in %s.  Usually fixed by 'kubectl create"
                    " rolebinding -n %s ROLEBINDING_NAME --role=%s --serviceaccount=YOUR_NS:"
                    "YOUR_SA'",
                    *(NAME, NAMESPACE, NAMESPACE, _ROLE),
                )
            raise
        self._take(found)

    async def follow(self) -> None:
        """Keep up with it until cancelled."""
        await follow_object(
            self._client,
            _CONFIG_MAPS,
            NAMESPACE,
            NAME,
            self._noticed,
            timer=WallTimer(),
            random=Random(),
        )

    def _noticed(self, change: str, found: Json) -> None:
        if change != "DELETED":
            try:
                self._take(found)
            except InputError as error:
                log.error("%s", error)

    def _take(self, body: Json) -> None:
        """Use what it says; a part that cannot be used leaves the old one in place."""
        try:
            found = msgspec.convert(body, _ConfigMap)
        except msgspec.ValidationError as error:
            raise InputError(f"configmap/{NAME} in {NAMESPACE} cannot be read: {error}") from None
        changed = False
        if self._certificates is not None:
            changed |= self._load(self._certificates.bundle, found.data, CLIENT_CA_KEY)
        if self._proxies is not None:
            self._proxies.headers = proxy_headers(found.data)
            changed |= self._load(self._proxies.bundle, found.data, PROXY_CA_KEY)
        if changed:
            self._changed()

    @staticmethod
    def _load(bundle: Bundle, data: Mapping[str, str], key: str) -> bool:
        if not data.get(key):
            return False
        try:
            return bundle.load(data[key].encode())
        except InputError as error:
            log.error("%s/%s failed with : %s", NAMESPACE, NAME, error)
            return False


def proxy_headers(data: Mapping[str, str]) -> RequestHeaderOptions:
    """The request-header settings: each a JSON list of strings; `InputError` if one is not."""
    return RequestHeaderOptions(
        username_headers=_strings(data, "requestheader-username-headers"),
        uid_headers=_strings(data, "requestheader-uid-headers"),
        group_headers=_strings(data, "requestheader-group-headers"),
        extra_headers_prefixes=_strings(data, "requestheader-extra-headers-prefix"),
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
