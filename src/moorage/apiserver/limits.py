"""How large and how deeply nested a request may be.

kube-apiserver's limits where it has them. Must not read bodies itself.
Upstream: apiserver pkg/server/config.go, pkg/endpoints/handlers/{patch,rest}.go.
"""

from typing import Any

from moorage.apiserver.statuses import ApiStatusError, bad_request
from moorage.model.nesting import DEEPEST, is_too_deep

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
