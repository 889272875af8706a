"""Plugins from Python files that are in no package: `--plugin FILE.py[:Class]`.

Owns which classes of a file are its plugins, and the sentence about a file that cannot be used: it
names file, line and class. Each version of a file is a module of its own, so that a changed file is
imported beside the one in use. Does not know who watches files.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NamedTuple

from moorage.errors import ConfigError, reason_of
from moorage.framework.plugin import Plugin
from moorage.framework.registry import Registry


class PluginFile(NamedTuple):
    """A file, and the one class of it that is wanted; empty for all."""

    path: Path
    class_name: str = ""

    @classmethod
    def parse(cls, text: str) -> "PluginFile":
        """Read `FILE.py[:Class]`."""
        path, colon, class_name = text.rpartition(":")
        if not colon or not path.endswith(".py"):
            path, class_name = text, ""
        wrong_class = path != text and not class_name.isidentifier()
        if not path.endswith(".py") or wrong_class:
            raise ConfigError(f"--plugin {text}: expected FILE.py or FILE.py:Class")
        return cls(Path(path), class_name)


class FoundPlugin(NamedTuple):
    """A plugin class, and the place that messages name."""

    plugin: type[Plugin]
    source: str


def register_plugin_files(registry: Registry, texts: Iterable[str]) -> None:
    """Add the plugins of all files; a `ConfigError` says what is wrong with one."""
    for text in texts:
        for found in load_plugin_file(PluginFile.parse(text)):
            registry.register(found.plugin, found.source)


def load_plugin_file(file: PluginFile) -> Sequence[FoundPlugin]:
    """Import a file as it is now, beside what was imported from it earlier."""
    path = file.path
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        line, what = getattr(error, "lineno", None) or 1, getattr(error, "msg", str(error))
        raise ConfigError(f"{path}:{line}: {what}") from error
    except (MemoryError, RecursionError) as error:  # whatever Python makes of depth
        raise ConfigError(f"{path}: it is nested too deeply") from error
    lines = {node.name: node.lineno for node in tree.body if isinstance(node, ast.ClassDef)}
    module = _imported(path, text, tree)
    return _plugins(file, module, lines)


def _imported(path: Path, text: bytes, tree: ast.Module) -> ModuleType:
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + text).hexdigest()
    name = f"{path.stem}_{digest[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and msgspec look there for the names in annotations
    try:
        exec(compile(tree, str(path), "exec"), module.__dict__)
    except KeyboardInterrupt:
        raise  # somebody wants the command to end
    except BaseException as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        line = line_in(str(path), error.__traceback__) or 1
        raise ConfigError(f"{path}:{line}: {reason_of(error)}") from error
    return module


def _plugins(file: PluginFile, module: ModuleType, lines: dict[str, int]) -> Sequence[FoundPlugin]:
    path, wanted = file

    def where(name: str) -> str:
        return f"{path}:{lines.get(name, 1)}: class {name}"

    own = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and issubclass(value, Plugin)
    }
    if wanted:
        if wanted in lines and wanted not in own:
            raise ConfigError(
                f"{where(wanted)} is not a subclass of moorage.framework.plugin.Plugin"
            )
        if wanted not in own:
            raise ConfigError(f"{path}: there is no class {wanted}; {_offered(own)}")
        chosen = {wanted: own[wanted]}
    else:
        bases = {base for plugin in own.values() for base in plugin.__mro__[1:]}
        chosen = {
            name: plugin
            for name, plugin in own.items()
            if not name.startswith("_")
            and not (plugin in bases and (inspect.isabstract(plugin) or not _name_of(plugin)))
        }
    if not chosen:
        raise ConfigError(
            f"{path}: there is no plugin: no class inherits from a point of "
            "moorage.framework.plugin"
        )
    for name, plugin in chosen.items():
        missing = sorted(getattr(plugin, "__abstractmethods__", ()))
        if missing:
            raise ConfigError(f"{where(name)} does not define {', '.join(missing)}")
        if not _name_of(plugin):
            raise ConfigError(f"{where(name)} has no name: set `name` to what configurations say")
    return [FoundPlugin(plugin, where(name)) for name, plugin in chosen.items()]


def _name_of(plugin: type[Plugin]) -> str:
    name = getattr(plugin, "name", None)
    return name if isinstance(name, str) else ""


def _offered(own: dict[str, type[Plugin]]) -> str:
    return f"its plugins are {', '.join(own)}" if own else "it has no plugins"


def line_in(path: str, trace: TracebackType | None) -> int | None:
    """The innermost line of a file that an exception went through."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
