"""Which form an answer takes, from the `Accept` header."""

from enum import Enum
from functools import lru_cache

from moorage.apiserver.statuses import not_acceptable

JSON = "application/json"
_JSON_TYPES = (JSON, "application/*", "*/*")


class Form(Enum):
    """How objects are written in an answer."""

    OBJECT = "the object itself"
    TABLE = "rows for kubectl"
    METADATA = "only metadata"


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """The first form the client names that this server can write.

    Protobuf is passed over: clients that prefer it also accept JSON.
    """
    if not accept:
        return Form.OBJECT
    for choice in accept.split(","):
        media, parameters = _parse(choice)
        if media not in _JSON_TYPES:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return Form.OBJECT
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") != "v1":
            continue
        if wanted == "Table":
            return Form.TABLE
        if wanted.startswith("PartialObjectMetadata"):
            return Form.METADATA
    raise not_acceptable(JSON)


@lru_cache(maxsize=64)
def wants_aggregated_discovery(accept: str) -> bool:
    """Does the client prefer all groups with all resources in one document?"""
    for choice in accept.split(","):
        media, parameters = _parse(choice)
        if media == JSON:
            return parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("v") == "v2"
    return False


def _parse(choice: str) -> tuple[str, dict[str, str]]:
    media, *rest = (part.strip() for part in choice.split(";"))
    pairs = (part.partition("=") for part in rest)
    return media.lower(), {name: value for name, _, value in pairs}
