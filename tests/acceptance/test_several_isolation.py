"""A question to some memories says nothing of any other: random questions, erasures, statements in flight at once."""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_reminiscence import AgentMem, Config, ExternalIdNotFoundError, Filter, ProfileNotFoundError
from agent_reminiscence.database.connection import Row, SqlExecutor, Statement
from agent_reminiscence.database.postgres_manager import PostgresManager
from agent_reminiscence.services.recall import uses
from tests.conftest import TEST_DIMENSION, TestServer
from tests.support.factories import stored_rows, superuser
from tests.support.fakes import SetClock
from tests.support.steps import all_events

_NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
_FIRST_DAY = datetime(2026, 2, 1, 9, tzinfo=UTC)
_ASKED = ("ana", "team")
_THIRD = "rival"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WORDS = ("morning", "boat", "people", "house", "water", "paper", "weather", "coffee", "market", "garden")
_SPEAKERS = ("Mara", "Ivo Bell", "user")
_TENANTS = "SELECT DISTINCT external_id::text AS external_id FROM memory_chunk"


class _Teller:
    """Fills memories in every place that takes a text; in each, names and words that only this one has.

    All get the same common words and names, so that each question has something to find in every memory.
    """

    def __init__(self, memory: AgentMem, seed: int) -> None:
        self._memory = memory
        self._dice = random.Random(seed)
        self._minted = 0

    async def fill(self, external_id: str, count: int) -> None:
        memory, dice = self._memory, self._dice

        def mint() -> str:
            self._minted += 1
            return f"canary{external_id}{self._minted}"

        ids = []
        for number in range(count):
            lines = [
                f"{dice.choice(_SPEAKERS)}: {' '.join(dice.choices(_WORDS, k=6))} {mint()}."
                for _ in range(dice.randint(1, 4))
            ]
            friend = f"Bruno {mint().capitalize()}"
            note = await memory.create_active_memory(
                external_id,
                f"Note {mint()}",
                "\n\n".join([*lines, f"Ines Halvorsen works with {friend} since March 2026."]),
                description=f"About {mint()}",
                metadata={"even": number % 2 == 0, "number": number, mint(): {mint(): mint()}},
                actor=mint(),
                conversation_id=f"talk-{number % 3}",
                occurred_at=_FIRST_DAY + timedelta(days=number),
                key=f"note/{number}",
                pinned=number == 0,
            )
            ids.append(note.id)
        await memory.update_active_memory(external_id, ids[0], append=f"\n\nMara: The boat is {mint()} now.")
        await memory.admin.consolidate(external_id, ids[1])
        await memory.admin.archive(external_id, ids[-1], end_chunks=True)
        chat = memory.conversation(external_id, "talk-0")
        await chat.add("user", f"My house in the garden is called {mint()}.", time=_FIRST_DAY)
        await memory.ledger.append(external_id, "world.observed", {"text": f"The boat {mint()} is near."}, actor=mint())
        await memory.admin.profiles.define(external_id, "about", question="Who was in the garden with the boat?")
        await memory.admin.profiles.refresh(external_id, "about")
        await memory.admin.profiles.define(external_id, f"of-{external_id}", question="What about coffee?")
        await memory.retrieve_memories(external_id, "boat", run_id="run")
        await memory.admin.report_outcome(external_id, "run", success=True)


