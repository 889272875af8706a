"""ImageLocality: does the node have the pod's images already?"""

from moorage.model.pod import Container
from moorage.model.volumes import ImageVolume, Volume
from moorage.plugins.image_locality import ImageLocality
from plugins.tables import ScoreCase, check_score, table
from reference.objects import make_node, make_pod

MIB = 1024 * 1024
IMAGES = [Volume(name="v", image=ImageVolume(reference="web:v1"))]
POD = make_pod("p", image="web:v1")


@table(
    ScoreCase("nobody has it", POD, [make_node("a"), make_node("b")], {"a": 0, "b": 0}),
    ScoreCase(
        "everybody has it",
        POD,
        [
            make_node("a", images={"web:v1": 1000 * MIB}),
            make_node("b", images={"web:v1": 1000 * MIB}),
        ],
        {"a": 100, "b": 100},
    ),
    ScoreCase(
        "it counts by the share of nodes that have it",
        POD,
        [make_node("a", images={"web:v1": 500 * MIB}), make_node("b")],
        {"a": 100 * (250 - 23) // (1000 - 23), "b": 0},
    ),
    ScoreCase(
        "small images do not count",
        POD,
        [make_node("a", images={"web:v1": 23 * MIB}), make_node("b", images={"web:v1": 23 * MIB})],
        {"a": 0, "b": 0},
    ),
    ScoreCase(
        "another tag is another image",
        POD,
        [make_node("a", images={"web:v2": 1000 * MIB})],
        {"a": 0},
    ),
    ScoreCase(
        "no tag means the latest",
        make_pod("p", image="web"),
        [make_node("a", images={"web:latest": 1000 * MIB})],
        {"a": 100},
    ),
    ScoreCase(
        "a port is no tag",
        make_pod("p", image="registry:5000/web"),
        [make_node("a", images={"registry:5000/web:latest": 1000 * MIB})],
        {"a": 100},
    ),
    ScoreCase(
        "the more containers, the more is needed for a full score",
        make_pod("p", containers=[Container(name="a", image="web:v1"), Container(name="b")]),
        [make_node("a", images={"web:v1": 1000 * MIB})],
        {"a": 100 * (1000 - 23) // (2000 - 23)},
    ),
    ScoreCase(
        "image volumes are images, other volumes are not",
        make_pod("p", image="db", volumes=[*IMAGES, Volume(name="c")]),
        [make_node("a", images={"web:v1": 1000 * MIB})],
        {"a": 100 * (1000 - 23) // (2000 - 23)},
    ),
    ScoreCase(
        "init containers count",
        make_pod("p", init_containers=[Container(name="i", image="web:v1")]),
        [make_node("a", images={"web:v1": 1000 * MIB})],
        {"a": 100 * (1000 - 23) // (2000 - 23)},
    ),
)
def test_nodes_are_scored_by_the_bytes_they_have(case: ScoreCase) -> None:
    check_score(ImageLocality, case)
