"""When a reflection is due, which reflections count, and what a ledger's beliefs are."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_reminiscence.domain.event import Event
from agent_reminiscence.exceptions import InvalidInputError
from agent_reminiscence.views import (
    BeliefGraph,
    EpisodicMemory,
    ReflectionFollower,
    ReflectionMemory,
    ReflectionTracker,
    Visibility,
    format_events,
    reflection_payload,
)
from tests.support.ledger_events import (
    as_read,
    erase,
    event_id,
    looks,
    make_event,
    positions,
    reflective_ledgers,
    seen_by,
    seen_in,
    without_erased,
)


def reflect(
    position: int, belief: str, based_on: list[int], *, actor: str = "mara", turn: int | None = None, **others: Any
) -> Event:
    """A reflection; `others` names events by position."""
    payload: dict[str, Any] = {"belief": belief, "based_on": [str(event_id(one)) for one in based_on]}
    if "replaces" in others:
        payload["replaces"] = str(event_id(others["replaces"]))
    if "contradicts" in others:
        payload["contradicts"] = [str(event_id(one)) for one in others["contradicts"]]
    return make_event(position, payload, actor=actor, kind="agent.reflected", turn=turn)


STORY = [
    make_event(1, "odo hides something", turn=1),
    make_event(2, "I took the key", actor="odo", kind="agent.thought", turn=1),
    reflect(3, "Odo has the key.", [1], turn=2),
    reflect(4, "Nobody knows of the key.", [2], actor="odo", turn=3),
    reflect(5, "Ilse has the key.", [1, 4], turn=5, replaces=3),
    reflect(6, "Mara is wrong.", [2, 5], actor="odo", turn=6, contradicts=[5]),
]


def test_a_reflection_is_due_after_so_many_seen_events() -> None:
    """Own and global ones count, others' thoughts do not, and an own reflection begins anew."""
    tracker = ReflectionTracker("mara", 3)

    assert not tracker.observe([make_event(1), make_event(2, actor="odo"), make_event(3, kind="world.observed")])
    assert tracker.observe([make_event(4)])
    assert positions(tracker.since) == [1, 3, 4]
    assert not tracker.observe([reflect(5, "It rains.", [3])])
    assert tracker.since == ()
    # Another agent's reflection is an event like others.
    assert tracker.observe([make_event(6), make_event(7), reflect(8, "Odo is glad.", [3], actor="odo")])


def test_no_reflection_is_due_without_a_threshold() -> None:
    """It is off unless it is turned on; then nothing is kept either."""
    tracker = ReflectionTracker("mara")
    events = [make_event(number) for number in range(1, 99)]

    assert not tracker.observe(events)
    assert not tracker.is_due
    assert tracker.since == ()
    watched = [weakref.ref(event) for event in events]
    del events
    assert [one for one in watched if one() is not None] == []


def test_reflections_alone_make_none_due() -> None:
    """Three agents with a small threshold come to rest, although each sees what the others believe."""
    cast = ("mara", "odo", "ilse")
    trackers = {name: ReflectionTracker(name, 2) for name in cast}
    ledger = [make_event(1, "rain", kind="world.observed"), make_event(2, "more rain", kind="world.observed")]
    for _ in range(20):
        for name, tracker in trackers.items():
            if tracker.observe(ledger):
                seen = tracker.since
                payload = reflection_payload(name, f"{name} is wet.", [seen[0].event_id], seen)
                ledger.append(make_event(len(ledger) + 1, payload, actor=name, kind="agent.reflected"))

    assert [event.actor for event in ledger[2:]] == ["mara", "odo", "ilse"]
    # With something to reflect on, what others believe counts as well.
    ledger.append(make_event(6, "the rain ends", kind="world.observed"))
    assert [tracker.observe(ledger) for tracker in trackers.values()] == [True, True, False]


