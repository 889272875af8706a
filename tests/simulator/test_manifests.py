"""Clusters read from files: formats, lists, directories, and messages that name the place."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.config import documents
from moorage.errors import DecodeError, InputError
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.simulator.manifests import Manifests, load_manifests

NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: n1
  creationTimestamp: null
status:
  capacity: {cpu: 4, memory: 8Gi}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  creationTimestamp: 2026-01-02T03:04:05Z
spec:
  containers:
    - name: a
      resources:
        limits: {cpu: 0.5}
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str = "objects.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write_file


def load(*paths: str, stdin: str = "") -> Manifests:
    return load_manifests(paths, io.StringIO(stdin))


def complaint(*paths: str, stdin: str = "") -> str:
    with pytest.raises(InputError) as caught:
        load(*paths, stdin=stdin)
    text = str(caught.value)
    assert "\n" not in text
    return text


def named(kind: str = "Pod", name: str = "x", **fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a"}]} if kind == "Pod" else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec, **fields}


def keys(manifests: Manifests) -> list[str]:
    return [f"{obj.kind} {obj.key}" for obj in manifests.objects]


def test_documents_are_read_in_order_and_completed(write: Write) -> None:
    manifests = load(write(f"---\n{NODE}---\n---\n{POD}...\n"))
    assert keys(manifests) == ["Node n1", "Pod default/web"]
    (node,) = manifests.of(Node)
    (pod,) = manifests.of(Pod)
    assert node.allocatable == {"cpu": 4000, "memory": 8 * 1024**3}
    assert pod.requests.incoming == {"cpu": 500}
    assert pod.uid
    assert pod.metadata.creation_timestamp == "2026-01-02T03:04:05Z", "dates stay text"
    assert manifests.skipped == {}


@pytest.mark.parametrize("name", ["x.json", "x.txt", "x.yaml"])
@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "indented"])
def test_json_is_read_whatever_the_file_is_called(
    write: Write, name: str, indent: int | None
) -> None:
    text = json.dumps(named(), indent=indent)
    assert keys(load(write(text, name))) == ["Pod default/x"]
    several = f"{text}\n{json.dumps(named('Node'))}\n\n"
    assert keys(load(write(several, name))) == ["Pod default/x", "Node x"]


def test_standard_input_is_read_where_a_dash_stands(write: Write) -> None:
    assert keys(load(write(NODE), "-", stdin=POD)) == ["Node n1", "Pod default/web"]


def test_lists_are_taken_apart(write: Write) -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [named("Node", "b")]}
    items = [named("Node", "a"), inner, named("Pod", "c")]
    assert keys(load(write(json.dumps({"apiVersion": "v1", "kind": "List", "items": items})))) == [
        "Node a",
        "Node b",
        "Pod default/c",
    ]


def test_members_of_a_typed_list_need_no_kind(write: Write) -> None:
    bare = {"metadata": {"name": "x", "namespace": "team"}, "spec": {"containers": [{}]}}
    text = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [bare]})
    assert keys(load(write(text))) == ["Pod team/x"]


@pytest.mark.parametrize("items", ["null", "[]"])
def test_an_empty_list_holds_nothing(write: Write, items: str) -> None:
    assert load(write(f"apiVersion: v1\nkind: List\nitems: {items}\n")).objects == ()


def test_kinds_of_no_interest_are_counted(write: Write) -> None:
    skipped = [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": "whatever"},
        {"apiVersion": "v1", "kind": "ConfigMap"},
    ]
    text = "\n---\n".join(json.dumps(item) for item in skipped)
    manifests = load(write(text))
    assert manifests.objects == ()
    assert manifests.skipped == {"Deployment": 2, "ConfigMap": 1}


def test_a_directory_is_searched_in_sorted_order(write: Write, tmp_path: Path) -> None:
    for name in ("b.yml", "a/z.yaml", "a/y.json", "c.yaml", "notes.txt", ".git/x.yaml", ".x.yaml"):
        write(json.dumps(named("Node", Path(name).stem.strip("."))), name)
    assert keys(load(str(tmp_path))) == ["Node y", "Node z", "Node b", "Node c"]


def test_anchors_and_merge_keys_are_resolved(write: Write) -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: &labels {app: web, tier: front}}
spec:
  nodeSelector:
    <<: *labels
    tier: back
  containers:
    - &container {name: a, resources: {requests: {cpu: 1}}}
    - <<: *container
      name: b
"""
    (pod,) = load(write(text)).of(Pod)
    assert pod.spec.node_selector == {"app": "web", "tier": "back"}
    assert pod.requests.incoming == {"cpu": 2000}


