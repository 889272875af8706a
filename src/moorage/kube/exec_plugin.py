"""Credential plugins: run a program and read an ExecCredential from its output.

Owns the protocol `client.authentication.k8s.io` (v1 and v1beta1). Keeps nothing: how long an
answer is good for is `credentials`' business.
"""

import asyncio
import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from cryptography.x509 import load_pem_x509_certificate

from moorage.connections.descriptors import restore_limit
from moorage.errors import KubeconfigError
from moorage.kube.access import Access, ExecPlugin, Pem
from moorage.kube.credentials import Credential, PluginObserver
from moorage.kube.timing import parse_time

TIMEOUT = 60.0


class ExecSource:
    """A program that prints credentials."""

    def __init__(
        self,
        access: Access,
        plugin: ExecPlugin,
        env: Mapping[str, str] = os.environ,
        observe: PluginObserver | None = None,
    ) -> None:
        self._access = access
        self._plugin = plugin
        self._env = env
        self._observe = observe
        self._certificate = b""

    async def fetch(self) -> Credential:
        """Run the program and read what it prints."""
        output = await self._run()
        try:
            answer = msgspec.json.decode(output)
        except msgspec.DecodeError as error:
            raise self._error(f"did not print JSON: {error}") from None
        credential = self._read(answer)
        self._show(credential.certificate.data)
        return credential

    async def _run(self) -> bytes:
        plugin = self._plugin
        info = msgspec.json.encode(self._exec_info()).decode()
        env = {
            **self._env,
            **{variable.name: variable.value for variable in plugin.env},
            "KUBERNETES_EXEC_INFO": info,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            self._ran(1, "plugin_not_found_error")
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise self._error(f"cannot be run: {error.strerror or error}{hint}") from None
        restore_limit(process.pid)
        try:
            async with asyncio.timeout(TIMEOUT):
                output, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            self._ran(1, "client_internal_error")
            raise self._error(f"did not finish within {TIMEOUT:.0f} s") from None
        if process.returncode:
            self._ran(max(process.returncode, -1), "plugin_execution_error")
            stderr = " ".join(complaint.decode(errors="replace").split())
            raise self._error(f"failed with exit code {process.returncode}: {stderr}".rstrip(": "))
        self._ran(0, "no_error")
        return output

    def _ran(self, code: int, status: str) -> None:
        if self._observe is not None:
            self._observe.plugin_ran(code, status)

    def _show(self, certificate: bytes) -> None:
        """Tell of a certificate that is not the last one."""
        if self._observe is None or not certificate or certificate == self._certificate:
            return
        self._certificate = certificate
        try:
            found = load_pem_x509_certificate(certificate)
        except ValueError:
            return  # whoever uses it says what is wrong
        begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
        self._observe.plugin_certificate(begins.timestamp(), ends.timestamp())

    def _exec_info(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        return {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}

    def _cluster_info(self) -> dict[str, Any]:
        access = self._access
        authority = access.ca.data
        if access.ca.path and not authority:
            try:
                authority = Path(access.ca.path).read_bytes()
            except OSError as error:
                raise KubeconfigError(f"{access.ca.path}: {error.strerror or error}") from None
        values = {
            "server": access.server,
            "tls-server-name": access.tls_server_name,
            "insecure-skip-tls-verify": access.insecure,
            "certificate-authority-data": base64.b64encode(authority).decode(),
            "proxy-url": access.proxy_url,
            "config": self._plugin.cluster_config,
        }
        return {name: value for name, value in values.items() if value}

    def _read(self, answer: Any) -> Credential:
        if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
            raise self._error("did not print an ExecCredential")
        if answer.get("apiVersion") != self._plugin.api_version:
            raise self._error(
                f"answered in {answer.get('apiVersion')}, not in {self._plugin.api_version}"
            )
        status = answer.get("status")
        if not isinstance(status, dict):
            raise self._error("printed no status")
        token, certificate, key = (
            str(status.get(field) or "")
            for field in ("token", "clientCertificateData", "clientKeyData")
        )
        if bool(certificate) != bool(key):
            raise self._error("printed a client certificate or a key but not both")
        if not token and not certificate:
            raise self._error("printed neither a token nor a client certificate")
        return Credential(
            token=token,
            certificate=Pem(data=certificate.encode()),
            key=Pem(data=key.encode()),
            expires=self._expiry(status.get("expirationTimestamp")),
        )

    def _expiry(self, text: Any) -> float | None:
        if not text:
            return None
        try:
            return parse_time(str(text))
        except ValueError:
            raise self._error(f'printed the expiry time "{text}", which is no time') from None

    def _error(self, complaint: str) -> KubeconfigError:
        return KubeconfigError(f"the credential plugin {self._plugin.command} {complaint}")