def test_a_reflection_on_what_its_author_does_not_see_is_none() -> None:
    """It neither resets the tracker nor becomes a belief, whoever appended it."""
    odo = make_event(1, "I took the key", actor="odo", kind="agent.thought")
    for forged in (
        reflect(3, "Odo has it.", [1]),
        reflect(3, "Odo has it.", [3]),
        reflect(3, "Odo has it.", [4]),
        reflect(3, "Odo has it.", []),
        reflect(3, " ", [2]),
        reflect(3, "x", [2], replaces=2),
        reflect(3, "x", [2], contradicts=[2]),
        make_event(3, {"belief": "x", "based_on": "all"}, kind="agent.reflected"),
        make_event(3, {}, kind="agent.reflected"),
        reflect(3, "x", [2]).model_copy(update={"actor": None}),
    ):
        events = [odo, make_event(2, "seen"), forged, make_event(4)]
        tracker = ReflectionTracker("mara", 3)
        assert tracker.observe(events), forged.payload
        assert BeliefGraph(events).current() == ()
        follower = ReflectionMemory("mara").follow()
        follower.observe(events)
        assert follower.beliefs() == ()


def test_a_payload_is_checked_before_it_is_written() -> None:
    """And read back as the same."""
    payload = reflection_payload(
        "odo", "Mara is wrong.", [event_id(2)], STORY[:5], replaces=event_id(4), contradicts=[event_id(5)]
    )
    event = make_event(6, payload, actor="odo", kind="agent.reflected")

    (belief,) = BeliefGraph([*STORY[:5], event]).current("odo")

    assert (belief.text, belief.based_on, belief.replaces) == ("Mara is wrong.", (event_id(2),), event_id(4))
    assert belief.contradicts == (event_id(5),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reflection_payload("mara", "x", [event_id(2)], STORY), f"based_on names {event_id(2)}"),
        (lambda: reflection_payload("mara", "x", [event_id(9)], STORY), "not an earlier event visible to 'mara'"),
        (lambda: reflection_payload("mara", "x", [event_id(1)], [*STORY, erase(7, 1)]), "not an earlier event visible"),
        (lambda: reflection_payload("mara", "x", [], STORY), "at least one event; check based_on"),
        (lambda: reflection_payload("mara", " ", [event_id(1)], STORY), "belief must not be blank, .* check belief"),
        (
            lambda: reflection_payload("mara", "x", [event_id(1)], STORY, replaces=event_id(4)),
            "not an earlier reflection of 'mara'",
        ),
        (
            lambda: reflection_payload("mara", "x", [event_id(1)], STORY, contradicts=[event_id(3)]),
            "not an earlier reflection of another agent visible to",
        ),
        (
            lambda: reflection_payload("mara", "x", [event_id(1)], STORY, public=1),  # type: ignore[arg-type]
            "public must be True or False, not 1",
        ),
        (lambda: BeliefGraph(STORY).evidence(event_id(1)), "no belief has the id"),
        (lambda: ReflectionTracker("mara", 0), "threshold must be a whole number from 1, not 0"),
    ],
)
def test_wrong_input_is_refused(make: Callable[[], object], message: str) -> None:
    """The message names the value."""
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_beliefs_are_revised_and_contradicted_by_those_who_say_so() -> None:
    """Current beliefs, their history, evidence and conflicts, now and as of a turn."""
    graph = BeliefGraph(STORY)

    def texts(**query: Any) -> list[str]:
        return [belief.text for belief in graph.current(**query)]

    assert texts() == ["Nobody knows of the key.", "Ilse has the key.", "Mara is wrong."]
    assert texts(agent_name="mara") == ["Ilse has the key."]
    assert texts(turn=2) == ["Odo has the key."]
    assert texts(turn=4) == ["Odo has the key.", "Nobody knows of the key."]
    assert [one.text for one in graph.history(event_id(5))] == ["Odo has the key.", "Ilse has the key."]
    assert positions(graph.evidence(event_id(5))) == [1, 4]
    assert [(one.text, other.text) for one, other in graph.conflicts()] == [("Ilse has the key.", "Mara is wrong.")]
    assert graph.conflicts(turn=5) == ()
    assert graph.holders("ilse  has the KEY.") == ("mara",)
    graph.observe([reflect(7, "ILSE has the key.", [1], actor="ilse"), reflect(7, "again", [1])])
    assert graph.holders("ilse has the key.") == ("mara",)  # Ilse does not see event 1.
    graph.observe([reflect(8, "ILSE has the key.", [3], actor="ilse")])
    assert graph.holders("ilse has the key.") == ("ilse", "mara")


