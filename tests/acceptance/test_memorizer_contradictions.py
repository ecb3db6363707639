"""Passages that a model reads together, of which one shows another to be over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_reminiscence import ActiveMemory, AgentMem
from tests.support.memorizing import MakeConfig, Shown, ends, fact, hits_of, memorizing, payloads, reads
from tests.support.scripted import ScriptedModel
from tests.support.steps import lines

_WHERE = "where is the choir rehearsal?"
_CHAPEL = "The choir rehearses in the old chapel."
_HALL = "The choir rehearses in the town hall."
_BARN = "The choir rehearses in Nora's barn."
_SCORES = "Nora brings the scores to the choir rehearsal."
_MARCH = datetime(2024, 3, 1, 18, tzinfo=UTC)
_APRIL = datetime(2024, 4, 1, 18, tzinfo=UTC)
_MAY = datetime(2024, 5, 1, 18, tzinfo=UTC)
_DAY = timedelta(days=1)

_MOVED = "The choir moved its rehearsal from the old chapel to the town hall."
_OLD = "The choir rehearses in a chapel that is old."
_NORA = "Nora is in charge of the scores."


async def _tell(memory: AgentMem, *said: tuple[str, datetime]) -> ActiveMemory:
    """One memory that grows a paragraph at a time, and that no consolidation has read yet."""
    (first, said_at), *more = said
    note = await memory.create_active_memory("agent-1", "Choir", first, occurred_at=said_at)
    for text, moment in more:
        content = lines([note.content, text])
        note = await memory.update_active_memory("agent-1", note.id, content=content, occurred_at=moment)
    return note


def _moves(shown: Shown) -> dict[str, Any]:
    chapel, hall = shown.new(_CHAPEL, _HALL)
    return {
        "over": [{"number": chapel, "by": hall, "part": _CHAPEL, "why": "The choir has moved."}],
        "facts": [
            fact(shown, _MOVED, _CHAPEL, _HALL),
            fact(shown, _OLD, _CHAPEL),
            fact(shown, _NORA, _SCORES),
        ],
    }


@pytest.mark.thorough
async def test_a_new_passage_ends_an_earlier_new_one(config: MakeConfig) -> None:
    """From the moment of the later one, as if the two stood in two memories; a rebuild gives the same again."""
    model = ScriptedModel(reads(_moves))
    async with memorizing(config, model) as memory:
        note = await _tell(memory, (lines([_CHAPEL, _SCORES]), _MARCH), (_HALL, _APRIL))
        written_at = (await memory.get_active_memories("agent-1"))[0].updated_at

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.chunks_ended, report.fallback, len(model.asked)) == (1, None, 1)
        assert len(Shown(model.asked[0]).new()) == 3
        (ended,) = await payloads(memory, "ended")
        assert (ended["memory_id"], ended["reason"], ended["why"]) == (str(note.id), "replaced", "The choir has moved.")
        before_it = (await hits_of(memory, _WHERE, as_of=_MARCH + _DAY))[_CHAPEL]
        assert (ended["chunks"], ended["rests_on"]) == ([str(before_it.chunk_id)], [])
        assert ended["by"] == [str((await hits_of(memory, _WHERE))[_HALL].chunk_id)]
        assert (await memory.get_active_memories("agent-1"))[0].content == note.content
        for _ in range(2):
            assert set(await hits_of(memory, _WHERE)) == {_HALL, _SCORES, _MOVED, _NORA}
            assert set(await hits_of(memory, _WHERE, as_of=_MARCH + _DAY)) == {_CHAPEL, _SCORES, _NORA}
            # Nothing was known to be over before the model had read it.
            assert set(await hits_of(memory, _WHERE, known_at=written_at)) == {_CHAPEL, _HALL, _SCORES}
            assert (await memory.admin.verify("agent-1")).ok
            await memory.admin.rebuild("agent-1")


@pytest.mark.thorough
async def test_a_fact_of_both_rests_on_the_later_passage(config: MakeConfig) -> None:
    """It survives the end of the earlier one and ends with the later; what rests on the earlier alone is no fact."""
    model = ScriptedModel(reads(_moves), ends(_HALL, _BARN))
    async with memorizing(config, model) as memory:
        await _tell(memory, (lines([_CHAPEL, _SCORES]), _MARCH), (_HALL, _APRIL))
        (report,) = await memory.admin.consolidate("agent-1")

        hits = await hits_of(memory, _WHERE)
        assert report.facts == 2
        assert hits[_MOVED].derived_from == (hits[_HALL].chunk_id,)
        assert (hits[_MOVED].start_date, hits[_MOVED].end_date) == (_APRIL, None)
        assert _OLD not in await hits_of(memory, _WHERE, as_of=_MARCH + _DAY)

        news = await memory.create_active_memory("agent-1", "News", _BARN, occurred_at=_MAY)
        await memory.admin.consolidate("agent-1", news.id)

        assert set(await hits_of(memory, _WHERE)) == {_BARN, _SCORES, _NORA}
        assert {_HALL, _MOVED} <= set(await hits_of(memory, _WHERE, as_of=_APRIL + _DAY))
        assert (await memory.admin.verify("agent-1")).ok
        await memory.admin.rebuild("agent-1")
        assert set(await hits_of(memory, _WHERE)) == {_BARN, _SCORES, _NORA}


@pytest.mark.thorough
async def test_one_passage_after_the_other_ends(config: MakeConfig) -> None:
    """Each holds until the next one was said, though all of them were read at once."""

    def move_twice(shown: Shown) -> dict[str, Any]:
        chapel, hall, barn = shown.new(_CHAPEL, _HALL, _BARN)
        over = [
            {"number": chapel, "by": hall, "part": _CHAPEL, "why": "It moved."},
            {"number": hall, "by": barn, "part": _HALL, "why": "It moved again."},
        ]
        return {"over": over, "facts": [fact(shown, _MOVED, _CHAPEL, _HALL, _BARN)]}

    async with memorizing(config, ScriptedModel(reads(move_twice))) as memory:
        await _tell(memory, (_CHAPEL, _MARCH), (_HALL, _APRIL), (_BARN, _MAY))

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.chunks_ended, report.facts) == (2, 1)
        for _ in range(2):
            assert set(await hits_of(memory, _WHERE, as_of=_MARCH + _DAY)) == {_CHAPEL}
            assert set(await hits_of(memory, _WHERE, as_of=_APRIL + _DAY)) == {_HALL}
            hits = await hits_of(memory, _WHERE)
            assert set(hits) == {_BARN, _MOVED}
            assert hits[_MOVED].derived_from == (hits[_BARN].chunk_id,)
            assert (await memory.admin.verify("agent-1")).ok
            await memory.admin.rebuild("agent-1")


def _over(*pairs: tuple[str, str]) -> Callable[[Shown], dict[str, Any]]:
    def make(shown: Shown) -> dict[str, Any]:
        numbered = [shown.new(*pair) for pair in pairs]
        return {
            "over": [
                {"number": over, "by": by, "part": part, "why": "It says so."}
                for (over, by), (part, _) in zip(numbered, pairs, strict=True)
            ]
        }

    return make


@pytest.mark.parametrize(
    ("pairs", "said_at", "left"),
    [
        ([(_CHAPEL, _HALL)], (_MARCH, _MARCH), {_HALL}),
        ([(_HALL, _CHAPEL)], (_MARCH, _MARCH), {_CHAPEL, _HALL}),
        ([(_HALL, _CHAPEL), (_CHAPEL, _HALL)], (_MARCH, _MARCH), {_HALL}),
        ([(_HALL, _CHAPEL)], (_MARCH, _APRIL), {_CHAPEL, _HALL}),
        ([(_CHAPEL, _CHAPEL)], (_MARCH, _APRIL), {_CHAPEL, _HALL}),
    ],
    ids=["later in the text", "earlier in the text", "each by the other", "said before", "itself"],
)
async def test_what_was_said_later_ends_what_was_said_earlier(
    config: MakeConfig, pairs: Sequence[tuple[str, str]], said_at: tuple[datetime, datetime], left: set[str]
) -> None:
    """When it was said counts, and of two passages of one moment the order in the text; the rest is left out."""
    model = ScriptedModel(reads(_over(*pairs)))
    async with memorizing(config, model) as memory:
        await _tell(memory, (_CHAPEL, said_at[0]), (_HALL, said_at[1]))

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.fallback, report.chunks_ended, len(model.asked)) == (None, 2 - len(left), 1)
        assert set(await hits_of(memory, _WHERE)) == left
        assert (await memory.admin.verify("agent-1")).ok
        await memory.admin.rebuild("agent-1")
        assert set(await hits_of(memory, _WHERE)) == left


@pytest.mark.parametrize("is_older_over", [True, False])
async def test_a_letter_that_was_written_earlier_ends_nothing_that_was_said_since(
    config: MakeConfig, is_older_over: bool
) -> None:
    """Though it stands below it in the text; what was said since may end what it says."""
    pair = (_CHAPEL, _HALL) if is_older_over else (_HALL, _CHAPEL)
    model = ScriptedModel(reads(_over(pair)))
    async with memorizing(config, model) as memory:
        chat = memory.conversation("agent-1", "choir")
        await chat.add_turns(
            [
                {"speaker": "Nora", "text": _HALL, "time": _APRIL},
                {"speaker": "Nora", "text": _CHAPEL, "time": _MARCH},
            ]
        )

        (report,) = await memory.admin.consolidate("agent-1")

        assert (report.fallback, report.chunks_ended, len(model.asked)) == (None, int(is_older_over), 1)
        left = {text.removeprefix("Nora: ") for text in await hits_of(memory, _WHERE)}
        assert left == ({_HALL} if is_older_over else {_HALL, _CHAPEL})
        assert (await memory.admin.verify("agent-1")).ok


@pytest.mark.thorough
async def test_a_relationship_ends_with_the_new_passage_that_says_it(config: MakeConfig) -> None:
    """It held until the later passage was said."""
    bakes, sews = "Ivo works for the Linde bakery.", "Ivo works for the Faden tailors now."

    def read(shown: Shown) -> dict[str, Any]:
        names = {"Ivo": "person", "Linde": "organization", "Faden": "organization"}
        return {
            "entities": [{"name": name, "type": type_} for name, type_ in names.items()],
            "relationships": [
                {"who": "Ivo", "relation": "works_for", "whom": whom, "passages": shown.new(words)}
                for whom, words in (("Linde", bakes), ("Faden", sews))
            ],
            **_over((bakes, sews))(shown),
        }

    async with memorizing(config, ScriptedModel(reads(read))) as memory:
        await _tell(memory, (bakes, _MARCH), (sews, _APRIL))
        (report,) = await memory.admin.consolidate("agent-1")

        async def employers(at: datetime | None = None) -> set[str]:
            around = await memory.admin.graph.neighbourhood("agent-1", "Ivo", types=["works_for"], at=at)
            names = {entity.id: entity.name for entity in around.entities}
            return {names[one.to_id] for one in around.relationships}

        assert (report.chunks_ended, report.fallback) == (1, None)
        for _ in range(2):
            assert await employers() == {"Faden"}
            assert await employers(_MARCH + _DAY) == {"Linde"}
            assert (await memory.admin.verify("agent-1")).ok
            await memory.admin.rebuild("agent-1")


async def test_a_dry_run_says_which_new_passages_end(config: MakeConfig) -> None:
    """As the consolidation after it does."""
    async with memorizing(config, ScriptedModel(reads(_moves))) as memory:
        note = await _tell(memory, (lines([_CHAPEL, _SCORES]), _MARCH), (_HALL, _APRIL))

        (dry,) = await memory.admin.consolidate("agent-1", note.id, dry_run=True)

        assert (dry.consolidated, dry.chunks_ended, dry.facts) == (False, 1, 2)
        assert set(await hits_of(memory, _WHERE)) == {_CHAPEL, _HALL, _SCORES}
        (done,) = await memory.admin.consolidate("agent-1", note.id)
        assert (done.consolidated, done.chunks_ended, done.facts) == (True, 1, 2)
        assert [one.model_dump(mode="json") for one in dry.ends] == await payloads(memory, "ended")


@pytest.mark.thorough
async def test_a_memory_with_contradictions_is_erased_whole(config: MakeConfig) -> None:
    """What ended, what ended it and what was concluded from both."""
    async with memorizing(config, ScriptedModel(reads(_moves))) as memory:
        note = await _tell(memory, (lines([_CHAPEL, _SCORES]), _MARCH), (_HALL, _APRIL))
        await memory.admin.consolidate("agent-1")

        await memory.admin.erase("agent-1", memory_id=note.id)

        for moment in (None, _MARCH + _DAY, _APRIL + _DAY):
            assert await hits_of(memory, _WHERE, as_of=moment) == {}
        events = [
            one for kind in ("created", "updated", "consolidated", "ended") for one in await payloads(memory, kind)
        ]
        assert "choir" not in repr(events)
        assert (await memory.admin.verify("agent-1")).ok
