"""Requests to an extender and its answers: JSON with the field names of Go's structs.

Owns the form of requests, and the reading of answers as Go reads them: names of fields in any case,
null for nothing, whatever follows the first value ignored, and Go's messages for what is wrong.
Must not open connections (`http_extender`) nor judge the answers (`framework.extenders`).

Objects go out as the API server sent them where that was stored (`source_of`); otherwise as the
model has them, which is all that a scheduler reads but not all that a user wrote.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from moorage.errors import ExtenderError
from moorage.framework.extenders import FilterReply, MetaVictims
from moorage.framework.plugin import Candidate
from moorage.kube import deep_json
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

_SOURCE = "_source"
_INT64 = range(-(2**63), 2**63)


# Objects.


def keep_source(obj: ApiObject, data: bytes | msgspec.Raw) -> None:
    """Remember an object's JSON, less what upstream's informers drop too."""
    try:
        whole: Any = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if isinstance(obj, Pod) and "metadata" in whole:
            whole["metadata"] = msgspec.json.decode(whole["metadata"], type=dict[str, msgspec.Raw])
    except RecursionError:
        whole = deep_json.decode(data)
    if isinstance(obj, Pod):
        whole["metadata"].pop("managedFields", None)
    for name in ("kind", "apiVersion"):
        whole.pop(name, None)
    # Beside the fields, as cached values are: a changed copy of the object must not inherit it.
    obj.__dict__[_SOURCE] = msgspec.json.encode(whole)


def source_of(obj: ApiObject) -> msgspec.Raw:
    """An object's JSON: as it came, or as the model has it."""
    source = obj.__dict__.get(_SOURCE)
    if source is None:
        plain = _without_nulls(msgspec.to_builtins(obj))
        del plain["kind"], plain["apiVersion"]
        source = msgspec.json.encode(plain)
    return msgspec.Raw(source)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


# Requests.


def about_nodes(pod: Pod, nodes: Sequence[Node], *, by_name: bool) -> bytes:
    """What filter and prioritize are asked."""
    items = None if by_name else [source_of(node) for node in nodes]
    return msgspec.json.encode(
        {
            "Pod": source_of(pod),
            "Nodes": None if by_name else {"metadata": {}, "items": items},
            "NodeNames": [node.name for node in nodes] if by_name else None,
        }
    )


def about_victims(pod: Pod, candidates: Iterable[Candidate], *, by_uid: bool) -> bytes:
    """What preempt is asked."""
    victims = {
        candidate.node_name: {
            "Pods": [
                {"UID": victim.uid} if by_uid else source_of(victim) for victim in candidate.victims
            ],
            "NumPDBViolations": candidate.pdb_violations,
        }
        for candidate in candidates
    }
    return msgspec.json.encode(
        {
            "Pod": source_of(pod),
            "NodeNameToVictims": None if by_uid else victims,
            "NodeNameToMetaVictims": victims if by_uid else None,
        }
    )