def test_a_judge_reads_beliefs_without_the_agents_memory() -> None:
    """What a belief rests on stays with who saw it."""
    graph = BeliefGraph(STORY)

    assert graph.current(reader="judge") == ()
    for number in (3, 4, 5, 6):
        with pytest.raises(InvalidInputError, match="no belief has the id"):
            graph.evidence(event_id(number), reader="judge")
    # Mara's second belief names Odo's first, which he has not shown her: it stays hers, and she is not shown his.
    assert positions(graph.evidence(event_id(5), reader="mara")) == [1]
    assert positions(graph.evidence(event_id(6), reader="odo")) == [2]

    told = [one.model_copy(update={"payload": one.payload | {"public": True}}) for one in STORY[3:]]
    graph = BeliefGraph([*STORY[:3], *told])
    assert [belief.text for belief in graph.current("odo", reader="judge")] == [
        "Nobody knows of the key.",
        "Mara is wrong.",
    ]
    assert graph.evidence(event_id(4), reader="judge") == ()
    assert positions(graph.evidence(event_id(6), reader="judge")) == [5]
    assert positions(graph.evidence(event_id(6), reader="odo")) == [2, 5]
    # What a public belief replaces is not told with it.
    assert [one.id for one in graph.history(event_id(5), reader="judge")] == [event_id(5)]
    assert [one.id for one in graph.history(event_id(5), reader="mara")] == [event_id(3), event_id(5)]


def test_a_belief_is_read_by_those_who_see_all_that_it_rests_on() -> None:
    """Every event, every belief on the way, what it replaces, and what its model was shown."""
    rain = make_event(1, "rain", kind="world.observed")
    thought = make_event(2, "I took the key", actor="odo", kind="agent.thought")
    cases: list[tuple[list[Event], bool]] = [
        ([reflect(3, "It rains.", [1], actor="odo")], True),
        ([reflect(3, "Odo is a thief.", [1, 2], actor="odo")], False),
        ([reflect(3, "Odo is a thief.", [2], actor="odo"), reflect(4, "The key is gone.", [3], actor="odo")], False),
        ([reflect(3, "It rains.", [1], actor="odo"), reflect(4, "It pours.", [3], actor="odo")], True),
        ([reflect(3, "Odo has it.", [2], actor="odo"), reflect(4, "It rains.", [1], actor="odo", replaces=3)], False),
        ([reflect(3, "It rains.", [1, 9], actor="odo")], False),
        ([make_event(3, {"belief": "So it is."}, actor="odo", kind="agent.reflected")], False),
        ([make_event(3, {"text": "I took the key"}, actor="odo", kind="agent.reflected")], False),
        ([make_event(3, {"belief": "So.", "based_on": "all"}, actor="odo", kind="agent.reflected")], False),
    ]
    for payload, is_read in (
        ({"rests_on": [str(event_id(1))]}, True),
        ({"rests_on": [str(event_id(1)), str(event_id(2))]}, False),
        ({"rests_on": ["x"]}, False),
        ({"rests_on": "all"}, False),
        ({"rests_on": [str(event_id(2))], "public": True}, True),
        ({"rests_on": [str(event_id(2))], "public": "true"}, False),
        ({"rests_on": [str(event_id(2))], "public": 1}, False),
    ):
        plain = reflect(3, "It rains.", [1], actor="odo")
        cases.append(([plain.model_copy(update={"payload": plain.payload | payload})], is_read))

    for reflections, is_read in cases:
        events, last = [rain, thought, *reflections], reflections[-1]
        for reader in ("mara", "judge"):
            assert (last in EpisodicMemory(reader, 99).visible(events)) == is_read, last.payload
            if last.payload.get("based_on") not in (None, "all"):
                shown = [one.id for one in BeliefGraph(events).current(reader=reader)]
                assert (last.event_id in shown) == is_read
        assert last in EpisodicMemory("odo", 99).visible(events)
        # By itself, an event tells only whether it is public.
        assert Visibility().sees("mara", last) == (last.payload.get("public") is True)


def test_a_private_thought_stays_private_until_it_is_confessed() -> None:
    """A belief on a thought is its author's; after the confession, one that rests on that is everybody's."""
    events = [make_event(1, "I took the key", actor="odo", kind="agent.thought", turn=1)]
    events.append(reflect(2, "Odo hides the key.", [1], actor="odo", turn=1))
    confession = make_event(3, "Odo confesses: he has the key.", kind="world.observed", actor=None, turn=20)
    later = reflect(4, "Odo has confessed.", [3], actor="odo", turn=20)

    follower = EpisodicMemory("mara").follow()
    follower.observe(events)
    assert follower.visible() == ()
    follower.observe([confession, later])
    assert positions(follower.visible()) == [3, 4]


