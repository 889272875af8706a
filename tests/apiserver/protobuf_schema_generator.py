"""Writes `src/moorage/apiserver/protobuf_schema.txt` from the Go modules of the Kubernetes API.

Run by hand when the Kubernetes version moves:
`python tests/apiserver/protobuf_schema_generator.py ~/go/pkg/mod/k8s.io v0.37.1`.
Field numbers and types come from `generated.proto`; whether a field is a pointer (so that an
empty value means something) or inlined in JSON comes from the struct tags in `types.go`.
"""

import re
import sys
from pathlib import Path

_GROUPS = {
    "v1": "core apps batch policy scheduling storage resource coordination events rbac "
    "authentication authorization discovery",
    "v1alpha3": "scheduling",
    "v1beta1": "coordination scheduling",
    "v1beta2": "resource",
}
PACKAGES = [f"{group}/{v}" for v, groups in _GROUPS.items() for group in groups.split()]
SCALARS = {
    "string": "s",
    "int32": "i",
    "int64": "i",
    "bool": "b",
    "bytes": "y",
    "double": "d",
    "uint32": "i",
}
TARGET = Path(__file__).parents[2] / "src/moorage/apiserver/protobuf_schema.txt"
HEADER = """\
# Messages of the Kubernetes API, made by tests/apiserver/protobuf_schema_generator.py from {v}.
# `[package]`, then one message per line: `Name number:field:type ...`. Types: s string, i integer,
# b boolean, y bytes, d double, q quantity, else a message (with its package if
# that is another one). `*` repeated, `%` map from strings, `?` an empty value is kept; a field
# without a name is inlined.
"""


def go_tags(text: str) -> dict[tuple[str, int], tuple[bool, bool]]:
    tags: dict[tuple[str, int], tuple[bool, bool]] = {}
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
            inline = re.search(r'json:"(,inline)?"', field[2]) is not None
            tags[struct, int(number[1])] = (field[1].startswith("*"), inline)
    return tags


def type_name(text: str, package: str) -> str:
    if text in SCALARS:
        return SCALARS[text]
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


def package_lines(folder: Path, package: str) -> list[str]:
    types = [path.read_text() for path in sorted(folder.glob("*types.go"))]
    tags = go_tags("\n".join(types))
    lines = [f"[{package}]"]
    message = ""
    fields: list[str] = []
    for line in (folder / "generated.proto").read_text().splitlines():
        begin = re.match(r"message (\w+) {", line)
        if begin:
            message, fields = begin[1], []
        field = re.match(
            r"\s+(optional|repeated|map<string, ([\w.]+)>)\s?(\S+)? (\w+) = (\d+);", line
        )
        if field:
            kind, mapped, plain, name, number = field.groups()
            pointer, inline = tags.get((message, int(number)), (False, False))
            mark = "*" if kind == "repeated" else "%" if mapped else "?" if pointer else ""
            name = {"uID": "uid"}.get(name, "" if inline else name)
            fields.append(f"{number}:{name}:{type_name(mapped or plain, package)}{mark}")
        if line == "}" and message and not message.endswith("List"):
            lines.append(" ".join([message, *fields]))
            message = ""
    return lines


def main(modules: str, version: str) -> None:
    root = Path(modules)
    lines = package_lines(root / f"apimachinery@{version}/pkg/apis/meta/v1", "meta.v1")
    for package in PACKAGES:
        lines += package_lines(root / f"api@{version}" / package, package.replace("/", "."))
    TARGET.write_text(HEADER.format(v=f"k8s.io/api {version}") + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
