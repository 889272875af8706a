"""The secure port as a whole: server, authentication and authorisation of the flags, as one value.

What `app` uses. Making it opens the port and reads every file named in a flag, in upstream's order,
so that the first thing wrong is the one that upstream would name; `start` serves.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from moorage.http.application import build_application
from moorage.http.delegation import DelegatedAuthentication, DelegatedAuthorization
from moorage.http.endpoints import SILENT, Endpoints, Observer
from moorage.http.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.http.server import GRACE, SecureServer
from moorage.kube.access_discovery import SERVICE_ACCOUNT


class SecurePort:
    """HTTPS with delegated authentication and authorisation."""

    def __init__(
        self,
        serving: ServingOptions,
        authentication: AuthenticationOptions,
        authorization: AuthorizationOptions,
        *,
        observer: Observer = SILENT,
        env: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
        server: SecureServer | None = None,
    ) -> None:
        self._observer = observer
        self.server = server or SecureServer(serving)
        try:
            self.authentication = DelegatedAuthentication(
                authentication, observer=observer, env=env, service_account=service_account
            )
            self.authorization = DelegatedAuthorization(
                authorization, observer=observer, env=env, service_account=service_account
            )
        except BaseException:
            self.server.abandon()
            raise
        self.authentication.on_change(self.server.reload_soon)

    async def look_up(self) -> None:
        """Ask the cluster whom to trust; `InputError` if that fails and must not."""
        await self.authentication.start()

    async def start(self, endpoints: Endpoints) -> None:
        """Serve the pages."""
        authenticator = self.authentication.authenticator
        authorizer = self.authorization.authorizer
        app = build_application(endpoints, authenticator, authorizer, self._observer)
        await self.server.start(app, authenticator.bundles)

    async def stop(self, grace: float = GRACE) -> None:
        """Accept no more, let requests end within the grace, close everything."""
        await self.server.stop(grace)
        await self.authentication.close()
        await self.authorization.close()
