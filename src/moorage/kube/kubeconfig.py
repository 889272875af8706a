"""Kubeconfig files: read, merged and resolved to one `Access`.

Owns the file format and its rules (first file wins, paths are relative to their file, which
context counts). Runs no plugin and opens no connection; why there is no library in its place is
explained in docs/decisions/0010-kubeconfig-library.md.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from moorage.errors import KubeconfigError
from moorage.kube.access import Access, ExecPlugin, Impersonation, OidcProvider, Pem, url_problem
from moorage.model.decode import explain, without_nulls
from moorage.redaction import redacted_url

T = TypeVar("T")

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_EXEC_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


# The parts of the file; unknown fields are skipped.


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] = []


class _AuthProvider(msgspec.Struct, rename="kebab"):
    name: str = ""
    config: dict[str, str] = {}


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    auth_provider: _AuthProvider | None = None
    exec: ExecPlugin | None = None


class _Context(msgspec.Struct, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Found(msgspec.Struct):
    """A named entry and the file it was found in."""

    file: Path
    content: Any


class Kubeconfig:
    """Several files, merged: for every name the first file that has it wins."""

    def __init__(self, paths: Sequence[str | Path], *, must_exist: bool) -> None:
        self.source = ", ".join(str(path) for path in paths)
        self.current_context = ""
        self._entries: dict[str, dict[str, _Found]] = {"cluster": {}, "user": {}, "context": {}}
        self.files = 0
        for path in map(Path, paths):
            document = _read(path, must_exist)
            if document is not None:
                self.files += 1
                self._merge(path, document)

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of all contexts."""
        return tuple(self._entries["context"])

    @property
    def is_empty(self) -> bool:
        """Is there nothing in it at all?"""
        return not any(self._entries.values())

    def access(self, context: str = "", master: str = "") -> Access:
        """The server and user of a context (else the current one); `master` replaces the server."""
        name = context or self.current_context
        if not name:
            known = ", ".join(self.contexts) or "none"
            raise KubeconfigError(
                f"{self.source}: current-context is not set; the contexts are: {known}"
            )
        where = f'the context "{name}"'
        chosen = self._get("context", name, _Context, where)
        cluster_file, cluster = self._cluster(chosen.cluster, where, master)
        access = _of_cluster(cluster_file, cluster, master, self.source)
        access = msgspec.structs.replace(access, namespace=chosen.namespace or "default")
        if not chosen.user:
            return access
        user = self._get("user", chosen.user, _User, f'the user "{chosen.user}" of {where}')
        file = self._entries["user"][chosen.user].file
        return _with_user(access, file, chosen.user, user, cluster)

    def _cluster(self, name: str, where: str, master: str) -> tuple[Path, _Cluster]:
        if name not in self._entries["cluster"] and master:
            return Path(), _Cluster()
        cluster = self._get("cluster", name, _Cluster, f'the cluster "{name}" of {where}')
        if not (cluster.server or master):
            raise KubeconfigError(f'{self.source}: the cluster "{name}" names no server')
        return self._entries["cluster"][name].file, cluster

    def _get(self, sort: str, name: str, into: type[T], what: str) -> T:
        found = self._entries[sort].get(name)
        if found is None:
            raise KubeconfigError(f"{self.source}: {what} does not exist")
        return _convert(found.content, into, f'{found.file}: {sort} "{name}"')

    def _merge(self, path: Path, document: dict[str, Any]) -> None:
        current = document.get("current-context") or ""
        if isinstance(current, dict | list):
            raise KubeconfigError(f"{path}: current-context must be a string")
        self.current_context = self.current_context or str(current)
        for sort, known in self._entries.items():
            items = document.get(f"{sort}s") or []
            if not isinstance(items, list):
                raise KubeconfigError(f"{path}: {sort}s must be a list")
            for item in items:
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise KubeconfigError(f"{path}: an entry of {sort}s has no name")
                known.setdefault(item["name"], _Found(path, item.get(sort) or {}))


def default_paths(env: Mapping[str, str]) -> tuple[str, ...]:
    """The files that kubectl would read: those of KUBECONFIG, else `~/.kube/config`."""
    listed = env.get("KUBECONFIG", "")
    if listed:
        return tuple(path for path in dict.fromkeys(listed.split(os.pathsep)) if path)
    home = env.get("HOME") or str(Path.home())
    return (str(Path(home, ".kube", "config")),)


