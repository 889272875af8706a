"""API failures as `Status` objects, worded as kube-apiserver words them, and its size limits.

Everything that refuses a request raises `ApiStatusError`; the HTTP layer turns it into a response
and nothing else does. Clients compare reasons and messages, so both follow upstream.
Upstream: kubernetes@v1.37.1 staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go, apiserver
pkg/server/config.go and pkg/endpoints/handlers/{patch,rest}.go.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from moorage.errors import MoorageError
from moorage.model.meta import DEEPEST, is_too_deep

Json = dict[str, Any]


class Cause(NamedTuple):
    """One field that is wrong: where, what kind of wrong, and the sentence."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiStatusError(MoorageError):
    """A request that is answered with a `Status` of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after = retry_after
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after

    def status(self) -> Json:
        """The `Status` object of the answer."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            body["details"] = self.details
        body["code"] = self.code
        return body


class NotJsonError(ApiStatusError):
    """A body that is not JSON; told as of a patch, unless somebody knows better."""

    def __init__(self, why: str) -> None:
        super().__init__(400, "BadRequest", "invalid JSON patch")
        self.why = why

    @property
    def ended(self) -> bool:
        """Was it all right, but cut off?"""
        return "truncated" in self.why or "is empty" in self.why


class UnreadableError(MoorageError):
    """A value of a wrong type, as Go says it; who knows the kind makes a status of it."""


def success(code: int, details: Json | None = None) -> Json:
    """The `Status` of a request that has no object to answer with."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    body["code"] = code
    return body


def qualified(plural: str, group: str) -> str:
    """How messages call a resource: `pods`, `leases.coordination.k8s.io`."""
    return f"{plural}.{group}" if group else plural


def _about(plural: str, group: str, name: str) -> Json:
    details: Json = {"name": name}
    if group:
        details["group"] = group
    details["kind"] = plural
    return details


def not_found(plural: str, group: str, name: str) -> ApiStatusError:
    """No object of that name."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return ApiStatusError(404, "NotFound", message, _about(plural, group, name))


def no_such_path() -> ApiStatusError:
    """No such resource, group or version."""
    return ApiStatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str) -> ApiStatusError:
    """A create for a name that is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return ApiStatusError(409, "AlreadyExists", message, _about(plural, group, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> ApiStatusError:
    """A write that assumed something no longer true."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiStatusError(409, "Conflict", message, _about(plural, group, name))


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> ApiStatusError:
    """An object whose fields are wrong; `causes` name them."""
    listed = list(causes)
    texts = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in listed
    ]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _about(kind, group, name)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in listed
    ]
    message = f'{qualified(kind, group)} "{name}" is invalid: {joined}'
    return ApiStatusError(422, "Invalid", message, details)


def bad_request(message: str) -> ApiStatusError:
    """A request that cannot be understood."""
    return ApiStatusError(400, "BadRequest", message)


def unreadable(kind: str, version: str, why: str) -> ApiStatusError:
    """An object that cannot be read as one of its kind."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def unrecognized(kind: str, why: str, body: bytes) -> ApiStatusError:
    """A body that is no object at all."""
    if body.startswith(b"{"):
        shown = body[:30].decode("utf-8", "replace")
    else:
        shown = body[:30].hex() or "<empty>"
    end = " ..." if len(body) > 30 else ""
    message = f"the object provided is unrecognized (must be of type {kind}): {why} ({shown}{end})"
    return bad_request(message)


def forbidden(
    plural: str, group: str, name: str, why: str, causes: list[Json] | None = None
) -> ApiStatusError:
    """A request that admission refuses."""
    details = _about(plural, group, name)
    if causes:
        details["causes"] = causes
    message = f'{qualified(plural, group)} "{name}" is forbidden: {why}'
    return ApiStatusError(403, "Forbidden", message, details)


def unauthorized() -> ApiStatusError:
    """Credentials are missing or unknown."""
    return ApiStatusError(401, "Unauthorized", "Unauthorized")


def misdirected() -> ApiStatusError:
    """The server was asked under a name that is not its own."""
    message = "this server answers only under an address or the name localhost"
    return ApiStatusError(421, "MisdirectedRequest", message)


def cross_origin() -> ApiStatusError:
    """A web page of another origin made the request."""
    message = "this server does not answer web pages of other origins"
    return ApiStatusError(403, "Forbidden", message)


def method_not_allowed() -> ApiStatusError:
    """The resource exists but not with this verb."""
    return ApiStatusError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


def simulated(noun: str, why: str) -> ApiStatusError:
    """Something that only a real container could do."""
    message = f"no container runs in this simulated cluster: a {noun} {why}"
    return ApiStatusError(405, "MethodNotAllowed", message)


def not_acceptable(offered: str) -> ApiStatusError:
    """The client accepts none of the forms this server writes."""
    message = f"only the following media types are accepted: {offered}"
    return ApiStatusError(406, "NotAcceptable", message)


def unsupported_patch_type() -> ApiStatusError:
    """A patch of a kind that is not known; upstream does not say which are."""
    return ApiStatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def unsupported_media_type(accepted: str) -> ApiStatusError:
    """A body in a form that cannot be read."""
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {accepted}"
    )
    return ApiStatusError(415, "UnsupportedMediaType", message)


def expired(message: str) -> ApiStatusError:
    """A resource version or continue token that history no longer covers."""
    return ApiStatusError(410, "Expired", message)


def too_old(asked: int, oldest: int) -> ApiStatusError:
    """A watch from a version that history no longer covers."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large(asked: int, current: int) -> ApiStatusError:
    """A version this server has not reached, as after a restart from older data."""
    details: Json = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiStatusError(504, "Timeout", message, details, retry_after=1)


def too_many_requests(
    message: str, retry_after: int | None, causes: list[Json] | None = None
) -> ApiStatusError:
    """Come back later; most clients do so by themselves if they are told when."""
    details: Json = {"causes": causes} if causes else {}
    return ApiStatusError(429, "TooManyRequests", message, details, retry_after)


MAX_BODY_BYTES = 3 * 2**20
MAX_OBJECT_BYTES = MAX_BODY_BYTES
"""Many small patches must not add up to more than one request could bring."""
MAX_COPIED_BYTES = 3 * 2**20
MAX_PATCH_OPERATIONS = 10_000


def check_depth(value: Any) -> None:
    """Refuse what recursive code could not walk."""
    if is_too_deep(value):
        raise too_deep()


def too_deep() -> ApiStatusError:
    """A body, or what a patch makes of an object, has too many levels."""
    return bad_request(f"the object is nested more than {DEEPEST} levels deep")


def too_many_bytes(limit: int = MAX_BODY_BYTES) -> ApiStatusError:
    """A body, or what it stands for, is too large."""
    return entity_too_large(f"limit is {limit}")


def entity_too_large(why: str) -> ApiStatusError:
    """A request that asks for too much at once."""
    return ApiStatusError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")
