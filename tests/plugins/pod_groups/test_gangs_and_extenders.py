"""Extenders take their time: what happens to a gang meanwhile counts when its places are taken."""

from collections.abc import Sequence

from moorage.framework.extenders import Extender, FilterReply
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import World, make_group, member

TIMED_OUT = (
    "0/1 nodes are available: 1 rejected due to timeout after waiting 5m0s "
    "at plugin GangScheduling."
)


class Agreeable(Extender):
    """Lets everything pass."""

    name = "agreeable"
    filters = True

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        del pod
        return FilterReply(names=tuple(node.name for node in nodes))


def gang_in_the_middle() -> World:
    """A gang of three, one of them placed long ago, the others just tried."""
    world = World()
    world.scheduler.cycle.use_extenders([Agreeable()])
    world.add(make_node("n1", cpu="3"), make_group(min_count=3))
    world.add(member("p0", node_name="n1"), member("p1"), member("p2"))
    assert world.scheduler.schedule_one()
    assert world.scheduler.awaits_news
    assert world.places == {"p0"}, "nothing is taken yet"
    return world


def test_a_gang_is_bound_after_a_look_at_the_news() -> None:
    world = gang_in_the_middle()
    world.run()
    assert not world.scheduler.awaits_news
    assert sorted(world.bound) == ["p1", "p2"]


def test_a_gang_that_lost_a_pod_meanwhile_waits_and_gives_its_places_back() -> None:
    world = gang_in_the_middle()
    world.handlers.delete_pod(member("p0", node_name="n1"))
    world.run()
    assert world.places == {"p1", "p2"}
    assert not world.bound
    world.add(make_pod("rival", cpu="2"))
    world.clock.advance(299)
    world.run()
    assert not world.bound
    world.clock.advance(1)
    world.run()
    assert world.messages("p1") == world.messages("p2") == [TIMED_OUT]
    world.pass_time(15)
    assert world.bound == {"rival": "n1"}


def test_a_pod_that_comes_in_time_completes_the_gang() -> None:
    world = gang_in_the_middle()
    world.handlers.delete_pod(member("p0", node_name="n1"))
    world.run()
    assert not world.bound
    world.add(member("p3"))
    world.pass_time(15)
    assert sorted(world.bound) == ["p1", "p2", "p3"]


def test_pods_that_are_gone_or_have_no_node_left_do_not_stop_the_scheduler() -> None:
    world = gang_in_the_middle()
    world.handlers.delete_pod(member("p1"))
    world.handlers.delete_node(make_node("n1", cpu="3"))
    world.add(make_node("n2", cpu="3"), make_pod("other"))
    world.pass_time(15)
    assert world.bound == {"other": "n2"}


def test_without_extenders_a_gang_is_placed_at_once() -> None:
    world = World()
    world.add(make_node("n1", cpu="3"), make_group(min_count=2), member("p1"), member("p2"))
    assert world.scheduler.schedule_one()
    assert not world.scheduler.awaits_news
    assert world.places == {"p1", "p2"}
