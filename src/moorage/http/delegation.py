"""Delegated authentication and authorisation, put together from the flags.

Owns which parts there are, where their client and their authorities come from, and the texts when
something named in a flag cannot be used. The rules themselves are in `authentication` and
`authorization`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from moorage.errors import InputError, KubeconfigError, MoorageError
from moorage.http.authentication import (
    Authenticator,
    ClientCertificates,
    Proxies,
    Tokens,
)
from moorage.http.authorization import AccessReviews, Authorizer, OpenPaths
from moorage.http.certificates import Bundle
from moorage.http.cluster_lookup import CLIENT_CA_KEY, NAME, NAMESPACE, PROXY_CA_KEY, ClusterLookup
from moorage.http.endpoints import SILENT, PortObserver
from moorage.http.options import AuthenticationOptions, AuthorizationOptions
from moorage.http.reviews import Reviewer
from moorage.kube.access import Access
from moorage.kube.access_discovery import SERVICE_ACCOUNT, in_cluster_access, user_access
from moorage.kube.client import KubeClient

log = logging.getLogger(__name__)

QPS = 200.0
BURST = 400
FILES_PERIOD = 5.0
"""How often authority files are looked at for having been replaced."""


class DelegatedAuthentication:
    """The authenticator of the flags; `start` looks up the rest, `close` ends it."""

    def __init__(
        self,
        options: AuthenticationOptions,
        *,
        observer: PortObserver = SILENT,
        env: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> None:
        self._options = options
        self._files: list[Bundle] = []
        self.changed = asyncio.Event()
        """Is set after every change of an authority."""
        self._tasks: list[asyncio.Task[None]] = []
        access = _access("authentication", options.kubeconfig, env, service_account)
        self._client = None if access is None else KubeClient(access, qps=QPS, burst=BURST)
        certificates = self._certificates(observer)
        proxies = self._proxies()
        tokens = None
        if self._client is not None:
            reviewer = Reviewer(self._client, observer=observer)
            tokens = Tokens(reviewer, options.token_cache_seconds, observer=observer)
        self.authenticator = Authenticator(proxies, certificates, tokens, observer=observer)
        self._lookup = self._cluster_lookup(certificates, proxies)

    async def start(self) -> None:
        """Look up what the flags leave open and keep up with it; `InputError` if it must be."""
        if self._lookup is not None:
            try:
                await self._lookup.read()
            except MoorageError as error:
                self._lookup_failed(error)
            self._tasks.append(asyncio.create_task(self._lookup.follow(), name="cluster lookup"))
        if self._files:
            self._tasks.append(asyncio.create_task(self._follow_files(), name="client CA files"))

    async def close(self) -> None:
        """End everything that `start` has begun."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self.authenticator.tokens is not None:
            await self.authenticator.tokens.close()
        if self._client is not None:
            await self._client.close()

    def reload_files(self) -> None:
        """Look at the authority files; a bad one leaves the old authorities in place."""
        changed = False
        for file in self._files:
            try:
                changed |= file.reload()
            except InputError as error:
                log.error("%s failed with : %s", file.name, error)
        if changed:
            self.changed.set()

    async def __aenter__(self) -> "DelegatedAuthentication":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _certificates(self, observer: PortObserver) -> ClientCertificates | None:
        refused = "unable to load client CA provider"
        bundle = self._bundle("client-ca-bundle", self._options.client_ca_file, refused)
        if bundle is None and not self._cannot_look_up("client-ca-file", "client certificate"):
            bundle = Bundle(f"client-ca::{NAMESPACE}::{NAME}::{CLIENT_CA_KEY}")
        return None if bundle is None else ClientCertificates(bundle, observer)

    def _proxies(self) -> Proxies | None:
        options = self._options.request_header
        refused = "unable to create request header authentication config"
        bundle = self._bundle("request-header", options.client_ca_file, refused)
        what = "requestheader-client-ca-file"
        if bundle is None and not self._cannot_look_up(what, "request-header client certificate"):
            bundle = Bundle(f"client-ca::{NAMESPACE}::{NAME}::{PROXY_CA_KEY}")
        return None if bundle is None else Proxies(bundle, options)

    def _bundle(self, purpose: str, path: str, refused: str) -> Bundle | None:
        """The authorities in the file of a flag, if there is one."""
        if not path:
            return None
        file = Bundle(f"{purpose}::{path}", path=path)
        try:
            file.reload()
        except InputError as error:
            raise InputError(f"{refused}: {error}") from None
        self._files.append(file)
        return file

    def _cannot_look_up(self, what: str, sort: str) -> bool:
        if self._options.skip_lookup:
            return True
        if self._client is not None:
            return False
        log.warning(
            "No authentication-kubeconfig provided in order to lookup %s in configmap/%s in %s, so"
            " %s authentication won't work.",
            *(what, NAME, NAMESPACE, sort),
        )
        return True

    def _cluster_lookup(
        self, certificates: ClientCertificates | None, proxies: Proxies | None
    ) -> ClusterLookup | None:
        """Following the ConfigMap, for the parts that no flag has filled."""
        options = self._options
        if self._client is None or options.skip_lookup:
            return None
        wanted = None if options.client_ca_file else certificates
        asked = None if options.request_header.client_ca_file else proxies
        if wanted is None and asked is None:
            return None
        return ClusterLookup(self._client, wanted, asked, self.changed.set)

    def _lookup_failed(self, error: MoorageError) -> None:
        if not self._options.tolerate_lookup_failure:
            raise InputError(
                f"unable to load configmap based request-header-client-ca-file: {error}"
            ) from error
        log.warning("Error looking up in-cluster authentication configuration: %s", error)
        log.warning(
            "Continuing without authentication configuration. This may treat all requests as"
            " anonymous."
        )
        log.warning(
            "To require authentication configuration lookup to succeed, set"
            " --authentication-tolerate-lookup-failure=false"
        )

    async def _follow_files(self) -> None:
        while True:
            await asyncio.sleep(FILES_PERIOD)
            self.reload_files()