def _read(path: Path, must_exist: bool) -> dict[str, Any] | None:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if must_exist:
            raise KubeconfigError(f"stat {path}: no such file or directory") from None
        return None
    except OSError as error:
        doing = "read" if isinstance(error, IsADirectoryError) else "open"
        reason = (error.strerror or str(error)).lower()
        raise KubeconfigError(
            f'error loading config file "{path}": {doing} {path}: {reason}'
        ) from None
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        summary = " ".join(str(error).split())
        raise KubeconfigError(f"kubeconfig {path} is not YAML: {summary}") from None
    except (RecursionError, ValueError) as error:  # a date that is none is a ValueError
        deep = isinstance(error, RecursionError)
        summary = "it is nested too deeply" if deep else str(error)
        raise KubeconfigError(f"kubeconfig {path} cannot be read: {summary}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise KubeconfigError(f"kubeconfig {path} is not a mapping")
    return document


def _convert(plain: Any, into: type[T], where: str) -> T:
    # YAML turns 1234 and true into other types than strings; in these files they are meant as text.
    cleaned: Any = None
    try:
        cleaned = without_nulls(plain)
        return msgspec.convert(cleaned, into, strict=True)
    except RecursionError:
        raise KubeconfigError(f"{where}: it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{where}: {explain(str(error), cleaned)}") from None


def _inline(text: str, path: str, file: Path, where: str) -> Pem:
    """Inline data goes before a file, as everywhere in kubeconfig."""
    if text:
        try:
            return Pem(data=base64.b64decode("".join(text.split()), validate=True))
        except (binascii.Error, ValueError):
            raise KubeconfigError(f"{file}: {where} is not base64") from None
    return Pem(path=_resolved(file, path)) if path else Pem()


def _resolved(file: Path, path: str) -> str:
    # Absolute: a program named `./plugin` beside the file must not be looked for in PATH.
    return str(file.absolute().parent / path) if path else ""


def server_url(server: str, tls: bool) -> str:
    """A server as a URL; without a scheme it is http unless something speaks for TLS."""
    url = server if "://" in server else f"{'https' if tls else 'http'}://{server}"
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest.strip("/"):
        raise KubeconfigError(f'the server "{redacted_url(server)}" is not an http or https URL')
    if wrong := url_problem(url):
        shown = redacted_url(server)
        raise KubeconfigError(f'the server "{shown}" is not an http or https URL: {wrong}')
    return url.rstrip("/")


def _server(cluster: _Cluster, master: str, source: str, *, tls: bool) -> str:
    if master:
        return server_url(master, tls)
    try:
        return server_url(cluster.server, tls)
    except KubeconfigError as error:
        raise KubeconfigError(f"{source}: {error}") from None


def _of_cluster(file: Path, cluster: _Cluster, master: str, source: str) -> Access:
    ca = _inline(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        file,
        "certificate-authority-data",
    )
    if ca and cluster.insecure_skip_tls_verify:
        raise KubeconfigError(
            f"{source}: a certificate authority together with insecure-skip-tls-verify is not"
            " allowed; remove one of them"
        )
    return Access(
        server=_server(cluster, master, source, tls=bool(ca)),
        source=source,
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
    )


def _with_user(access: Access, file: Path, name: str, user: _User, cluster: _Cluster) -> Access:
    where = f'user "{name}"'
    certificate = _inline(
        user.client_certificate_data,
        user.client_certificate,
        file,
        f"client-certificate-data of {where}",
    )
    key = _inline(user.client_key_data, user.client_key, file, f"client-key-data of {where}")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise KubeconfigError(f"{file}: {where} has no {missing} beside its counterpart")
    return msgspec.structs.replace(
        access,
        client_certificate=certificate,
        client_key=key,
        token=user.token,
        token_file=_resolved(file, user.token_file),
        username=user.username,
        password=user.password,
        exec_plugin=_exec(file, where, user.exec, cluster) if user.exec else None,
        oidc=_oidc(file, where, user.auth_provider) if user.auth_provider else None,
        impersonate=_impersonation(file, where, user),
    )


def _impersonation(file: Path, where: str, user: _User) -> Impersonation:
    if not user.as_ and (user.as_uid or user.as_groups or user.as_user_extra):
        raise KubeconfigError(f"{file}: {where} has as-groups, as-uid or as-user-extra but no as")
    extra = tuple((key, tuple(values)) for key, values in sorted(user.as_user_extra.items()))
    return Impersonation(user.as_, user.as_uid, tuple(user.as_groups), extra)


def _exec(file: Path, where: str, plugin: ExecPlugin, cluster: _Cluster) -> ExecPlugin:
    if not plugin.command:
        raise KubeconfigError(f"{file}: exec of {where} names no command")
    if plugin.api_version not in _EXEC_VERSIONS:
        raise KubeconfigError(
            f'{file}: exec of {where}: apiVersion "{plugin.api_version}" is not'
            f" {' or '.join(_EXEC_VERSIONS)}"
        )
    # A command with a slash is relative to the file; a bare one is looked for in PATH.
    bare = os.sep not in plugin.command
    command = plugin.command if bare else _resolved(file, plugin.command)
    extensions = {item.name: item.extension for item in cluster.extensions}
    return msgspec.structs.replace(
        plugin, command=command, cluster_config=extensions.get(_EXEC_EXTENSION)
    )


def _oidc(file: Path, where: str, provider: _AuthProvider) -> OidcProvider:
    if provider.name != "oidc":
        raise KubeconfigError(
            f'{file}: {where}: the auth provider "{provider.name}" is not supported; only oidc is,'
            " and for the others there are exec plugins"
        )
    config = provider.config
    for field in ("idp-issuer-url", "client-id"):
        if not config.get(field):
            raise KubeconfigError(f"{file}: {where}: the auth provider oidc needs {field}")
    return OidcProvider(
        issuer_url=config["idp-issuer-url"].rstrip("/"),
        client_id=config["client-id"],
        client_secret=config.get("client-secret", ""),
        id_token=config.get("id-token", ""),
        refresh_token=config.get("refresh-token", ""),
        ca=_inline(
            config.get("idp-certificate-authority-data", ""),
            config.get("idp-certificate-authority", ""),
            file,
            f"idp-certificate-authority-data of {where}",
        ),
    )
