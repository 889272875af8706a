"""The messages of the Kubernetes API: which fields an object has, and of which types.

Read once from `messages.txt`, which tests/apiserver/messages_generator.py made from upstream's
definitions. Protobuf bodies, field validation and OpenAPI all go by it. Holds no rules.
"""

from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from moorage.apiserver.resources import ApiResource

META = "meta.v1."
SINGLE, REPEATED, MAP, POINTER = "", "*", "%", "?"
STRING, INT32, INT64, BOOLEAN, BYTES, DOUBLE, QUANTITY, ANY = "silbydqa"
TIMES = frozenset({"Time", "MicroTime"})
"""Messages that are a text in JSON; so are these of other packages."""
SPECIAL = frozenset({*"silbydqa", "IntOrString", "RawExtension", "ExtraValue", "FieldsV1"})
"""Types that are no messages with fields in JSON, besides times."""
_GO_NAMES = {
    STRING: "string",
    INT32: "int32",
    INT64: "int64",
    BOOLEAN: "bool",
    BYTES: "[]uint8",
    DOUBLE: "float64",
    QUANTITY: "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "RawExtension": "runtime.RawExtension",
}


class Field(NamedTuple):
    """A field; an empty name means that its members belong to the message around it."""

    number: int
    name: str
    type: str
    form: str
    go_type: str
    """What Go calls the type, as its complaints about JSON do."""


class Message(NamedTuple):
    """A message by its full name, such as `core.v1.Pod`, and its fields."""

    name: str
    fields: tuple[Field, ...]

    @property
    def go_name(self) -> str:
        """The name of its struct."""
        return self.name.rpartition(".")[2]


@lru_cache(maxsize=1)
def messages() -> dict[str, Message]:
    """Every message by its full name; read when the first is asked for."""
    text = files("moorage.apiserver").joinpath("messages.txt").read_text("utf-8")
    found: dict[str, Message] = {}
    package = ""
    for line in text.splitlines():
        if line.startswith("["):
            package = line.strip("[]") + "."
        elif not line.startswith("#"):
            name, *fields = line.split(" ")
            full = package + name
            found[full] = Message(full, tuple(_field(field, package) for field in fields))
    return found


def _field(text: str, package: str) -> Field:
    number, name, kind = text.split(":")
    kind, _, go_type = kind.partition("=")
    form = kind[-1] if kind[-1] in (REPEATED, MAP, POINTER) else SINGLE
    kind = kind.rstrip("*%?")
    if kind not in SPECIAL and "." not in kind:
        kind = package + kind
    return Field(int(number), name, kind, form, go_type or _go_type(kind, form))


def _go_type(kind: str, form: str) -> str:
    name = _GO_NAMES.get(kind) or ".".join(kind.split(".")[-2:])
    return {REPEATED: f"[]{name}", MAP: f"map[string]{name}"}.get(form, name)


def message_name(group: str, version: str, kind: str) -> str:
    """Under which name a kind is found, if it is."""
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def message_of(resource: ApiResource) -> Message | None:
    """The message of a resource's objects; custom resources have none."""
    return messages().get(message_name(resource.group, resource.version, resource.kind))
