"""Documents in YAML: read into their form, and what is wrong said with the line and the field."""

import re
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
import yaml
from msgspec import inspect

from moorage.errors import InputError
from moorage.model.duration import parse_duration
from moorage.scenarios.yaml_tree import find_flaw

T = TypeVar("T")
_MOST_CHARACTERS = 20_000_000
_LONGEST_MESSAGE = 4_000
_ELEMENT = re.compile(r"\[(\d+)\]\.?")


class YamlFile(Generic[T]):
    """A document, as it stands there and in its form, and where each of its fields stands."""

    def __init__(self, path: Path, form: type[T], plain: Any = None) -> None:
        """Read it, unless plain values are given; `InputError` says what is wrong, and where."""
        self.path = path
        self._tree: yaml.Node | None = None
        self._has_lines = plain is None
        self.plain = self._read() if self._has_lines else plain
        try:
            self.document = msgspec.convert(self.plain, form)
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `$")
            field = place.rstrip("`").removeprefix(".")
            choices = _choices(form, field)
            self.refuse(field, f"expected {choices}" if choices else what[:1].lower() + what[1:])

    def _read(self) -> Any:
        path = self.path
        try:
            with path.open(encoding="utf-8-sig") as stream:
                text = stream.read(_MOST_CHARACTERS)
            if len(text) == _MOST_CHARACTERS:
                raise InputError(f"{path}: expected less than {_MOST_CHARACTERS:,} characters")
            loader = yaml.SafeLoader(text)
            self._tree = loader.get_single_node()
            flaw = None if self._tree is None else find_flaw(self._tree)
            if flaw is not None:
                raise InputError(f"{path}:{flaw.line}: {flaw.what}")
            return None if self._tree is None else loader.construct_document(self._tree)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: expected text in UTF-8") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or "this is none"
            raise InputError(f"{path}{line}: expected YAML: {problem}") from None

    def refuse(self, field: str, what: str) -> NoReturn:
        """Say what is wrong with a field."""
        shown = what if len(what) <= _LONGEST_MESSAGE else f"{what[:_LONGEST_MESSAGE]} ..."
        raise InputError(f"{self.place(field)}: {shown}")

    def place(self, field: str) -> str:
        """How messages call a field: file, line and name."""
        line = f":{self._line(field)}" if self._has_lines else ""
        return f"{self.path}{line}: {field}" if field else f"{self.path}{line}"

    def seconds(self, text: str, field: str) -> float:
        """A duration of the document."""
        try:
            found = parse_duration(text).seconds
        except ValueError:
            found = -1.0
        if found < 0:
            self.refuse(field, f"expected a duration such as 90s or 1h30m, got {text!r}")
        return found

    def file(self, name: str) -> str:
        """A file that the document names, which is relative to it."""
        return str(self.path.parent / name)

    def _line(self, field: str) -> int:
        node: Any = self._tree
        while field:
            if isinstance(node, yaml.MappingNode):
                named = [pair for pair in node.value if _begins(field, pair[0].value)]
                key, value = max(named, key=lambda pair: len(pair[0].value), default=(None, None))
                field = field[len(key.value) :].removeprefix(".") if key is not None else ""
            elif found := _ELEMENT.match(field):
                elements = node.value if isinstance(node, yaml.SequenceNode) else []
                value = dict(enumerate(elements)).get(int(found[1]))
                field = field[found.end() :]
            else:
                value = None
            if value is None:
                break
            node = value
        return 1 if node is None else int(node.start_mark.line) + 1


def _choices(form: type, field: str) -> str:
    """The words that a field of a form takes, if it takes only some."""
    kinds = [inspect.type_info(form)]
    for name in field.replace("]", "").replace("[", ".").split("."):
        kinds = [inner for kind in kinds for inner in _inside(kind, name)]
    words = [str(v) for one in kinds if isinstance(one, inspect.LiteralType) for v in one.values]
    return f"one of {', '.join(filter(None, words))}" if len(words) > 1 else "".join(words)


def _inside(kind: inspect.Type, name: str) -> list[inspect.Type]:
    match kind:
        case inspect.StructType():
            return [field.type for field in kind.fields if field.encode_name == name]
        case inspect.VarTupleType():
            return [kind.item_type]
        case inspect.UnionType():
            return [inner for one in kind.types for inner in _inside(one, name)]
    return []


def _begins(field: str, key: Any) -> bool:
    """Is it this key, which may have dots, or something in it?"""
    return isinstance(key, str) and (field == key or field.startswith((f"{key}.", f"{key}[")))
