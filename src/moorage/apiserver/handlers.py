"""From an HTTP request to an operation and back.

One function per method; routing is a look-up, because the hot requests (bindings, status patches)
must not pay for a general router. Decides nothing about objects.
"""

import logging

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from moorage.apiserver.authentication import ApiUser, Authentication, review
from moorage.apiserver.bodies import media_type, read_object
from moorage.apiserver.browsers import is_cross_origin, is_from_browser, names_this_machine
from moorage.apiserver.deletion import DeleteOptions
from moorage.apiserver.discovery import answer_plain, is_public
from moorage.apiserver.errors import (
    ApiStatusError,
    Json,
    bad_request,
    cross_origin,
    method_not_allowed,
    misdirected,
    not_found,
    success,
    too_many_bytes,
)
from moorage.apiserver.faults import Fault, Faults
from moorage.apiserver.history import Stored
from moorage.apiserver.listing import Lists
from moorage.apiserver.metadata import metadata_of
from moorage.apiserver.operations import Change, Operations
from moorage.apiserver.patching import APPLY_PATCH, applied_object, patch_function
from moorage.apiserver.requests import Target, flag, negotiate, parse_target, split_path
from moorage.apiserver.responses import Renderer, answer, answer_error, answer_json, answer_parts
from moorage.apiserver.selection import parse_selection, with_name
from moorage.apiserver.subresources import bind, evict, rescaled, scale_of
from moorage.apiserver.watching import Watches

Query = dict[str, str]

_log = logging.getLogger(__name__)

# Upstream answers these deletions with the object instead of a Status.
_RETURNED_WHEN_DELETED = frozenset(
    (
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
    )
)


