"""From an HTTP request to an operation and back.

One function per method; routing is a look-up, because the hot requests (bindings, status patches)
must not pay for a general router. Decides nothing about objects.
"""

import logging
from typing import NamedTuple

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
from moorage.apiserver.resources import ApiResource
from moorage.apiserver.responses import Renderer, answer, answer_error, answer_json, answer_parts
from moorage.apiserver.selection import Selection, parse_selection, with_name
from moorage.apiserver.subresources import bind, evict, rescaled, scale_of
from moorage.apiserver.watching import Watches

Query = dict[str, str]

_log = logging.getLogger(__name__)


class _Call(NamedTuple):
    """A request about a resource."""

    request: web.BaseRequest
    target: Target
    query: Query
    user: ApiUser

    @property
    def place(self) -> tuple[ApiResource, str, str]:
        """The resource, the namespace and the name."""
        return self.target.resource, self.target.namespace, self.target.name

    @property
    def dry_run(self) -> bool:
        value = self.query.get("dryRun")
        if value not in (None, "All"):
            raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
        return value is not None

    @property
    def selection(self) -> Selection:
        labels, fields = (self.query.get(f"{kind}Selector", "") for kind in ("label", "field"))
        return parse_selection(self.target.resource, labels, fields)

    async def body(self) -> Json:
        """The object that was sent; programs may leave out its type, as the Python client does."""
        headers = self.request.headers
        given = headers.get("Content-Type", "")
        if not given and not is_from_browser(headers):
            given = "application/json"
        return read_object(await self.request.read(), given)


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
            fault = self._faults.pick(request.method, target)
            if fault is not None and not fault.after:
                return _struck(fault, request)
            response = await method(_Call(request, target, query, user))
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

    async def _get(self, call: _Call) -> web.StreamResponse:
        target = call.target
        if target.resource.virtual:
            raise method_not_allowed()
        watch = flag(call.query, "watch")
        renderer = self._renderer(call)
        if target.name and not watch:
            stored = self._operations.get(*call.place)
            if target.subresource == "scale":
                return answer_json(scale_of(stored))
            return answer(renderer.one(stored))
        selection = call.selection
        if watch:
            if target.name:
                selection = with_name(selection, target.name)
            return await self._watches.serve(call.request, target, call.query, selection, renderer)
        items, metadata = self._lists.read(target, call.query, selection)
        return await answer_parts(call.request, renderer.many(items, metadata))

    def _renderer(self, call: _Call) -> Renderer:
        form = negotiate(call.request.headers.get("Accept", ""))
        include = call.query.get("includeObject", "")
        return Renderer(call.target.resource, form, include, self._operations.identities.clock)

    # ---- writing ----

    async def _post(self, call: _Call) -> web.StreamResponse:
        obj = await call.body()
        resource, namespace, name = call.place
        subresource = call.target.subresource
        if resource.kind == "Binding":
            subresource, name = "binding", (obj.get("metadata") or {}).get("name") or ""
        elif resource.virtual:
            return answer_json(review(self._authentication, call.user, resource.kind, obj), 201)
        if subresource == "binding":
            bind(self._operations, namespace, name, obj, dry_run=call.dry_run)
        elif subresource == "eviction":
            evict(self._operations, namespace, name, obj)
        elif name or subresource or (resource.namespaced and not namespace):
            raise method_not_allowed()
        else:
            stored = self._operations.create(resource, namespace, obj, dry_run=call.dry_run)
            return await self._written(call, stored, 201)
        await self._store.durable()
        return answer_json(success(201), 201)

    async def _put(self, call: _Call) -> web.StreamResponse:
        obj = await call.body()
        target = call.target
        if not target.name or target.resource.virtual:
            raise method_not_allowed()
        if target.subresource == "scale":
            return await self._rescale(call, lambda _: obj)
        subresource = "" if target.subresource == "finalize" else target.subresource
        stored, created = self._operations.replace(
            *call.place, obj, subresource=subresource, dry_run=call.dry_run
        )
        return await self._written(call, stored, 201 if created else 200)

    async def _patch(self, call: _Call) -> web.StreamResponse:
        target = call.target
        body = await call.request.read()
        if not target.name or target.resource.virtual:
            raise method_not_allowed()
        content_type = call.request.headers.get("Content-Type", "")
        change = patch_function(body, content_type)
        if target.subresource == "scale":
            return await self._rescale(call, change)
        try:
            stored = self._operations.change(
                *call.place, change, subresource=target.subresource, dry_run=call.dry_run
            )
        except ApiStatusError as error:
            applies = media_type(content_type) == APPLY_PATCH and not target.subresource
            if error.code != 404 or not applies:
                raise
            return await self._written(call, self._apply_new(call, body), 201)
        return await self._written(call, stored)

    def _apply_new(self, call: _Call, body: bytes) -> Stored:
        resource, namespace, name = call.place
        obj = applied_object(body)
        metadata = metadata_of(obj)
        metadata.setdefault("name", name)
        if metadata.get("uid") or metadata.get("resourceVersion"):
            raise not_found(resource.plural, resource.group, name)
        return self._operations.create(resource, namespace, obj, dry_run=call.dry_run)

    async def _rescale(self, call: _Call, change: Change) -> web.Response:
        def rescale(obj: Json) -> Json:
            return rescaled(obj, change(scale_of(self._operations.get(*call.place))))

        stored = self._operations.change(*call.place, rescale, dry_run=call.dry_run)
        await self._store.durable()
        return answer_json(scale_of(stored))

    async def _delete(self, call: _Call) -> web.StreamResponse:
        body = await call.body() if await call.request.read() else {}
        options = DeleteOptions.read(body, call.query)
        resource, namespace, name = call.place
        if (
            call.target.subresource
            or resource.virtual
            or (resource.namespaced and name and not namespace)
        ):
            raise method_not_allowed()
        if not name:
            deleted = self._operations.delete_all(resource, namespace, call.selection, options)
            await self._store.durable()
            metadata = {"resourceVersion": str(self._store.version)}
            return await answer_parts(call.request, self._renderer(call).many(deleted, metadata))
        stored, gone = self._operations.delete(resource, namespace, name, options)
        if not gone or resource.returned:
            return await self._written(call, stored)
        await self._store.durable()
        details: Json = {"name": name, "kind": resource.plural, "uid": stored.uid}
        if resource.group:
            details["group"] = resource.group
        return answer_json(success(200, details))

    async def _written(self, call: _Call, stored: Stored, code: int = 200) -> web.Response:
        """Answer with the object once it is safe."""
        await self._store.durable()
        return answer(self._renderer(call).one(stored), code)


def _struck(fault: Fault, request: web.BaseRequest) -> web.Response:
    if fault.error is None:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
    return answer_error(fault.error)
