"""OpenID Connect: an identity token, refreshed at its issuer when it has expired.

Owns the `oidc` auth provider of kubeconfig (deprecated upstream in favour of exec plugins, yet in
use). A refreshed token stays in memory only: kubeconfig files are never written.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from moorage.errors import KubeconfigError
from moorage.kube.access import OidcProvider
from moorage.kube.credentials import Credential, basic_authorization
from moorage.kube.proxies import proxy_for
from moorage.kube.timing import Timer
from moorage.kube.tls import client_context

EXPIRY_LEEWAY = 10.0
TIMEOUT = 30.0


class OidcSource:
    """The identity token of kubeconfig as long as it is valid, then refreshed ones."""

    def __init__(self, provider: OidcProvider, timer: Timer, env: Mapping[str, str]) -> None:
        self._provider = provider
        self._timer = timer
        self._env = env
        self._id_token = provider.id_token
        self._refresh_token = provider.refresh_token

    async def fetch(self) -> Credential:
        """The token at hand if it is still good (it is tried once), else a refreshed one."""
        at_hand, self._id_token = self._id_token, ""
        if at_hand:
            expires = self._expiry(at_hand)
            if expires is None or self._timer.now() < expires:
                return Credential(token=at_hand, expires=expires)
        fresh = await self._refresh()
        return Credential(token=fresh, expires=self._expiry(fresh))

    async def _refresh(self) -> str:
        provider = self._provider
        if not self._refresh_token:
            raise self._error("the id-token has expired and there is no refresh-token")
        context = client_context(provider.ca) if provider.issuer_url.startswith("https") else None
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                found = await self._ask(
                    session,
                    "GET",
                    f"{provider.issuer_url}/.well-known/openid-configuration",
                    ssl=context or True,
                )
                answer = await self._ask(
                    session,
                    "POST",
                    str(found.get("token_endpoint") or ""),
                    ssl=context or True,
                    headers={
                        "Authorization": basic_authorization(
                            quote(provider.client_id), quote(provider.client_secret)
                        )
                    },
                    data={
                        "grant_type": "refresh_token",
                        "refresh_token": self._refresh_token,
                        "client_id": provider.client_id,
                    },
                )
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._error(f"the token cannot be refreshed: {error or 'no answer'}") from None
        token = answer.get("id_token")
        if not isinstance(token, str) or not token:
            raise self._error("the answer to the refresh has no id_token")
        self._refresh_token = str(answer.get("refresh_token") or self._refresh_token)
        return token

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, url: str, **options: Any
    ) -> dict[str, Any]:
        proxy = proxy_for(url, self._env)
        async with session.request(method, url, proxy=proxy, **options) as response:
            body = await response.read()
            if response.status != 200:
                raise self._error(f"{url} answered {response.status} {response.reason}")
        answer = msgspec.json.decode(body)
        if not isinstance(answer, dict):
            raise self._error(f"{url} did not answer with a JSON object")
        return answer

    def _expiry(self, token: str) -> float | None:
        """When the token runs out, as it says itself; its signature is the server's business."""
        parts = token.split(".")
        if len(parts) != 3:
            raise self._error("the id-token is not a JSON web token")
        try:
            padded = parts[1] + "=" * (-len(parts[1]) % 4)
            claims = msgspec.json.decode(base64.urlsafe_b64decode(padded))
        except (binascii.Error, ValueError):
            raise self._error("the id-token is not a JSON web token") from None
        expires = claims.get("exp") if isinstance(claims, dict) else None
        return float(expires) - EXPIRY_LEEWAY if isinstance(expires, int | float) else None

    def _error(self, complaint: str) -> KubeconfigError:
        return KubeconfigError(f"OIDC issuer {self._provider.issuer_url}: {complaint}")
