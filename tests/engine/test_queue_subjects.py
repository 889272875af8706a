"""Hints that say what they are about are asked for few pods, and decide as if asked for all."""

from collections.abc import Collection, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.queueing import Bench, judge, profile
from moorage.engine.events import NODE_ADD
from moorage.framework.cluster_events import ActionType, EventResource, Subjects, on
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing.builders import make_node, make_pod

WORDS = ("red", "green", "any")

Word = str
words = st.sampled_from(WORDS)
turns = st.one_of(
    st.tuples(st.sampled_from(["update", "event", "delete"]), st.integers(0, 3), words),
    st.tuples(st.just("reject"), st.integers(0, 3), words),
)


def _word(obj: ApiObject | None) -> Collection[str] | None:
    """What a pod or a node is about, by its label."""
    word = "any" if obj is None else obj.labels["word"]
    return None if word == "any" else (word,)


def _hint(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    about, concern = _word(pod), _word(new)
    return about is None or concern is None or about == concern


SUBJECTS = Subjects(_word, lambda old, new: _word(new))


def _bench(subjects: Subjects | None) -> Bench:
    return Bench(
        profile(
            judge("Picky", on(EventResource.NODE, ActionType.ADD, _hint, subjects)),
            judge("Other", on(EventResource.NODE, ActionType.ADD, _hint)),
        )
    )


def _pod(number: int, word: Word) -> Pod:
    return make_pod(f"pod-{number}", labels={"word": word})


def _turn(bench: Bench, what: str, number: int, word: Word) -> None:
    known = bench.queue.view.find(make_pod(f"pod-{number}"))
    if what == "event":
        node = make_node(labels={"word": word})
        bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, node)
    elif what == "reject" and known is None:
        plugins = ("Picky", "Other") if number == 0 else ("Picky",)
        bench.rejected(*plugins, name=f"pod-{number}", labels={"word": word})
    elif what == "update" and known is not None:
        bench.queue.update(known.pod, _pod(number, word))
    elif what == "delete" and known is not None:
        bench.queue.delete(known.pod)


@settings(max_examples=100, deadline=None)
@given(st.lists(turns, max_size=20))
def test_pods_are_woken_as_if_every_one_were_asked_about(
    course: Sequence[tuple[str, int, Word]],
) -> None:
    narrowed, plain = _bench(SUBJECTS), _bench(None)
    for what, number, word in course:
        for bench in (narrowed, plain):
            _turn(bench, what, number, word)
        for name in ("pod-0", "pod-1", "pod-2", "pod-3"):
            assert narrowed.place(name) == plain.place(name)
    assert len(narrowed.ledger.hints) <= len(plain.ledger.hints)


def test_the_hint_is_asked_about_pods_that_share_a_subject_with_the_event() -> None:
    bench = _bench(SUBJECTS)
    for number in range(1, 4):
        bench.rejected("Picky", name=f"pod-{number}", labels={"word": WORDS[number % 2]})
    _turn(bench, "event", 0, "green")
    assert bench.ledger.hints == [("Picky", "NodeAdd", "Queue")] * 2
    assert bench.place("pod-2") == "unschedulable"


def test_a_plugin_that_cannot_tell_the_subjects_is_asked_about_every_pod() -> None:
    def broken(*objects: object) -> None:
        raise KeyError(*objects)

    for subjects in (Subjects(broken, SUBJECTS.of_event), Subjects(_word, broken)):
        bench = _bench(subjects)
        bench.rejected("Picky", name="pod-1", labels={"word": "red"})
        bench.rejected("Picky", name="pod-2", labels={"word": "green"})
        _turn(bench, "event", 0, "red")
        assert bench.ledger.hints == [
            ("Picky", "NodeAdd", "Queue"),
            ("Picky", "NodeAdd", "QueueSkip"),
        ]


def test_two_registrations_for_one_event_are_about_all_pods() -> None:
    subjects = Subjects(lambda pod: (), lambda old, new: ())
    both = (
        on(EventResource.NODE, ActionType.ADD, _hint, subjects),
        on(EventResource.NODE, ActionType.ADD, _hint),
    )
    for registrations in (both, both[::-1]):
        bench = Bench(profile(judge("Picky", *registrations)))
        bench.rejected("Picky", name="pod-1", labels={"word": "red"})
        _turn(bench, "event", 0, "red")
        assert bench.place("pod-1") != "unschedulable"
