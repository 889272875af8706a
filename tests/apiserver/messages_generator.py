"""Writes `src/moorage/apiserver/messages.txt` from the Go modules of the Kubernetes API.

Run by hand when the Kubernetes version moves:
`python tests/apiserver/messages_generator.py ~/go/pkg/mod/k8s.io v0.37.1`.
Field numbers and types come from `generated.proto`; the name in JSON, whether a field is a pointer
(so that an empty value means something) or inlined, and the name of its Go type come from the
struct tags in `types.go`.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

_GROUPS = {
    "v1": "core apps batch policy scheduling storage resource coordination events rbac "
    "authentication authorization discovery networking node autoscaling",
    "v1alpha3": "scheduling",
    "v1beta1": "coordination scheduling",
    "v1beta2": "resource",
    "v2": "autoscaling",
}
PACKAGES = [f"{group}/{v}" for v, groups in _GROUPS.items() for group in groups.split()]
SCALARS = {
    "string": ("s", "string"),
    "int32": ("i", "int32"),
    "int64": ("l", "int64"),
    "bool": ("b", "bool"),
    "bytes": ("y", "[]uint8"),
    "double": ("d", "float64"),
    "uint32": ("i", "uint32"),
}
# What the types of the table are called in Go.
GO_NAMES = {
    **{letter: name for letter, name in SCALARS.values() if name != "uint32"},
    "q": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "RawExtension": "runtime.RawExtension",
}
# Read by code of their own, and written as anything.
ANY = ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
TARGET = Path(__file__).parents[2] / "src/moorage/apiserver/messages.txt"
HEADER = """\
# Messages of the Kubernetes API, made by tests/apiserver/messages_generator.py from {v}.
# `[package]`, then one message per line: `Name number:field:type ...`. Types: s string, i integer
# of 32 bits, l of 64, b boolean, y bytes, d double, q quantity, a anything, else a message (with
# its package if that is another one). `*` repeated, `%` map from strings, `?` an empty value is
# kept; a field without a name is inlined, and not in protobuf if its number is 0. `=` and the name
# of the Go type, where that is another one.
"""

# A struct that has `kind` and `apiVersion`, which are not in the messages of protobuf.
KIND = re.compile(
    r"^type (\w+) struct {\n\s+(?:metav1\.)?TypeMeta `json:\"(?:,inline)?\"", re.MULTILINE
)


class Tag(NamedTuple):
    """What a struct tag says of a field."""

    name: str
    pointer: bool
    type: str


def go_tags(text: str) -> dict[tuple[str, int], Tag]:
    tags: dict[tuple[str, int], Tag] = {}
    struct = ""
    for line in text.splitlines():
        begin = re.match(r"type (\w+) struct", line)
        if begin:
            struct = begin[1]
        field = re.match(r"\s+(?:\w+\s+)?(\S+)\s+`([^`]*)`", line)
        if field is None:
            continue
        number = re.search(r'protobuf:"\w+,(\d+)', field[2])
        if number is not None:
            name = re.search(r'json:"([^",]*)', field[2])
            tag = Tag(name[1] if name else "", field[1].startswith("*"), field[1].lstrip("*"))
            tags[struct, int(number[1])] = tag
    return tags


def type_name(text: str, package: str) -> str:
    if text in SCALARS:
        return SCALARS[text][0]
    if text in ANY:
        return "a"
    if not text.startswith("."):
        return text
    parts = text.strip(".").split(".")
    name, version, group = parts[-1], parts[-2], parts[-3]
    if group == "api" and version == "resource":
        return "q" if name == "Quantity" else name
    if version in ("runtime", "intstr"):
        return name
    full = f"{group}.{version}"
    return name if full == package else f"{full}.{name}"


def go_name(text: str, version: str) -> str:
    """A type as Go's messages call it: with the name of its package."""
    mapped = re.fullmatch(r"map\[(\S+?)\](\S+)", text)
    if mapped:
        return f"map[{go_name(mapped[1], version)}]{go_name(mapped[2], version)}"
    if text.startswith("[]"):
        return "[]" + go_name(text.removeprefix("[]"), version)
    text = {"byte": "uint8"}.get(text, text)
    if text in {"string", "int32", "int64", "bool", "float64", "uint8", "uint32"}:
        return text
    package, _, name = text.lstrip("*").rpartition(".")
    if package in ("types", "intstr", "resource", "runtime"):
        return f"{package}.{name}"
    return f"{'v1' if package else version}.{name}"


def derived_name(kind: str, mark: str, version: str) -> str:
    """The Go name that a reader of the table works out."""
    *_, version, last = ("", version, *kind.split("."))[-3:]
    name = GO_NAMES.get(kind) or f"{version}.{last}"
    return {"*": f"[]{name}", "%": f"map[string]{name}"}.get(mark, name)


def package_lines(folder: Path, package: str) -> list[str]:
    types = [path.read_text() for path in sorted(folder.glob("*types*.go"))]
    tags = go_tags("\n".join(types))
    kinds = set(KIND.findall("\n".join(types)))
    version = package.rpartition(".")[2]
    lines = [f"[{package}]"]
    message = ""
    fields: list[str] = []
    for line in (folder / "generated.proto").read_text().splitlines():
        begin = re.match(r"message (\w+) {", line)
        if begin:
            message = begin[1]
            fields = ["0::meta.v1.TypeMeta"] if message in kinds else []
        field = re.match(
            r"\s+(optional|repeated|map<string, ([\w.]+)>)\s?(\S+)? (\w+) = (\d+);", line
        )
        if field:
            kind, mapped, plain, name, number = field.groups()
            tag = tags.get((message, int(number)), Tag(name, False, ""))
            mark = "*" if kind == "repeated" else "%" if mapped else "?" if tag.pointer else ""
            typed = type_name(mapped or plain, package)
            text = f"{number}:{tag.name}:{typed}{mark}"
            called = go_name(tag.type, version) if tag.type else ""
            scalar = len(typed) == 1 and typed != "a"
            if (scalar or mark in ("*", "%")) and called not in (
                "",
                derived_name(typed, mark, version),
            ):
                text += f"={called}"
            fields.append(text)
        if line == "}" and message and not message.endswith("List"):
            if message not in ANY:
                lines.append(" ".join([message, *fields]))
            message = ""
    return lines


def main(modules: str, version: str) -> None:
    root = Path(modules)
    lines = package_lines(root / f"apimachinery@{version}/pkg/apis/meta/v1", "meta.v1")
    for package in PACKAGES:
        lines += package_lines(root / f"api@{version}" / package, package.replace("/", "."))
    extensions = root / f"apiextensions-apiserver@{version}/pkg/apis/apiextensions/v1"
    lines += package_lines(extensions, "apiextensions.v1")
    TARGET.write_text(HEADER.format(v=f"k8s.io/api {version}") + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