def about_binding(pod: Pod, node_name: str) -> bytes:
    """What bind is asked."""
    return msgspec.json.encode(
        {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
    )


# Answers.


def filter_reply(body: bytes, *, by_name: bool) -> FilterReply:
    """What filter answered."""
    reply = _Struct(_parsed(body), "ExtenderFilterResult")
    nodes, names = reply.object("Nodes", "v1.NodeList"), reply.texts("NodeNames")
    failed = reply.text_map("FailedNodes", "v1.FailedNodesMap")
    unresolvable = reply.text_map("FailedAndUnresolvableNodes", "v1.FailedNodesMap")
    reply.raise_error("Error")
    if by_name and names is not None:
        return FilterReply(tuple(names), failed=failed, unresolvable=unresolvable)
    if nodes is None:
        # Names that were not agreed upon count for nothing.
        return FilterReply(failed=failed, unresolvable=unresolvable)
    named = []
    for item in _Struct(nodes, "NodeList", "Nodes").list("items", "[]v1.Node"):
        meta = _Struct(item, "Node", "Nodes.items").object("metadata", "v1.ObjectMeta")
        named.append(_Struct(meta, "ObjectMeta", "Nodes.items.metadata").text("name"))
    return FilterReply(tuple(named), True, failed, unresolvable)


def prioritize_reply(body: bytes) -> list[tuple[str, int]]:
    """What prioritize answered."""
    given = _parsed(body)
    if given is None:
        return []
    if not isinstance(given, list):
        raise _mismatch(given, "value of type v1.HostPriorityList")
    hosts = [_Struct(item, "HostPriority") for item in given]
    return [(host.text("Host"), host.integer("Score")) for host in hosts]


def preempt_reply(body: bytes) -> dict[str, MetaVictims]:
    """What preempt answered."""
    reply = _Struct(_parsed(body), "ExtenderPreemptionResult")
    field = "NodeNameToMetaVictims"
    found = {}
    for name, item in (reply.object(field, "map[string]*v1.MetaVictims") or {}).items():
        meta = _Struct(item, "MetaVictims", field)
        pods = [_Struct(p, "MetaPod", f"{field}.Pods") for p in meta.list("Pods", "[]*v1.MetaPod")]
        uids = tuple(pod.text("UID") for pod in pods)
        found[name] = MetaVictims(uids, meta.integer("NumPDBViolations"))
    return found


def check_binding_reply(body: bytes) -> None:
    """What bind answered: nothing, or an error."""
    _Struct(_parsed(body), "ExtenderBindingResult").raise_error("Error")


class _Struct:
    """A JSON object as a Go struct would take it; null leaves everything empty."""

    def __init__(self, value: Any, name: str, path: str = "") -> None:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            where = f"struct field {name}.{path}" if path else "value"
            raise _mismatch(value, f"{where} of type v1.{name}")
        self._name = name
        self._path = f"{path}." if path else ""
        self._values = {key.lower(): item for key, item in value.items()}

    def _get(self, field: str, wanted: type, go_type: str) -> Any:
        value = self._values.get(field.lower())
        if value is not None and (type(value) is not wanted):
            raise self._wrong(value, field, go_type)
        return value

    def _wrong(self, value: Any, field: str, go_type: str) -> ExtenderError:
        return _mismatch(value, f"struct field {self._name}.{self._path}{field} of type {go_type}")

    def text(self, field: str) -> str:
        return self._get(field, str, "string") or ""

    def integer(self, field: str) -> int:
        value: int = self._get(field, int, "int64") or 0
        if value not in _INT64:
            raise self._wrong(float(value), field, "int64")
        return value

    def object(self, field: str, go_type: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._get(field, dict, go_type)
        return found

    def list(self, field: str, go_type: str) -> Sequence[Any]:
        return self._get(field, list, go_type) or ()

    def texts(self, field: str) -> Sequence[str] | None:
        found: Sequence[Any] | None = self._get(field, list, "[]string")
        return None if found is None else [self._text_in(item, field) for item in found]

    def text_map(self, field: str, go_type: str) -> Mapping[str, str]:
        found = self.object(field, go_type) or {}
        return {name: self._text_in(item, field) for name, item in found.items()}

    def _text_in(self, item: Any, field: str) -> str:
        if item is not None and not isinstance(item, str):
            raise self._wrong(item, field, "string")
        return item or ""

    def raise_error(self, field: str) -> None:
        text = self.text(field)
        if text:
            raise ExtenderError(text)


def _mismatch(value: Any, where: str) -> ExtenderError:
    kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
    kind = kinds.get(type(value), "number")
    if kind == "number" and where.endswith("int64"):
        kind = f"number {value}"
    return ExtenderError(f"json: cannot unmarshal {kind} into Go {where}")


def _no_constant(name: str) -> Any:
    raise ExtenderError(f"invalid character '{name.lstrip('-')[0]}' looking for beginning of value")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _parsed(body: bytes) -> Any:
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise ExtenderError("EOF")
    try:
        return _DECODER.raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise ExtenderError(_in_go(error)) from None
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None


def _in_go(error: json.JSONDecodeError) -> str:
    """Python's complaint about JSON as Go puts it."""
    text, at = error.doc, error.pos
    in_string = error.msg.startswith("Invalid ")
    while not in_string and at < len(text) and text[at] in " \t\r\n":
        at += 1
    if at >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    if error.msg.startswith("Expecting property name"):
        where = "looking for beginning of object key string"
    elif error.msg.startswith("Expecting ':'"):
        where = "after object key"
    elif error.msg.startswith("Expecting ','"):
        inside = _innermost(text[:at])
        where = "after array element" if inside == "[" else "after object key:value pair"
    elif error.msg.startswith("Invalid control character"):
        where = "in string literal"
    elif error.msg.startswith("Invalid \\"):
        where = "in string escape code"
    else:
        where = "looking for beginning of value"
    shown = json.dumps(text[at], ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"invalid character '{shown}' {where}"


def _innermost(text: str) -> str:
    """The bracket that is open at the end of a beginning of JSON."""
    opened: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            opened.append(char)
        elif char in "]}" and opened:
            opened.pop()
    return opened[-1] if opened else ""
