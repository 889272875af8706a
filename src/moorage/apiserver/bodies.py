"""Request bodies to plain JSON, whatever they were written in."""

from typing import Any

import msgspec
import yaml

from moorage.apiserver.protobuf import MEDIA_TYPE as PROTOBUF
from moorage.apiserver.protobuf import decode_body
from moorage.apiserver.statuses import Json, bad_request, unsupported_media_type
from moorage.model.decode import without_nulls

YAML = "application/yaml"
_ACCEPTED = f"application/json, {YAML}, {PROTOBUF}"
_decode = msgspec.json.Decoder().decode


def read_object(body: bytes, content_type: str) -> Json:
    """The object in a body; members that are null count as absent, as in Go."""
    media = content_type.partition(";")[0].strip().lower()
    value: Any
    if media in ("application/json", ""):
        value = parse_json(body)
    elif media == PROTOBUF:
        value = decode_body(body)
    elif media == YAML:
        value = parse_yaml(body)
    else:
        raise unsupported_media_type(_ACCEPTED)
    if b"null" in body or media == YAML:
        value = without_nulls(value)
    if not isinstance(value, dict):
        raise bad_request("the body of the request is not an object")
    return value


def parse_json(body: bytes) -> Any:
    """JSON, or a 400."""
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from None


def parse_yaml(body: bytes) -> Any:
    """YAML, or a 400."""
    try:
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        raise bad_request(f"the body of the request is not YAML: {error}") from None


class _Loader(yaml.SafeLoader):
    """YAML without dates: the API's times are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