def test_a_belief_whose_replaced_one_is_erased_is_its_authors_alone() -> None:
    """Nobody can tell any more whether what it repeats may be read; and it stays a belief of its author."""
    rain = make_event(1, "rain", kind="world.observed")
    events = [rain, reflect(2, "It rains.", [1], actor="odo"), reflect(3, "It pours.", [1], actor="odo", replaces=2)]
    follower, graph = EpisodicMemory("mara").follow(), BeliefGraph(events)
    follower.observe(events)
    assert positions(follower.visible()) == [1, 2, 3]
    assert [belief.text for belief in graph.current(reader="mara")] == ["It pours."]

    receipt = erase(4, 2)
    follower.observe([receipt])
    graph.observe([receipt])

    assert positions(follower.visible()) == [1]
    assert graph.current(reader="mara") == ()
    assert [belief.text for belief in graph.current(reader="odo")] == ["It pours."]


@settings(max_examples=60)
@given(reflective_ledgers(), looks(), st.sampled_from(("mara", "odo", "judge")))
def test_no_view_shows_a_belief_with_a_ground_that_its_reader_does_not_see(
    events: list[Event], moments: list[tuple[int, int]], reader: str
) -> None:
    """Any history, any erasures, read at any moments: exactly what the rule allows, in views and in the graph."""
    follower, graph = EpisodicMemory(reader, 99).follow(), BeliefGraph()
    for moment in [*moments, (len(events), len(events))]:
        part = seen_in(events, moment)
        follower.observe(part)
        graph.observe(part)
        wanted = seen_by(reader, part)
        assert list(follower.visible()) == wanted
        shown = {belief.id for belief in graph.current(reader=reader)}
        assert shown <= {event.event_id for event in wanted}
        for belief_id in shown:
            for query in (graph.evidence, graph.history):
                assert {getattr(one, "event_id", None) or one.id for one in query(belief_id, reader=reader)} <= {
                    event.event_id for event in wanted
                }


def test_private_reflections_are_read_by_their_author_alone() -> None:
    """Where a ledger does not make them global."""
    private = Visibility(global_kinds=frozenset())
    graph = BeliefGraph(STORY[:4], visibility=private)
    assert [belief.text for belief in graph.current(reader="mara")] == ["Odo has the key."]
    with pytest.raises(InvalidInputError, match="no belief has the id"):
        graph.evidence(event_id(4), reader="mara")


def test_after_k_reflections_memory_is_k_beliefs_and_a_window() -> None:
    """200 turns, a reflection after every 20 seen events, a window of 8."""
    tracker, memory, ledger = ReflectionTracker("mara", 20), ReflectionMemory("mara", 8), list[Event]()
    for turn in range(200):
        ledger.append(make_event(len(ledger) + 1, f"turn {turn}", turn=turn))
        ledger.append(make_event(len(ledger) + 1, "secret", actor="odo", turn=turn))
        if tracker.observe(ledger):
            based_on = [event.event_id for event in tracker.since]
            payload = reflection_payload("mara", f"Belief of turn {turn}.", based_on, ledger)
            ledger.append(make_event(len(ledger) + 1, payload, kind="agent.reflected", turn=turn))
            tracker.observe(ledger)

    follower = memory.follow()
    follower.observe(ledger)

    assert [one.payload["belief"] for one in follower.beliefs()] == [
        f"Belief of turn {turn}." for turn in range(19, 200, 20)
    ]
    assert [one.payload["text"] for one in follower.recent()] == [f"turn {turn}" for turn in range(192, 200)]
    assert len(memory.visible(ledger)) == 10 + 8
    assert "secret" not in memory.format_for_prompt(ledger)


