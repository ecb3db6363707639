"""What becomes of a model's answer: what of it is mended, what the model is asked again, and what is kept at last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest

from agent_reminiscence import AgentMem
from agent_reminiscence.domain.trust import Source
from agent_reminiscence.services.tiers.windows import WINDOW_PASSAGES
from tests.support.memorizing import MakeConfig, Shown, fact, hits_of, memorizing, payloads, reads
from tests.support.scripted import ScriptedModel, Step, answer, fail, say
from tests.support.steps import lines

_SAID = datetime(2024, 5, 20, 10, 30, tzinfo=UTC)
_KILN = "Greta Holm has bought a kiln for the pottery in Visby."
_FIRED = "She fired the first bowls in it with Arvid."
_SOLD = "Greta Holm and Arvid sell bowls in Visby."
_POTTERY = lines([_KILN, _FIRED, _SOLD])
_LEARNT = "Greta Holm fires bowls in a kiln that she owns."

type _Making = Callable[[Shown], dict[str, Any]]


def _right(shown: Shown) -> dict[str, Any]:
    return {
        "entities": [{"name": "Greta Holm", "type": "person"}, {"name": "Visby", "type": "place"}],
        "relationships": [
            {"who": "Greta Holm", "relation": "sells_in", "whom": "Visby", "passages": shown.new(_SOLD)},
        ],
        "facts": [fact(shown, _LEARNT, _KILN, _FIRED)],
        "summary": "Greta has a kiln.",
    }


def _with(part: str, *items: Any) -> _Making:
    """The right answer with some items more."""

    def make(shown: Shown) -> dict[str, Any]:
        plan = _right(shown)
        return {**plan, part: [*plan.get(part, []), *items]}

    return make


def _instead(**parts: Any) -> _Making:
    """The right answer with other parts."""
    return lambda shown: {**_right(shown), **parts}


async def _consolidated(memory: AgentMem) -> dict[str, Any]:
    """What a consolidation of the pottery records."""
    await memory.create_active_memory("agent-1", "Pottery", _POTTERY, occurred_at=_SAID)
    (report,) = await memory.admin.consolidate("agent-1")
    assert report.consolidated
    [plan] = await payloads(memory, "consolidated")
    assert (await memory.admin.verify("agent-1")).ok
    return plan


def _facts(plan: Mapping[str, Any]) -> list[str]:
    return [one["content"] for one in plan["facts"]]


def _named(plan: Mapping[str, Any]) -> dict[str, list[int]]:
    """The passages of each entity by its name, from 0."""
    return {one["name"]: one["chunks"] for one in plan["graph"]["entities"]}


def _related(plan: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """The relationships that a model states."""
    names = {one["id"]: one["name"] for one in plan["graph"]["entities"]}
    found = plan["graph"]["relationships"]
    return {
        (names[one["from_id"]], one["type"], names[one["to_id"]]) for one in found if one["type"] != "mentioned_with"
    }


def _refusals(messages: Sequence[ModelMessage]) -> str:
    """What a model was told of its answers so far."""
    told = [part for message in messages[1:] if isinstance(message, ModelRequest) for part in message.parts]
    return "\n".join(str(getattr(part, "content", "")) for part in told)


# What is mended ---------------------------------------------------------------------------------------

_SELLS: dict[str, Any] = {"who": "Greta Holm", "relation": "sells_in", "whom": "Visby", "passages": [3]}


@pytest.mark.parametrize(
    "make",
    [
        _with("over", {"number": 99, "by": 1, "why": "So."}, {"number": 1, "by": 99, "why": "So."}),
        _with("entities", {"name": "She", "type": "person"}, {"name": "  ", "type": "person"}),
        _with("entities", {"name": "Greta Holm", "type": "person", "also_called": ["Queen of Clay"]}),
        _with("relationships", _SELLS, {**_SELLS, "whom": "Greta Holm"}),
        _with("relationships", {**_SELLS, "since": "last spring", "until": "99999"}),
        _with("relationships", {**_SELLS, "since": "2024-05", "until": "2023-01"}),
        _with("facts", {"text": _LEARNT.upper(), "passages": [1], "importance": 0.5}),
        _with("facts", {"text": _SOLD, "passages": [3], "importance": 0.5}),
        _with("facts", {"text": " … ", "passages": [3], "importance": 0.5}),
        _instead(facts=[{"text": _LEARNT, "passages": [1, 2, 99, 0, -1], "importance": 7}]),
        _instead(importance=[7.0, -1.0, 0.5]),
        _instead(over=None, summary="Greta has a kiln."),
        _instead(more="of what nobody asked for"),
    ],
    ids=["no such numbers", "no names", "an entity twice", "relationships twice and to itself", "no dates",
         "an end before its start", "a fact twice", "a passage as a fact", "a fact without words", "numbers too many",
         "out of bounds", "null for a list", "another field"],
)  # fmt: skip
async def test_what_can_be_mended_costs_no_second_request(config: MakeConfig, make: _Making) -> None:
    """It is left out or brought into its bounds; the rest is as in an answer without the mistake."""
    model = ScriptedModel(reads(make))
    async with memorizing(config, model) as memory:
        plan = await _consolidated(memory)

        assert (len(model.asked), plan["usage"][0]["requests"], plan["fallback"]) == (1, 1, None)
        assert _facts(plan) == [_LEARNT]
        assert plan["facts"][0]["chunks"] == [0, 1]
        named = _named(plan)
        assert named["Greta Holm"] == named["Visby"] == [0, 2]
        assert not {"She", "Queen of Clay"} & {
            *named,
            *(name for one in plan["graph"]["entities"] for name in one["aliases"]),
        }
        [sells] = [one for one in plan["graph"]["relationships"] if one["type"] == "sells_in"]
        assert (sells["start_date"], sells["end_date"]) == (_SAID.isoformat().replace("+00:00", "Z"), None)
        assert all(0 <= one["importance"] <= 1 for one in (*plan["chunks"], *plan["facts"]))
        assert plan["summary"] == "Greta has a kiln."
        assert await payloads(memory, "ended") == []


async def test_names_are_looked_for_in_all_new_passages(config: MakeConfig) -> None:
    """A model names an entity once; its passages are those that have one of its names, also with another ending."""
    texts = [
        "Marta Lind keeps bees above Tampere.",
        "The honey was sold out by noon.",
        "MARTA LIND has ordered two more hives.",
        "Mattan took the bus to Tampereelle, said Marttika.",
        "Marttika's veil is torn.",
    ]
    found = [
        {"name": "Marta Lind", "type": "person", "also_called": ["Marttika", "Queen of the hill"]},
        {"name": "Tampere", "type": "place"},
    ]
    # The plan forgets the hives as an entity; the passages have the name.
    ordered = {"who": "Marttika", "relation": "ordered", "whom": "hives", "passages": [3]}
    model = ScriptedModel(reads(lambda shown: {"entities": found, "relationships": [ordered]}))
    async with memorizing(config, model) as memory:
        note = await memory.create_active_memory("agent-1", "Bees", lines(texts), occurred_at=_SAID)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.fallback, len(model.asked)) == (None, 1)
        [plan] = await payloads(memory, "consolidated")
        named = _named(plan)
        assert (named["Marta Lind"], named["Tampere"], named["hives"]) == ([0, 2, 3, 4], [0, 3], [2])
        assert ("Marta Lind", "ordered", "hives") in _related(plan)
        [marta] = [
            one for one in (await memory.admin.graph.subgraph("agent-1", note.id)).entities if one.name == "Marta Lind"
        ]
        assert (marta.aliases, marta.mentions) == (("Marttika",), 4)
        assert (await memory.admin.verify("agent-1")).ok


# What the model is asked again ------------------------------------------------------------------------

_MISTAKES: dict[str, tuple[_Making, str]] = {
    "a name of nobody": (
        _with("entities", {"name": "Professor Quist", "type": "person"}),
        "entities 3: the passages do not have the name 'Professor Quist'",
    ),
    "a relationship to nobody": (
        _with("relationships", {**_SELLS, "whom": "Quist"}),
        "relationships 2: 'Quist' is neither an entity of your answer nor a name in the passages",
    ),
    "a relationship of no passage": (
        # No passage has both names either.
        _with("relationships", {**_SELLS, "who": "first bowls", "passages": [9]}),
        "relationships 2: `passages` names none of the new passages",
    ),
    "a fact of no passage": (
        _with("facts", {"text": "Clay is soft.", "passages": [9], "importance": 0.5}),
        "facts 2: `passages` names none of the new passages",
    ),
    "too few ratings": (_instead(importance=[0.5, 0.5]), "importance: 2 numbers for 3 new passages"),
    "a fact without passages": (_with("facts", {"text": "Clay is soft."}), "facts 2: `passages` names none"),
    "a sentence for a list": (_instead(over="None."), "over: Input should be a valid list"),
    "words for a number": (_with("over", {"number": "the kiln", "by": 1, "why": "So."}), "over 1 `number`: "),
}  # fmt: skip


@pytest.mark.parametrize("mistake", _MISTAKES)
async def test_what_only_the_model_can_mend_it_is_asked_again(config: MakeConfig, mistake: str) -> None:
    """It is told what is wrong with which part of its answer, and what it says then is taken."""
    make, complaint = _MISTAKES[mistake]
    better = "Arvid and Greta Holm share a kiln."
    model = ScriptedModel(reads(make), reads(_with("facts", {"text": better, "passages": [2], "importance": 0.6})))
    async with memorizing(config, model) as memory:
        plan = await _consolidated(memory)

        assert complaint in _refusals(model.asked[1])
        assert (len(model.asked), plan["usage"][0]["requests"], plan["fallback"]) == (2, 2, None)
        assert sorted(_facts(plan)) == sorted([_LEARNT, better])


@pytest.mark.everyday(
    "a name of nobody",
    "too few ratings",
    "words for a number",
    why="each kind is sent back in the test before; what comes of the last one is one path",
)
@pytest.mark.parametrize("mistake", _MISTAKES)
async def test_the_last_retry_keeps_what_stands(config: MakeConfig, mistake: str) -> None:
    """A model that makes its mistake each time loses what is wrong, and no window for it."""
    make, complaint = _MISTAKES[mistake]
    model = ScriptedModel(reads(make))
    async with memorizing(config, model) as memory:
        plan = await _consolidated(memory)

        assert (len(model.asked), plan["usage"][0]["requests"]) == (3, 3)
        assert _refusals(model.asked[2]).count(complaint) == 2
        assert (plan["fallback"], plan["fallback_chunks"]) == (None, 0)
        assert (_facts(plan), plan["summary"]) == ([_LEARNT], "Greta has a kiln.")
        assert {"Greta Holm", "Visby"} <= set(_named(plan))
        assert "Professor Quist" not in _named(plan)
        assert [one[1:] for one in _related(plan)] == [("sells_in", "Visby")]
        # Ratings that fit no passages are none: rules decide.
        is_rated = [one["estimate"] is not None for one in plan["chunks"]]
        assert is_rated == [mistake != "too few ratings"] * 3


async def test_the_best_of_several_answers_is_kept(config: MakeConfig) -> None:
    """One with more mistakes does not replace one with fewer."""
    worse = _instead(
        entities=[{"name": "Quist", "type": "person"}, {"name": "Uncle Bo", "type": "person"}],
        facts=[],
        summary="It is all about Quist.",
    )
    model = ScriptedModel(reads(_MISTAKES["a name of nobody"][0]), reads(worse))
    async with memorizing(config, model) as memory:
        plan = await _consolidated(memory)

        assert (len(model.asked), plan["fallback"]) == (3, None)
        assert (_facts(plan), plan["summary"]) == ([_LEARNT], "Greta has a kiln.")


_LATER_FAILURES: dict[str, tuple[Step, int]] = {
    "away": (fail(ModelHTTPError(503, "scripted")), 2),
    "too slow": (fail(TimeoutError()), 2),
    "a broken client": (fail(ValueError("no such thing")), 2),
    "prose": (say("I have said all that there is to say."), 3),
    "no plan": (answer({"importance": "high"}), 3),
}


@pytest.mark.parametrize("failure", _LATER_FAILURES)
async def test_an_earlier_answer_survives_a_later_failure(config: MakeConfig, failure: str) -> None:
    """What could be used of it is used, and what all requests cost is told."""
    step, requests = _LATER_FAILURES[failure]
    model = ScriptedModel(reads(_MISTAKES["a name of nobody"][0]), step)
    async with memorizing(config, model) as memory:
        plan = await _consolidated(memory)

        assert len(model.asked) == requests
        assert (plan["fallback"], plan["fallback_chunks"]) == (None, 0)
        assert (_facts(plan), plan["summary"]) == ([_LEARNT], "Greta has a kiln.")
        assert plan["usage"][0]["input_tokens"] > 0
        assert {"Greta Holm", "Visby"} <= set(_named(plan))


async def test_the_windows_after_a_failure_are_left_to_rules(config: MakeConfig) -> None:
    """The earlier answer stands for its window, and the event says how many passages were not read."""
    many = [f"Greta Holm glazes bowl number {number}." for number in range(WINDOW_PASSAGES)]
    mistaken = reads(lambda shown: {"entities": [{"name": "Quist", "type": "person"}], "summary": "It was glazed."})
    model = ScriptedModel(mistaken, fail(ModelHTTPError(503, "scripted")))
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Pottery", lines([*many, _KILN, _FIRED]), occurred_at=_SAID)

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.consolidated, report.fallback, len(model.asked)) == (True, "unavailable", 2)
        [plan] = await payloads(memory, "consolidated")
        assert (plan["fallback"], plan["fallback_chunks"]) == ("unavailable", 2)
        assert plan["summary"].endswith(" It was glazed.")
        assert (await memory.admin.verify("agent-1")).ok


async def test_comparisons_that_a_failure_prevents_are_told(config: MakeConfig) -> None:
    """The window was read, but nothing that a tool has said was compared with it."""
    model = ScriptedModel(
        reads(), reads(_MISTAKES["a name of nobody"][0]), fail(ModelHTTPError(503, "scripted")), compares=answer({})
    )
    async with memorizing(config, model) as memory:
        page = "Greta Holm has a kiln for the pottery in Visby, says the register."
        await memory.create_active_memory("agent-1", "Page", page, source="tool", occurred_at=_SAID - timedelta(days=9))
        await memory.admin.consolidate("agent-1")
        note = await memory.create_active_memory("agent-1", "Pottery", _POTTERY, occurred_at=_SAID)

        (report,) = await memory.admin.consolidate("agent-1", note.id)

        assert model.compared == []
        assert (report.fallback, report.facts) == ("unavailable", 1)
        assert (await payloads(memory, "consolidated"))[-1]["fallback_chunks"] == 0
        assert (await memory.admin.verify("agent-1")).ok


# How important it is ----------------------------------------------------------------------------------

_PLAIN = "the kiln needs a new door before winter"


@pytest.mark.everyday(
    "user-0.7-0.7-*",
    "user-0.69-*",
    "agent-0.95-0.7-*",
    "tool-1.0-0.7-*",
    "import-*",
    why="either side of a limit, and each who may have said it",
)
@pytest.mark.parametrize(
    ("source", "estimate", "threshold", "is_longterm"),
    [
        ("user", 0.95, 0.7, True),
        ("user", 0.7, 0.7, True),
        ("user", 0.69, 0.7, False),
        ("user", 0.8, 0.9, False),
        ("agent", 0.95, 0.7, True),
        # No estimate exceeds the trust in its source.
        ("agent", 0.95, 0.85, False),
        ("tool", 1.0, 0.7, False),
        ("tool", 1.0, 0.45, False),
        ("import", 1.0, 0.45, False),
        ("model", 1.0, 0.3, False),
        ("user", 0.5, 0.45, True),
    ],
)
async def test_who_says_it_decides_whether_an_estimate_makes_it_longterm(
    config: MakeConfig, source: Source, estimate: float, threshold: float, is_longterm: bool
) -> None:
    """What a user or an agent says reaches longterm if a model's estimate does; no other source by an estimate."""
    concluded = "Before winter somebody has to mend a door."
    model = ScriptedModel(
        reads(lambda shown: {"facts": [fact(shown, concluded, importance=estimate)]}, importance=estimate)
    )
    async with memorizing(config, model, shortterm_promotion_threshold=threshold) as memory:
        await memory.create_active_memory("agent-1", "Kiln", _PLAIN, source=source, occurred_at=_SAID)

        (report,) = await memory.admin.consolidate("agent-1")

        hits = await hits_of(memory, "the door of the kiln")
        assert set(hits) == {_PLAIN, concluded}
        for hit in hits.values():
            assert hit.tier == ("longterm" if is_longterm else "shortterm")
            assert (hit.importance >= threshold) == is_longterm
        assert report.promoted == (2 if is_longterm else 0)
        assert (await memory.admin.verify("agent-1")).ok


