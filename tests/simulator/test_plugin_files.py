from pathlib import Path
from textwrap import dedent

import pytest

from moorage.config.types import ExtensionPoint
from moorage.errors import ConfigError
from moorage.framework.registry import Registry
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.plugin_files import PluginFile, load_plugin_file, register_plugin_files

_START = """\
from moorage.framework.plugin import NodeFilterPlugin, NodeScorePlugin
"""
TWO = f"""{_START}
class Wide(NodeFilterPlugin):
    name = "Wide"

    def filter_node(self, pod, node):
        return None

class Deep(NodeScorePlugin):
    name = "Deep"

    def score_node(self, pod, node):
        return 1
"""


def write(folder: Path, text: str, name: str = "harbour.py") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def names(text: str) -> list[str]:
    return [found.plugin.name for found in load_plugin_file(PluginFile.parse(text))]


def test_all_plugin_classes_of_a_file_are_taken_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    assert names(str(path)) == ["Wide", "Deep"]
    assert names(f"{path}:Deep") == ["Deep"]


def test_classes_that_others_build_on_or_that_are_private_are_left_out(tmp_path: Path) -> None:
    text = f"""{_START}
class Base(NodeFilterPlugin):
    def filter_node(self, pod, node):
        return None

class First(Base):
    name = "First"

class _Hidden(Base):
    pass
"""
    assert names(str(write(tmp_path, text))) == ["First"]


def test_a_changed_file_is_imported_beside_the_old_one(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    old = load_plugin_file(PluginFile(path, "Wide"))[0].plugin
    write(tmp_path, TWO.replace("return 1", "return 2"))
    new = load_plugin_file(PluginFile(path, "Wide"))[0].plugin
    assert old is not new
    assert old.name == new.name


@pytest.mark.parametrize(
    ("text", "wanted", "sentence"),
    [
        ("x = (", "", ":1: '(' was never closed"),
        ("x = 1\ny = x / 0\n", "", ":2: ZeroDivisionError: division by zero"),
        ("import no_such_module\n", "", ":1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)\n", "", ":1: SystemExit: 3"),
        ("raise BaseException('out')\n", "", ":1: BaseException: out"),
        ("x = 1\n", "", ": there is no plugin: no class inherits from a point"),
        ("x = 1\n", ":Wide", ": there is no class Wide; it has no plugins"),
        (TWO, ":Long", ": there is no class Long; its plugins are Wide, Deep"),
        ("class Wide: pass\n", ":Wide", ":1: class Wide is not a subclass of"),
        (
            f"{_START}\nclass Wide(NodeFilterPlugin):\n    name = 'Wide'\n",
            "",
            ":3: class Wide does not define filter_node",
        ),
        (
            f"{_START}\nclass Wide(NodeFilterPlugin):\n    def filter_node(s, p, n): ...\n",
            "",
            ":3: class Wide has no name",
        ),
        ("x = " + "-" * 100_000 + "1\n", "", ": it is nested too deeply"),
        ("x = '\x00'", "", ":1: source code string cannot contain null bytes"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_file_line_and_class(
    text: str, wanted: str, sentence: str, tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        names(f"{path}{wanted}")
    assert str(caught.value).startswith(f"{path}{sentence}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.py: cannot be read: No such file"):
        names(str(tmp_path / "gone.py"))


@pytest.mark.parametrize("text", ["plugin.txt", "plugin.py:", "plugin.py:2nd", ":Class", ""])
def test_another_form_than_file_and_class_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected FILE.py or FILE.py:Class"):
        PluginFile.parse(text)


def test_a_name_that_exists_is_refused_with_both_places(tmp_path: Path) -> None:
    path = write(tmp_path, TWO.replace('"Wide"', '"NodeName"'))
    with pytest.raises(ConfigError, match="a plugin named NodeName already exists") as caught:
        register_plugin_files(in_tree_registry(), [str(path)])
    assert "moorage.plugins.node_name" in str(caught.value)
    assert f"{path}:3: class Wide" in str(caught.value)


def test_files_fill_a_registry(tmp_path: Path) -> None:
    registry = Registry()
    register_plugin_files(registry, [str(write(tmp_path, TWO))])
    assert registry.implements("Wide", ExtensionPoint.FILTER)
    assert registry.implements("Deep", ExtensionPoint.SCORE)