@pytest.mark.thorough
@settings(max_examples=40)
@given(reflective_ledgers(), looks(), st.randoms())
def test_in_steps_is_from_scratch(events: list[Event], moments: list[tuple[int, int]], random: Any) -> None:
    """However a ledger is cut, shuffled or erased; and a belief rests only on what its author saw before."""
    graph, tracker, follower = BeliefGraph(), ReflectionTracker("mara", 3), ReflectionMemory("mara", 3).follow()
    for moment in [*moments, (len(events), len(events))]:
        part = seen_in(events, moment)
        random.shuffle(part)
        graph.observe(part)
        tracker.observe(part)
        follower.observe(part)
        _check(part, graph, tracker, follower)
    own = [belief.id for belief in graph.current("mara")]
    assert [event.event_id for event in follower.beliefs()] == own
    left: dict[UUID, Event] = {event.event_id: event for event in without_erased(events)}
    for belief in graph.current():
        assert belief.based_on
        for one in belief.based_on:
            assert left[one].position < left[belief.id].position
            assert Visibility().may_name(belief.agent_name, left[one])
            assert left[one] in graph.evidence(belief.id)


@pytest.mark.thorough
@settings(max_examples=40)
@given(reflective_ledgers(), st.lists(st.integers(0, 40), max_size=4))
def test_who_heard_a_text_forgets_it_like_who_never_did(events: list[Event], cuts: list[int]) -> None:
    """A subscription brings events whole, and the receipt later; after that, nothing tells the two apart."""
    graph, tracker, follower = BeliefGraph(), ReflectionTracker("mara", 3), ReflectionMemory("mara", 3).follow()
    for cut in [*sorted(cuts), len(events)]:
        graph.observe(events[:cut])
        tracker.observe(events[:cut])
        follower.observe(events[:cut])

    _check(as_read(events), graph, tracker, follower)


def _check(part: list[Event], graph: BeliefGraph, tracker: ReflectionTracker, follower: ReflectionFollower) -> None:
    """Hold views that followed a ledger against new ones."""
    other = ReflectionTracker("mara", 3)
    assert other.observe(part) == tracker.is_due
    assert other.since == tracker.since
    assert graph.current() == BeliefGraph(part).current()
    assert graph.conflicts() == BeliefGraph(part).conflicts()
    assert graph.format_for_prompt("odo") == BeliefGraph(part).format_for_prompt("odo")
    assert follower.visible() == ReflectionMemory("mara", 3).visible(part)


def test_erased_evidence_takes_a_belief_with_it() -> None:
    """And every belief that rests on that; what it replaced is a belief again."""
    receipt = erase(7, 4, actor="judge")
    graph, follower = BeliefGraph(STORY), ReflectionMemory("mara").follow()
    follower.observe(STORY)
    assert [belief.text for belief in graph.current("mara")] == ["Ilse has the key."]

    graph.observe([receipt])
    follower.observe([receipt])

    (belief,) = graph.current()
    assert belief.text == "Odo has the key."
    assert BeliefGraph(as_read([*STORY, receipt])).current() == (belief,)
    assert positions(follower.beliefs()) == [3]
    assert graph.conflicts() == ()
    for gone in (4, 5, 6):
        with pytest.raises(InvalidInputError, match="no belief has the id"):
            graph.evidence(event_id(gone))


def test_a_belief_stays_if_only_what_it_replaces_or_contradicts_is_erased() -> None:
    """It rests on evidence of its own."""
    other = reflect(7, "Mara lies.", [2], actor="odo", contradicts=[3])
    graph = BeliefGraph([*STORY, other, erase(8, 3)])

    assert [belief.text for belief in graph.current("mara")] == ["Ilse has the key."]
    assert [belief.text for belief in graph.history(event_id(5))] == ["Ilse has the key."]
    assert "Mara lies." in [belief.text for belief in graph.current("odo")]


def test_what_was_reflected_on_is_due_again_once_the_reflection_is_erased() -> None:
    """As if it had never been written."""
    tracker = ReflectionTracker("mara", 3)
    events = [make_event(1), make_event(2), make_event(3), reflect(4, "It rains.", [2]), make_event(5)]
    assert not tracker.observe(events)

    assert tracker.observe([erase(6, 4)])

    assert positions(tracker.since) == [1, 2, 3, 5]


def test_beliefs_as_a_prompt() -> None:
    """Of the shape of every view; without a reader all of them."""
    private = Visibility(global_kinds=frozenset())

    assert BeliefGraph(STORY).format_for_prompt() == format_events([STORY[3], STORY[4], STORY[5]])
    assert BeliefGraph(STORY[:4], visibility=private).format_for_prompt("mara") == format_events([STORY[2]])
    assert BeliefGraph().format_for_prompt("mara") == ""