def test_plain_words_mean_what_they_mean_to_kubectl(write: Write) -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    date: 2026-01-02
    ratio: 22:22
    equals: =
    empty:
spec:
  hostNetwork: yes
  priority: 0x10
  containers: [{name: a, resources: {requests: {memory: 1e3, cpu: 1_000m}}}]
"""
    assert "'1_000m' is not a quantity" in complaint(write(text))
    (pod,) = load(write(text.replace("1_000m", "+2"))).of(Pod)
    assert pod.metadata.annotations == {
        "date": "2026-01-02",
        "ratio": "22:22",
        "equals": "=",
        "empty": "",
    }
    assert pod.spec.host_network
    assert pod.priority == 16
    (pod,) = load(write(text.replace("1_000m", "+2").replace("0x10", "0o17"))).of(Pod)
    assert pod.priority == 15
    assert pod.requests.incoming == {"memory": 1000, "cpu": 2000}


def test_generated_names_are_numbered_and_never_clash(write: Write) -> None:
    pod = named(metadata={"generateName": "web-"})
    text = "\n---\n".join(json.dumps(item) for item in (pod, pod, named(name="web-0")))
    assert keys(load(write(text))) == [
        "Pod default/web-1",
        "Pod default/web-2",
        "Pod default/web-0",
    ]


def test_priority_classes_may_come_after_the_pods_that_name_them(write: Write) -> None:
    pod = named(spec={"containers": [{}], "priorityClassName": "high"})
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 7,
    }
    (loaded,) = load(write(f"{json.dumps(pod)}\n{json.dumps(high)}")).of(Pod)
    assert loaded.priority == 7
    path = write(json.dumps(pod))
    assert complaint(path) == f"{path}: Pod default/x: no PriorityClass with name high was found"


# ---- what goes wrong ----

AN_OBJECT = "an object is a mapping with apiVersion and kind"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("- a\n- b\n", f": {AN_OBJECT}, not a list", id="list"),
        pytest.param("hello\n", f": {AN_OBJECT}, not a single value", id="word"),
        pytest.param("apiVersion: v1\n", ": kind is missing; an object needs it", id="no kind"),
        pytest.param("kind: Pod\n", ": apiVersion is missing; an object needs it", id="no version"),
        pytest.param("kind: List\nitems: {a: b}\n", ": items of List must be a list", id="items"),
        pytest.param(
            "a: b\nc: [d\ne: f\n",
            ", line 3, column 2: not valid YAML: did not find expected ',' or ']' "
            "while parsing a flow sequence",
            id="open bracket",
        ),
        pytest.param(
            "a:\n\t- b\n",
            ", line 2, column 1: not valid YAML: found character that cannot start any token "
            "while scanning for the next token",
            id="tab",
        ),
        pytest.param(
            "kind: Pod\nmetadata: {}\nkind: Node\n",
            ', line 3, column 1: not valid YAML: the key "kind" is given twice',
            id="key given twice",
        ),
        pytest.param(
            "a: &a\n  b: *a\n",
            ", line 2, column 6: not valid YAML: anchor 'a' value contains itself",
            id="cycle",
        ),
        pytest.param(
            "a: *b\n",
            ", line 1, column 4: not valid YAML: unknown anchor 'b' referenced",
            id="alias",
        ),
        pytest.param(
            "a: !!python/name:os.system x\n", ", line 1, column 4: not valid YAML: ", id="tag"
        ),
        pytest.param("a: \x07\n", ": not valid YAML: ", id="control character"),
        pytest.param(
            "a: " + "9" * 5000,
            ", line 1, column 4: not valid YAML: a number has too many digits",
            id="endless number",
        ),
        pytest.param("[" * 5000 + "]" * 5000, ": nested more than 200 levels deep", id="deep flow"),
        pytest.param('["]", ' * 5000, ": nested more than 200 levels deep", id="masked flow"),
        pytest.param("- " * 50_000 + "a", ": nested more than 200 levels deep", id="deep block"),
        pytest.param('{"a":' * 200_000, ": nested more than 200 levels deep", id="deep JSON"),
        pytest.param(
            '{"a":' * 300 + "1" + "}" * 300,
            ": nested more than 200 levels deep",
            id="JSON a little too deep",
        ),
        pytest.param(
            "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [[[[*a{n - 1}]]]]\n" for n in range(1, 60)),
            ": nested more than 200 levels deep",
            id="deep by references",
        ),
    ],
)
def test_a_broken_file_is_named_with_the_place(write: Write, text: str, problem: str) -> None:
    path = write(text)
    assert complaint(path).startswith(f"{path}{problem}")


def test_broken_json_is_named_with_the_place(write: Write) -> None:
    path = write('{\n "a": 1,\n}', "x.json")
    assert complaint(path).startswith(f"{path}, line 3, column 1: not valid JSON: ")


def test_references_that_explode_are_refused(write: Write) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        before = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{before}]")
    path = write("\n".join(lines))
    assert "document contains excessive aliasing" in complaint(path)


def test_a_mistake_is_named_with_document_and_item(write: Write) -> None:
    pods = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [named(), named(name="y", spec={"containers": [{"ports": 1}]})],
    }
    path = write(f"{NODE}---\n{json.dumps(pods)}\n")
    assert complaint(path) == (
        f"{path}, document 2, item 2: Pod default/y: "
        "spec.containers[0].ports must be a list, not the number 1"
    )


def test_a_number_for_a_label_is_explained(write: Write) -> None:
    path = write(POD.replace("  name: web\n", "  name: web\n  labels: {app: web, version: 1.0}\n"))
    assert complaint(path) == (
        f"{path}: Pod default/web: metadata.labels[version] must be a string, "
        "not the number 1.0; put it in quotes"
    )


def test_lazy_mistakes_are_found_at_once(write: Write) -> None:
    path = write(POD.replace("cpu: 0.5", "cpu: half"))
    assert complaint(path).startswith(
        f"{path}: Pod default/web: spec.containers[0].resources.limits[cpu]: 'half' is not"
    )


def test_an_object_given_twice_is_refused_with_both_places(write: Write) -> None:
    first = write(f"{NODE}---\n{POD}", "a.yaml")
    second = write(POD, "b.yaml")
    assert complaint(first, second) == (
        f"{second}: Pod default/web is given twice, first in {first}, document 2"
    )
    assert complaint(second, second).startswith(f"{second}: Pod default/web is given twice")


def test_the_same_name_in_another_namespace_or_kind_is_another_object(write: Write) -> None:
    other = named(metadata={"name": "x", "namespace": "other"})
    text = "\n".join(json.dumps(item) for item in (named(), other, named("Node")))
    assert len(load(write(text)).objects) == 3


def test_missing_and_unreadable_files_are_named(write: Write, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.yaml")
    assert complaint(gone) == f"{gone}: no such file or directory"
    binary = write(b"a: \xff\n")
    assert complaint(binary) == f"{binary} is not UTF-8 text (byte 3)"
    (tmp_path / "empty").mkdir()
    empty = str(tmp_path / "empty")
    assert complaint(empty) == f"{empty} holds no file that ends in .yaml, .yml, .json"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_named(write: Write) -> None:
    path = write(NODE)
    Path(path).chmod(0)
    assert complaint(path) == f"{path} cannot be read: Permission denied"


def test_an_empty_file_and_a_byte_order_mark_are_fine(write: Write) -> None:
    assert load(write("")).objects == ()
    assert load(write("# nothing\n---\n")).objects == ()
    assert keys(load(write(b"\xef\xbb\xbf" + NODE.encode()))) == ["Node n1"]


def test_the_slow_yaml_parser_reads_the_same(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(f"{NODE}---\n{POD}")
    fast = load(path)
    monkeypatch.setattr(documents, "SafeLoader", yaml.SafeLoader)
    assert load(path) == fast
    assert complaint(write("a: [b\nc: d\n")).endswith(
        "column 2: not valid YAML: expected ',' or ']', but got ':' while parsing a flow sequence"
    )


def test_every_complaint_about_an_object_is_a_decode_error(write: Write) -> None:
    with pytest.raises(DecodeError):
        load(write("kind: Pod\n"))


def test_two_objects_cannot_have_the_same_uid(write: Write) -> None:
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": "u"}}
        for name in ("a", "b")
    ]
    first, second = (
        write(json.dumps(node), f"{node['metadata']['name']}.json")  # type: ignore[index]
        for node in nodes
    )
    assert complaint(first, second) == (
        f'{second}: Node b: metadata.uid: "u" is that of Node a in {first}'
    )


def test_a_path_that_is_empty_or_far_too_long_is_one_sentence() -> None:
    assert "a file name is empty" in complaint("")
    assert complaint("x" * 5000).endswith("cannot be read: File name too long")