def _requests(dice: random.Random, moments: Sequence[datetime], count: int) -> list[dict[str, Any]]:
    """Random arguments of a search: questions, filters, times, tiers, names of the graph, profiles, budgets, runs."""

    def where() -> Filter:
        condition = dice.choice(
            [
                {"even": True},
                {"$or": [{"number": {"$lt": dice.randrange(8)}}, {"even": False}]},
                {"$not": {"number": {"$in": [1, 3, 5]}}},
                {f"canary{_THIRD}7": {"$exists": False}},
            ]
        )
        fields: dict[str, Any] = {
            "metadata": condition,
            "conversation_ids": ["talk-0", "talk-2"],
            "speakers": [dice.choice(_SPEAKERS)],
            "key_prefix": "note/",
            "occurred_after": _FIRST_DAY + timedelta(days=dice.randrange(5)),
            "actors": [f"canary{_THIRD}{dice.randrange(60)}"],
        }
        names = [*dice.sample(sorted(set(fields) - {"actors"}), dice.randint(1, 2))]
        return Filter(**{name: fields[name] for name in names + ["actors"] * (dice.random() < 0.1)})

    def embedding() -> list[float]:
        return [dice.uniform(-1, 1) for _ in range(TEST_DIMENSION)]

    questions = (
        lambda: " ".join(dice.choices(_WORDS, k=4)),
        lambda: "Who works with Ines Halvorsen?",
        lambda: f"What did {dice.choice(_SPEAKERS)} say about {dice.choice(_WORDS)} in March 2026?",
        lambda: f"Where is canary{_THIRD}{dice.randrange(60)}, and who is Bruno Canary{_THIRD}{dice.randrange(60)}?",
        lambda: "When was the boat near my house?",
    )
    options: dict[str, Callable[[], Any]] = {
        "where": where,
        "as_of": lambda: dice.choice([*moments, _FIRST_DAY + timedelta(days=dice.randrange(9))]),
        "known_at": lambda: dice.choice(moments),
        "tiers": lambda: dice.sample(["active", "shortterm", "longterm"], dice.randint(1, 2)),
        "limit": lambda: dice.choice([1, 5, 200]),
        "token_budget": lambda: dice.choice([80, 400, 4_000]),
        "min_match": lambda: dice.choice([0.2, "found"]),
        "min_confidence": lambda: 0.5,
        "profile": lambda: dice.choice(["about", f"of-{_ASKED[0]}", f"of-{_THIRD}"]),
        "embedding": embedding,
        "run_id": lambda: f"run-{dice.randrange(3)}",
    }
    return [
        {"query": dice.choice(questions)()}
        | {name: options[name]() for name in dice.sample(sorted(options), dice.randint(0, 4))}
        for _ in range(count)
    ]


async def _answers(memory: AgentMem, requests: Sequence[dict[str, Any]]) -> list[str]:
    """All that each search returns, renderings and errors included, but not the question itself."""
    answers = []
    for request in requests:
        try:
            found = await memory.retrieve_memories(list(_ASKED), **request)
        except ProfileNotFoundError as error:
            answers.append(str(error).replace(f"of-{_THIRD}", "…"))
            continue
        told = found.model_dump_json(exclude={"query"}) + found.as_prompt() + repr(found.as_messages())
        answers.append(told.replace(request["query"], "…"))
    streamed = [hit async for hit in memory.stream_memories(list(_ASKED), "boat and coffee")]
    answers.append("".join(hit.model_dump_json() for hit in streamed))
    return answers


@pytest.mark.parametrize(
    ("count", "size", "third"),
    [
        pytest.param(10, 2, 2, marks=pytest.mark.promise),
        *(pytest.param(80, 6, third, marks=pytest.mark.thorough) for third in (6, 60)),
    ],
    ids=["few", "many", "beside a large one"],
)
async def test_an_answer_is_the_same_whether_or_not_there_is_another_memory(
    config: Callable[..., Config],
    test_server: TestServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    size: int,
    third: int,
) -> None:
    """Bit by bit: scores, orders, counts and what is left out, also after statistics were gathered over all."""
    # Uses raise scores a little, and are written some seconds later: perhaps between the two rounds.
    monkeypatch.setattr(uses.UseRecorder, "note", lambda *_: None)
    async with AgentMem(config(), clock=SetClock(_NOW)) as memory:
        teller = _Teller(memory, count)
        for external_id in _ASKED:
            await teller.fill(external_id, size)
        moments = [event.recorded_at for event in await all_events(memory, _ASKED[0])]
        requests = _requests(random.Random(third), moments, count)
        await _answers(memory, requests)
        before = await _answers(memory, requests)

        await teller.fill(_THIRD, third)
        async with superuser(test_server, database) as db:
            await db.execute_script("VACUUM (ANALYZE)")
            rows = {name: await stored_rows(db, name, with_ctid=False) for name in (*_ASKED, _THIRD)}
        after = await _answers(memory, requests)

    assert after == before
    known, theirs = (
        {uuid for name in names for table in rows[name].values() for row in table for uuid in _UUID.findall(row)}
        for names in (_ASKED, [_THIRD])
    )
    assert len(theirs - known) > third
    for answer in after:
        assert _THIRD not in answer.lower()
        assert not (theirs - known).intersection(_UUID.findall(answer))
    # The questions do find what is private to each.
    assert all(f"canary{name}" in "".join(after) for name in _ASKED)


