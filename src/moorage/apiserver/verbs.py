"""What each HTTP method does to a resource: a request about one as a value, and the reply to it.

Without awaiting, so that a call is atomic; whoever asked waits until what was written is durable.
Decides nothing about objects, and knows no sockets.
"""

from collections.abc import Iterable
from typing import NamedTuple

from moorage.apiserver.authentication import ANONYMOUS, ApiUser, Authentication, review
from moorage.apiserver.bodies import media_type, read_object
from moorage.apiserver.deletion import DeleteOptions
from moorage.apiserver.errors import (
    Cause,
    Json,
    bad_request,
    invalid,
    method_not_allowed,
    success,
)
from moorage.apiserver.field_ownership import FieldManager
from moorage.apiserver.field_validation import FieldValidation
from moorage.apiserver.history import Stored
from moorage.apiserver.listing import Lists
from moorage.apiserver.operations import Change, Operations
from moorage.apiserver.patching import APPLY_PATCH
from moorage.apiserver.requests import Target, flag, negotiate
from moorage.apiserver.resources import STATUS, ApiResource
from moorage.apiserver.responses import Renderer
from moorage.apiserver.selection import Selection, parse_selection, with_name
from moorage.apiserver.storage import encode
from moorage.apiserver.subresources import bind, evict, rescaled, scale_of

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class ResourceCall(NamedTuple):
    """A request about a resource."""

    method: str
    target: Target
    query: dict[str, str]
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user: ApiUser = ANONYMOUS
    agent: str = ""

    def manager(self, operation: str = "Update") -> FieldManager:
        """Who owns what is written."""
        name = self.query.get("fieldManager") or self.agent.partition("/")[0] or "unknown"
        target = self.target
        return FieldManager(name, operation, target.resource.api_version, target.subresource)

    @property
    def place(self) -> tuple[ApiResource, str, str]:
        """The resource, the namespace and the name."""
        return self.target.resource, self.target.namespace, self.target.name

    @property
    def watches(self) -> bool:
        """Is the answer a stream of changes?"""
        reads = self.method in ("GET", "HEAD") and not self.target.resource.virtual
        return reads and flag(self.query, "watch")

    @property
    def dry_run(self) -> bool:
        """Is everything to be done but the writing?"""
        value = self.query.get("dryRun")
        if value not in (None, "All"):
            raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
        return value is not None

    @property
    def selection(self) -> Selection:
        """Which objects of the collection are meant."""
        labels, fields = (self.query.get(f"{kind}Selector", "") for kind in ("label", "field"))
        found = parse_selection(self.target.resource, labels, fields)
        return with_name(found, self.target.name) if self.target.name else found

    def object(self, fields: FieldValidation) -> Json:
        """What was sent, without fields that its kind does not have."""
        return fields.object(self.body, self.content_type)


class Reply(NamedTuple):
    """The answer to a call, encoded; lists come in many parts."""

    code: int
    parts: Iterable[bytes]
    warnings: tuple[str, ...] = ()