class DelegatedAuthorization:
    """The authorizer of the flags; `close` ends its connections."""

    def __init__(
        self,
        options: AuthorizationOptions,
        *,
        observer: PortObserver = SILENT,
        env: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> None:
        access = _access("authorization", options.kubeconfig, env, service_account)
        paths = OpenPaths(options.always_allow_paths)
        self._client: KubeClient | None = None
        reviews = None
        if access is None:
            log.warning(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization"
                " tokens won't work."
            )
        else:
            self._client = KubeClient(access, qps=QPS, burst=BURST)
            reviews = AccessReviews(
                Reviewer(self._client, observer=observer),
                options.allowed_cache_seconds,
                options.denied_cache_seconds,
            )
        self.authorizer = Authorizer(paths, reviews, observer=observer)

    async def close(self) -> None:
        """Give up what is still asked and close the connections."""
        if self.authorizer.reviews is not None:
            await self.authorizer.reviews.close()
        if self._client is not None:
            await self._client.close()

    async def __aenter__(self) -> "DelegatedAuthorization":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _access(
    purpose: str, kubeconfig: str, env: Mapping[str, str], service_account: Path
) -> Access | None:
    """The kubeconfig named, else the pod's service account; None where there is neither."""
    if not kubeconfig:
        return in_cluster_access(env=env, service_account=service_account)
    try:
        return user_access(kubeconfig, env=env)
    except KubeconfigError as error:
        prefix = f"failed to get delegated {purpose} kubeconfig: "
        # Upstream says it twice for authentication where there is no such file.
        twice = purpose == "authentication" and not Path(kubeconfig).exists()
        raise InputError(f"{prefix}{prefix if twice else ''}{error}") from None