# What it is shown -------------------------------------------------------------------------------------


async def test_a_window_has_at_most_twenty_passages(config: MakeConfig) -> None:
    """However short they are; each is new in exactly one window."""
    texts = [f"Bowl {number} is blue." for number in range(45)]
    model = ScriptedModel(reads())
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Bowls", lines(texts), occurred_at=_SAID)

        (report,) = await memory.admin.consolidate("agent-1")

        windows = [Shown(messages).new_texts for messages in model.asked]
        assert [len(window) for window in windows] == [20, 20, 5]
        assert [text for window in windows for text in window] == texts
        assert (report.fallback, report.usage[0].requests) == (None, 3)


async def test_small_talk_is_not_shown_among_stored_passages(config: MakeConfig) -> None:
    """There is nothing in it that could be over; a short passage with a name or a number may be."""
    small, telling = ["Bowls!", "Good!"], ["Good night, Arvid!", "9 bowls."]
    model = ScriptedModel(reads())
    async with memorizing(config, model) as memory:
        await memory.create_active_memory("agent-1", "Before", lines([*small, *telling]), occurred_at=_SAID)
        await memory.admin.consolidate("agent-1")
        said = ["Bowls, so good!", "Good night then, Arvid!", "Now there are 9 bowls."]
        news = await memory.create_active_memory("agent-1", "News", lines(said), occurred_at=_SAID + timedelta(days=1))

        await memory.admin.consolidate("agent-1", news.id)

        shown = Shown(model.asked[1])
        assert shown.new_texts == said
        assert {row["text"] for row in shown.parts["stored_passages"]} == set(telling)