class Verbs:
    """Answers calls about resources."""

    def __init__(
        self, operations: Operations, lists: Lists, authentication: Authentication
    ) -> None:
        self._operations = operations
        self._lists = lists
        self._authentication = authentication

    def answer(self, call: ResourceCall) -> Reply:
        """Do what is asked; `ApiStatusError` refuses it."""
        if call.method == "DELETE":
            return self._delete(call)
        if call.method not in _WRITES:
            return self._get(call)
        fields = FieldValidation(call.method, call.target, call.query.get("fieldValidation", ""))
        reply = _WRITES[call.method](self, call, fields)
        return reply._replace(warnings=tuple(fields.warnings))

    def renderer(self, call: ResourceCall) -> Renderer:
        """What writes objects as the client wants them."""
        include = call.query.get("includeObject", "")
        clock = self._operations.identities.clock
        return Renderer(call.target.resource, negotiate(call.accept), include, clock)

    def _get(self, call: ResourceCall) -> Reply:
        target = call.target
        if target.resource.virtual:
            raise method_not_allowed()
        if not target.name:
            items, metadata = self._lists.read(target, call.query, call.selection)
            return Reply(200, self.renderer(call).many(items, metadata))
        stored = self._operations.get(*call.place)
        if target.subresource == "scale":
            return _reply(scale_of(target.resource, stored))
        return self._one(call, stored)

    def _post(self, call: ResourceCall, fields: FieldValidation) -> Reply:
        obj = call.object(fields)
        resource, namespace, name = call.place
        subresource = call.target.subresource
        if resource.kind == "Binding":
            subresource, name = "binding", (obj.get("metadata") or {}).get("name") or ""
        elif resource.virtual:
            return _reply(review(self._authentication, call.user, resource.kind, obj), 201)
        if subresource == "binding":
            bind(self._operations, namespace, name, obj, dry_run=call.dry_run)
        elif subresource == "eviction":
            evict(self._operations, namespace, name, obj)
        elif name or subresource or (resource.namespaced and not namespace):
            raise method_not_allowed()
        else:
            stored = self._operations.create(resource, namespace, obj, dry_run=call.dry_run)
            return self._one(call, stored, 201)
        return _reply(success(201), 201)

    def _put(self, call: ResourceCall, fields: FieldValidation) -> Reply:
        obj = call.object(fields)
        target = call.target
        if not target.name or target.resource.virtual:
            raise method_not_allowed()
        if target.subresource == "scale":
            return self._rescale(call, lambda _: obj)
        subresource = "" if target.subresource == "finalize" else target.subresource
        stored, created = self._operations.replace(
            *call.place, obj, subresource=subresource, dry_run=call.dry_run, manager=call.manager()
        )
        return self._one(call, stored, 201 if created else 200)

    def _patch(self, call: ResourceCall, fields: FieldValidation) -> Reply:
        target = call.target
        if not target.name or target.resource.virtual:
            raise method_not_allowed()
        if media_type(call.content_type) == APPLY_PATCH:
            return self._apply(call, fields)
        if "force" in call.query:
            text = "Forbidden: may not be specified for non-apply patch"
            cause = Cause("force", text, "FieldValueForbidden")
            raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
        change = fields.patch(call.body, call.content_type)
        if target.subresource == "scale":
            return self._rescale(call, change)
        stored = self._operations.change(
            *call.place,
            change,
            subresource=target.subresource,
            dry_run=call.dry_run,
            manager=call.manager(),
        )
        return self._one(call, stored)

    def _apply(self, call: ResourceCall, fields: FieldValidation) -> Reply:
        resource, part = call.target.resource, call.target.subresource
        if not call.query.get("fieldManager"):
            text = "Required value: is required for apply patch"
            cause = Cause("fieldManager", text, "FieldValueRequired")
            raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
        config = fields.applied(call.body)
        if part == STATUS:
            config = {name: config[name] for name in config if name != "spec"}
        elif STATUS in resource.subresources:
            config.pop("status", None)
        stored, created = self._operations.apply(
            *call.place,
            config,
            call.manager("Apply"),
            force=flag(call.query, "force"),
            dry_run=call.dry_run,
        )
        return self._one(call, stored, 201 if created else 200)

    def _rescale(self, call: ResourceCall, change: Change) -> Reply:
        resource = call.target.resource

        def rescale(obj: Json) -> Json:
            present = scale_of(resource, self._operations.get(*call.place), to_change=True)
            return rescaled(resource, obj, change(present))

        stored = self._operations.change(
            *call.place, rescale, dry_run=call.dry_run, manager=call.manager()
        )
        return _reply(scale_of(resource, stored))

    def _delete(self, call: ResourceCall) -> Reply:
        sent = read_object(call.body, call.content_type) if call.body else {}
        options = DeleteOptions.read(sent, call.query)
        resource, namespace, name = call.place
        if (
            call.target.subresource
            or resource.virtual
            or (resource.namespaced and name and not namespace)
        ):
            raise method_not_allowed()
        if not name:
            deleted = self._operations.delete_all(resource, namespace, call.selection, options)
            metadata = {"resourceVersion": str(self._operations.store.version)}
            return Reply(200, self.renderer(call).many(deleted, metadata))
        stored, gone = self._operations.delete(resource, namespace, name, options)
        if not gone or resource.returned:
            return self._one(call, stored)
        details: Json = {"name": name, "kind": resource.plural, "uid": stored.uid}
        if resource.group:
            details["group"] = resource.group
        return _reply(success(200, details))

    def _one(self, call: ResourceCall, stored: Stored, code: int = 200) -> Reply:
        return Reply(code, (self.renderer(call).one(stored),))


_WRITES = {"POST": Verbs._post, "PUT": Verbs._put, "PATCH": Verbs._patch}


def _reply(value: Json, code: int = 200) -> Reply:
    return Reply(code, (encode(value),))