class Handlers:
    """Answers every request of the server."""

    def __init__(
        self,
        operations: Operations,
        lists: Lists,
        watches: Watches,
        authentication: Authentication,
        faults: Faults,
    ) -> None:
        self._operations = operations
        self._store = operations.store
        self._lists = lists
        self._watches = watches
        self._authentication = authentication
        self._faults = faults
        self.is_local = False
        """Is this only for programs on this machine, whoever they are?"""
        self._methods = {
            "GET": self._get,
            "HEAD": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; every refusal becomes a Status."""
        try:
            path, query = split_path(request.raw_path)
            if self.is_local and not names_this_machine(request.headers.get("Host", "")):
                raise misdirected()
            if is_cross_origin(request.method, request.headers):
                raise cross_origin()
            if is_public(path):
                return answer_plain(path, request, self._store.table)
            user = self._authentication.user(request.headers.get("Authorization"))
            target = parse_target(path, self._store.table.by_plural)
            if target is None:
                return answer_plain(path, request, self._store.table)
            method = self._methods.get(request.method)
            if method is None:
                raise method_not_allowed()
            fault = self._faults.pick(request.method, target) if self._faults.active else None
            if fault is not None and not fault.after:
                return _struck(fault, request)
            if request.method == "POST" and target.resource.virtual:
                response: web.StreamResponse = await self._post_virtual(
                    request, target, query, user
                )
            else:
                response = await method(request, target, query)
            return response if fault is None else _struck(fault, request)
        except ApiStatusError as error:
            return answer_error(error)
        except web.HTTPRequestEntityTooLarge:
            return answer_error(too_many_bytes())
        except BadHttpMessage as error:
            text = f"the body of the request cannot be read: {error.message}"
            return answer_error(bad_request(text))
        except Exception as error:  # the outermost guard: one bad request must not end the server
            _log.exception("%s %s", request.method, request.raw_path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return answer_error(ApiStatusError(500, "InternalError", message))

    # ---- reading ----

    async def _get(
        self, request: web.BaseRequest, target: Target, query: Query
    ) -> web.StreamResponse:
        resource = target.resource
        if resource.virtual:
            raise method_not_allowed()
        renderer = self._renderer(request, target, query)
        if target.name and not flag(query, "watch"):
            stored = self._operations.get(resource, target.namespace, target.name)
            if target.subresource == "scale":
                return answer_json(scale_of(stored))
            return answer(renderer.one(stored))
        selection = parse_selection(
            resource, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        if flag(query, "watch"):
            if target.name:
                selection = with_name(selection, target.name)
            return await self._watches.serve(request, target, query, selection, renderer)
        items, metadata = self._lists.read(target, query, selection)
        return await answer_parts(request, renderer.many(items, metadata))

    def _renderer(self, request: web.BaseRequest, target: Target, query: Query) -> Renderer:
        form = negotiate(request.headers.get("Accept", ""))
        include = query.get("includeObject", "")
        return Renderer(target.resource, form, include, self._operations.identities.clock)

    # ---- writing ----

    async def _post(
        self, request: web.BaseRequest, target: Target, query: Query
    ) -> web.StreamResponse:
        obj = await self._read_body(request)
        namespace, name = target.namespace, target.name
        dry_run = _dry_run(query)
        if target.subresource == "binding":
            bind(self._operations, namespace, name, obj, dry_run=dry_run)
        elif target.subresource == "eviction":
            evict(self._operations, namespace, name, obj)
        elif name or target.subresource or (target.resource.namespaced and not namespace):
            raise method_not_allowed()
        else:
            stored = self._operations.create(target.resource, namespace, obj, dry_run=dry_run)
            await self._store.durable()
            return self._written(request, target, query, stored, 201)
        await self._store.durable()
        return answer_json(success(201), 201)

    async def _post_virtual(
        self, request: web.BaseRequest, target: Target, query: Query, user: ApiUser
    ) -> web.Response:
        obj = await self._read_body(request)
        if target.resource.kind == "Binding":
            name = (obj.get("metadata") or {}).get("name") or ""
            bind(self._operations, target.namespace, name, obj, dry_run=_dry_run(query))
            await self._store.durable()
            return answer_json(success(201), 201)
        return answer_json(review(self._authentication, user, target.resource.kind, obj), 201)

    async def _put(
        self, request: web.BaseRequest, target: Target, query: Query
    ) -> web.StreamResponse:
        obj = await self._read_body(request)
        if not target.name or target.resource.virtual:
            raise method_not_allowed()
        if target.subresource == "scale":
            return await self._rescale(target, query, lambda _: obj)
        subresource = "" if target.subresource == "finalize" else target.subresource
        stored, created = self._operations.replace(
            target.resource,
            target.namespace,
            target.name,
            obj,
            subresource=subresource,
            dry_run=_dry_run(query),
        )
        await self._store.durable()
        return self._written(request, target, query, stored, 201 if created else 200)

    async def _patch(
        self, request: web.BaseRequest, target: Target, query: Query
    ) -> web.StreamResponse:
        body = await request.read()
        if not target.name or target.resource.virtual:
            raise method_not_allowed()
        content_type = request.headers.get("Content-Type", "")
        change = patch_function(body, content_type)
        if target.subresource == "scale":
            return await self._rescale(target, query, change)
        code = 200
        try:
            stored = self._operations.change(
                target.resource,
                target.namespace,
                target.name,
                change,
                subresource=target.subresource,
                dry_run=_dry_run(query),
            )
        except ApiStatusError as error:
            applies = media_type(content_type) == APPLY_PATCH and not target.subresource
            if error.code != 404 or not applies:
                raise
            stored = self._apply_new(target, query, body)
            code = 201
        await self._store.durable()
        return self._written(request, target, query, stored, code)

    def _apply_new(self, target: Target, query: Query, body: bytes) -> Stored:
        obj = applied_object(body)
        metadata = metadata_of(obj)
        metadata.setdefault("name", target.name)
        if metadata.get("uid") or metadata.get("resourceVersion"):
            raise not_found(target.resource.plural, target.resource.group, target.name)
        return self._operations.create(
            target.resource, target.namespace, obj, dry_run=_dry_run(query)
        )

    async def _rescale(self, target: Target, query: Query, change: Change) -> web.Response:
        def rescale(obj: Json) -> Json:
            current = self._operations.get(target.resource, target.namespace, target.name)
            return rescaled(obj, change(scale_of(current)))

        stored = self._operations.change(
            target.resource, target.namespace, target.name, rescale, dry_run=_dry_run(query)
        )
        await self._store.durable()
        return answer_json(scale_of(stored))

    async def _delete(
        self, request: web.BaseRequest, target: Target, query: Query
    ) -> web.StreamResponse:
        body = await self._read_body(request) if await request.read() else {}
        options = DeleteOptions.read(body, query)
        resource = target.resource
        if (
            target.subresource
            or resource.virtual
            or (resource.namespaced and target.name and not target.namespace)
        ):
            raise method_not_allowed()
        if not target.name:
            selection = parse_selection(
                resource, query.get("labelSelector", ""), query.get("fieldSelector", "")
            )
            deleted = self._operations.delete_all(resource, target.namespace, selection, options)
            await self._store.durable()
            renderer = self._renderer(request, target, query)
            metadata = {"resourceVersion": str(self._store.version)}
            return await answer_parts(request, renderer.many(deleted, metadata))
        stored, gone = self._operations.delete(resource, target.namespace, target.name, options)
        await self._store.durable()
        if gone and resource.storage not in _RETURNED_WHEN_DELETED:
            details: Json = {"name": target.name, "kind": resource.plural, "uid": stored.uid}
            if resource.group:
                details["group"] = resource.group
            return answer_json(success(200, details))
        return self._written(request, target, query, stored, 200)

    # ---- pieces ----

    async def _read_body(self, request: web.BaseRequest) -> Json:
        return read_object(await request.read(), _content_type(request))

    def _written(
        self, request: web.BaseRequest, target: Target, query: Query, stored: Stored, code: int
    ) -> web.Response:
        return answer(self._renderer(request, target, query).one(stored), code)


def _content_type(request: web.BaseRequest) -> str:
    """The type of a body; programs may leave it out, as the Python client does."""
    given = request.headers.get("Content-Type", "")
    return given if given or is_from_browser(request.headers) else "application/json"


def _dry_run(query: Query) -> bool:
    value = query.get("dryRun")
    if value is None:
        return False
    if value != "All":
        raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return True


def _struck(fault: Fault, request: web.BaseRequest) -> web.Response:
    if fault.error is None:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
    return answer_error(fault.error)