async def test_a_known_entity_is_shown_once_with_its_other_names(config: MakeConfig) -> None:
    """As the new passages spell them; what they do not call it is not shown."""
    first = {"name": "Solveig Berg", "type": "person", "also_called": ["Sol", "Captain Berg"]}
    model = ScriptedModel(
        reads(lambda shown: {"entities": [first, {"name": "Lofoten", "type": "place"}]}),
        reads(lambda shown: {"entities": [{"name": "Sol", "type": "person", "description": "A sailor."}]}),
    )
    async with memorizing(config, model) as memory:
        await memory.create_active_memory(
            "agent-1", "Sea", "Solveig Berg sails to Lofoten, and Sol is called Captain Berg.", occurred_at=_SAID
        )
        await memory.admin.consolidate("agent-1")
        again = await memory.create_active_memory(
            "agent-1", "Again", "Yesterday Solveig Berg came home.\n\nI think Sol is tired.", occurred_at=_SAID
        )

        (report,) = await memory.admin.consolidate("agent-1", again.id)

        rows = Shown(model.asked[1]).parts["known_entities"]
        assert rows == [{"name": "Solveig Berg", "type": "person", "also_called": ["Sol"]}]
        # Whichever of its names the model uses, it means that one.
        assert (report.fallback, len(model.asked)) == (None, 2)
        [solveig] = [one for one in await memory.admin.graph.entities("agent-1") if one.type == "person"]
        assert (solveig.name, solveig.description, solveig.mentions) == ("Solveig Berg", "A sailor.", 3)
        assert (await memory.admin.verify("agent-1")).ok