@pytest.mark.parametrize(
    "part",
    [pytest.param("all of it", marks=pytest.mark.promise), pytest.param("one memory", marks=pytest.mark.thorough)],
)
async def test_what_was_erased_is_not_found_beside_others_and_these_stay(
    memory: AgentMem, test_server: TestServer, database: str, part: str
) -> None:
    """Questions to both run meanwhile: none that begins after the erasure shows a word of it."""
    teller = _Teller(memory, 7)
    for external_id in _ASKED:
        await teller.fill(external_id, 4)
    secret = await memory.create_active_memory("ana", "Boat", "The boat of people is canarysecret, in the garden.")
    async with superuser(test_server, database) as db:
        before = await stored_rows(db, "team", with_ctid=False)
    gone = "canaryana" if part == "all of it" else "canarysecret"
    answers: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()
    is_erased, is_over = False, False

    async def ask(question: str) -> None:
        while not is_over:
            was_erased = is_erased
            found = await memory.retrieve_memories(["ana", "team"], question, limit=200)
            answers.put_nowait((was_erased, found.model_dump_json(exclude={"query"}) + found.as_prompt()))

    async with asyncio.TaskGroup() as tasks:
        for question in ("boat people garden", "Who works with Ines Halvorsen?", "coffee and weather"):
            tasks.create_task(ask(question))
        shown = [await answers.get() for _ in range(6)]
        await (memory.admin.erase("ana") if part == "all of it" else memory.admin.erase("ana", memory_id=secret.id))
        is_erased = True
        while sum(was_erased for was_erased, _ in shown) < 6:
            shown.append(await answers.get())
        is_over = True

    assert gone in shown[0][1] + shown[1][1] + shown[2][1]
    assert not [answer for was_erased, answer in shown if was_erased and gone in answer.lower()]
    assert all("canaryteam" in answer for _, answer in shown)
    async with superuser(test_server, database) as db:
        assert await stored_rows(db, "team", with_ctid=False) == before
    assert (await memory.admin.verify("team")).ok


async def test_each_connection_sees_one_memory_while_all_are_read(
    config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many questions to pairs share a pool of four; each transaction looks for the rows of all memories, twice."""
    names = ["ana", "team", "rival"]
    seen: dict[str, set[str]] = defaultdict(set)
    beside: set[frozenset[str]] = set()
    under_way: list[str] = []
    begun: set[str] = set()
    both = asyncio.Barrier(2)
    usual = PostgresManager.read_transaction

    @asynccontextmanager
    async def watched(
        self: PostgresManager, external_id: str, first: Sequence[Statement]
    ) -> AsyncIterator[tuple[SqlExecutor, list[list[Row]]]]:
        async with usual(self, external_id, first) as (db, rows):
            under_way.append(external_id)
            for _ in range(2):
                seen[external_id] |= {row["external_id"] for row in await db.fetch_all(_TENANTS)}
                if external_id in _ASKED and external_id not in begun:
                    # Between two looks, the first transactions of both memories are open at the same time.
                    begun.add(external_id)
                    await both.wait()
                beside.update(frozenset({external_id, other}) for other in under_way)
            try:
                yield db, rows
            finally:
                under_way.remove(external_id)

    async with AgentMem(config(postgres_pool_size=4)) as memory:
        for name in names:
            for number in range(3):
                await memory.create_active_memory(name, f"Boat {number}", f"The boat {number} of {name} is red.")
        monkeypatch.setattr(PostgresManager, "read_transaction", watched)
        first = await memory.retrieve_memories(list(_ASKED), "boat")
        assert {hit.external_id for hit in first.hits} == set(_ASKED)

        asked = [names[:2], names[1:], names[::2], *([name] for name in names)] * 4
        results = await asyncio.gather(*(memory.retrieve_memories(one, "boat") for one in asked))

    assert [{hit.external_id for hit in result.hits} for result in results] == [set(one) for one in asked]
    assert seen == {name: {name} for name in names}
    assert frozenset(_ASKED) in beside


async def test_an_unknown_memory_is_refused_as_one_that_was_never_asked_for(memory: AgentMem) -> None:
    """The error names the memory that was asked for, and nothing that exists."""
    await memory.create_active_memory("ana", "Boat", "The boat is red.")
    messages = set()
    for _ in range(2):
        with pytest.raises(ExternalIdNotFoundError) as refused:
            await memory.retrieve_memories(["ana", "nobody"], "boat")
        messages.add(str(refused.value))
        await memory.create_active_memory(_THIRD, "Boat", "The boat is green.")
    assert len(messages) == 1
    assert _THIRD not in messages.pop()
