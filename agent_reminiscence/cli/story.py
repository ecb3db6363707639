"""The demo: a story told to two agents, recalled from three tiers, with every claim checked as it is shown."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from agent_reminiscence.cli.settings import read_settings
from agent_reminiscence.config.constants import TIERS, Tier
from agent_reminiscence.exceptions import MemoryNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from agent_reminiscence import AgentMem
    from agent_reminiscence.config.settings import Config
    from agent_reminiscence.domain.memory import ActiveMemory, ConsolidationReport
    from agent_reminiscence.domain.payloads import ModelUsage
    from agent_reminiscence.domain.retrieval import RetrievalResult, SearchHit

KEEPER: Final = "lighthouse-keeper"
CLINIC: Final = "clinic-desk"
# The agent that is told the keeper's story for a model to read.
READER: Final = "lighthouse-reader"

# The person the keeper is asked to forget.
FORGOTTEN: Final = "Marlow"

# Settings that the claims below depend on; they override the environment.
UPDATE_THRESHOLD: Final = 5
# Far more than needed.
_WORK_SECONDS: Final = 60.0
PROMOTION_THRESHOLD: Final = 0.7


def _day(month: int, day: int) -> datetime:
    return datetime(2025, month, day, 10, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation an agent took part in."""

    title: str
    held_at: datetime
    text: str


LIGHTHOUSE_SESSIONS: Final = (
    Session(
        "First walk through the tower",
        _day(3, 4),
        """\
Ines: The lantern room leaks on the north side, right above the old clockwork.
Tomas: I counted eleven cracked panes. The glazier in Port Ellory can cut them, but he needs three weeks.
Ines: Then order them now. What about the stairs?
Tomas: Steps 41 to 58 are rusted through. Nobody goes above the second landing until they are replaced.
Ines: Agreed. I would also like to keep the brass fog bell; my grandmother polished it every Sunday.
Tomas: We keep it. It only needs a new clapper rope.
""",
    ),
    Session(
        "Money and paint",
        _day(4, 15),
        """\
Tomas: The heritage fund approved 48,000 euros, a little less than we asked for.
Ines: Enough for the stairs and the glass. What does it mean for the paint?
Tomas: Two coats instead of three. The harbour office insists on the red band, so we start with that.
Ines: Marlow offered to lend us his scaffolding until the end of June.
Tomas: Good, that saves us 2,300 euros. I will call him tonight.
""",
    ),
    Session(
        "Glass, guests and gulls",
        _day(5, 20),
        """\
Ines: All eleven panes are in, and the lantern room was dry during the storm on Sunday.
Tomas: And the stairs passed inspection, so guests may go up in groups of six.
Ines: A pair of herring gulls nests on the gallery. The warden says we must not disturb them before August.
Tomas: Then the gallery stays closed, and we show the view from the lantern room.
""",
    ),
)

CLINIC_SESSIONS: Final = (
    Session(
        "Morning calls",
        _day(5, 12),
        """\
Petra: Mr. Okafor's cat Biscuit needs her second vaccination in the week of June 9.
Lukas: I put her down for Tuesday at nine. She hates dogs, so no dogs in the waiting room then.
Petra: And the parrot of the Lindgren family is allergic to the usual antibiotic.
""",
    ),
)

# The plan for the opening, version by version: five updates; the last one reaches the threshold.
_PLAN_HEAD: Final = "The lighthouse at Cape Wrenfield opens to guests with a concert by the Ellory Brass Quintet."
_PLAN_DATE_OLD: Final = "Opening day is Saturday, June 14."
_PLAN_DATE_NEW: Final = "Opening day is Saturday, June 28, because the paint has to dry."
_PLAN_GROUPS: Final = "Guests climb the tower in groups of six."
_PLAN_BOAT: Final = "The ferry Annika brings visitors from Port Ellory every hour."
_PLAN_LUNCH: Final = "Ines bakes saffron buns; the harbour office pays for the coffee."
_PLAN_RAIN: Final = "If it rains, the quintet plays in the boathouse."
PLAN_VERSIONS: Final[tuple[tuple[datetime, tuple[str, ...]], ...]] = (
    (_day(4, 16), (_PLAN_HEAD, _PLAN_DATE_OLD)),
    (_day(4, 28), (_PLAN_HEAD, _PLAN_DATE_OLD, _PLAN_BOAT)),
    (_day(5, 6), (_PLAN_HEAD, _PLAN_DATE_OLD, _PLAN_BOAT, _PLAN_LUNCH)),
    (_day(5, 21), (_PLAN_HEAD, _PLAN_DATE_OLD, _PLAN_BOAT, _PLAN_LUNCH, _PLAN_GROUPS)),
    (_day(5, 23), (_PLAN_HEAD, _PLAN_DATE_OLD, _PLAN_BOAT, _PLAN_LUNCH, _PLAN_GROUPS, _PLAN_RAIN)),
    (_day(5, 30), (_PLAN_HEAD, _PLAN_DATE_NEW, _PLAN_BOAT, _PLAN_LUNCH, _PLAN_GROUPS, _PLAN_RAIN)),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Something the demo claims, and whether it is true."""

    text: str
    holds: bool


class Stage:
    """Where the demo is shown. This base class only collects the claims; subclasses show them."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []

    def scene(self, title: str, explanation: str) -> None:
        """Begin a new scene."""

    def note(self, text: str) -> None:
        """Show a remark that is not a claim."""

    def answer(self, result: RetrievalResult, *, about: str = "") -> None:
        """Show the best hit with its source; `about` says more about the question."""

    def claim(self, text: str, holds: bool) -> None:
        """Record a claim that has been checked."""
        self.claims.append(Claim(text, holds))


def demo_config(data_dir: str | Path) -> Config:
    """The demo's settings, overriding the user's: the embedded server and the bundled embedder.

    The user's memorizer is kept for its own scene.
    """
    return read_settings(
        data_dir=data_dir,
        postgres_dsn=None,
        embedding_provider="universal",
        embedding_model=None,
        embedding_dimension=None,
        active_memory_update_threshold=UPDATE_THRESHOLD,
        shortterm_promotion_threshold=PROMOTION_THRESHOLD,
        worker=True,
        max_chunks=None,
        max_active_memories=None,
        active_ttl_days=None,
        shortterm_ttl_days=None,
        longterm_ttl_days=None,
        neo4j_uri=None,
        neo4j_password=None,
        memory_update_agent_model=None,
        memory_retrieve_agent_model=None,
        reflector_agent_model=None,
    )


async def play(memory: AgentMem, stage: Stage) -> None:
    """Tell the story to `memory` and show on `stage` what it remembers.

    Raises:
        ReminiscenceError: The memory does not work at all. A false claim is recorded and raises nothing.
    """
    keeper = await _free_id(memory, KEEPER)
    clinic = await _free_id(memory, CLINIC)
    await _tell(memory, stage, keeper, clinic)
    plan = await _plan(memory, stage, keeper)
    await _ask_each_tier(memory, stage, keeper)
    await _travel(memory, stage, keeper, plan)
    await _isolate(memory, stage, keeper, clinic, plan)
    await _look_into_the_ledger(memory, stage, keeper)
    await _relate(memory, stage, keeper, clinic)
    await _prove(memory, stage, keeper, plan)


async def read(memory: AgentMem, stage: Stage) -> None:
    """Tell the keeper's story to another agent, let the memorizer's model read its memories, and show the cost.

    Args:
        memory: With a memorizer model and without a worker, which would consolidate first.

    Raises:
        ReminiscenceError: The memory does not work at all. A failing model is noted and raises nothing.
    """
    stage.scene(
        "What a model adds, and what it costs",
        "The configured model consolidates the same sessions and the plan's last version. Its proposals are checked,"
        " rules handle what it gets wrong, and the ledger records what it costs.",
    )
    reader = await _free_id(memory, READER)
    told = [(one.title, one.text, one.held_at) for one in LIGHTHOUSE_SESSIONS]
    planned_at, passages = PLAN_VERSIONS[-1]
    reports = []
    for title, text, told_at in (*told, ("Opening of the lighthouse", _text(passages), planned_at)):
        note = await memory.create_active_memory(reader, title, text, occurred_at=told_at)
        (report,) = await memory.admin.consolidate(reader, note.id)
        stage.note(f"“{title}”: {_cost(report)}; {_counts(report)}")
        reports.append(report)
    usage = await memory.admin.usage(reader)
    stage.claim("every memory is consolidated, even if the model fails", all(one.consolidated for one in reports))
    stage.claim(
        "the ledger counts every token that was read and written",
        _tokens(usage.models) == _tokens([cost for report in reports for cost in report.usage]),
    )
    verified = await memory.admin.verify(reader)
    stage.claim("replaying the ledger gives the same tiers, without calling a model", verified.ok)


def _tokens(usage: Sequence[ModelUsage]) -> tuple[int, int, int]:
    """Requests, tokens read, and tokens written."""
    return (
        sum(one.requests for one in usage),
        sum(one.input_tokens for one in usage),
        sum(one.output_tokens for one in usage),
    )


def _cost(report: ConsolidationReport) -> str:
    requests, tokens_in, tokens_out = _tokens(report.usage)
    return f"{requests} request{'s' * (requests != 1)}, {tokens_in:,} tokens in, {tokens_out:,} tokens out"


def _counts(report: ConsolidationReport) -> str:
    rules = "" if report.fallback is None else f", rules used ({report.fallback})"
    return (
        f"entities: {report.entities}, relationships: {report.relationships}, facts: {report.facts}, ended:"
        f" {report.chunks_ended + report.relationships_ended}{rules}"
    )


async def _free_id(memory: AgentMem, name: str) -> str:
    """`name`, with a number if an earlier demo used it in this data folder."""
    candidate, number = name, 1
    while await memory.get_active_memories(candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate


async def _tell(memory: AgentMem, stage: Stage, keeper: str, clinic: str) -> None:
    stage.note(
        "embedded PostgreSQL, bundled embedder, no model; every line that begins with “holds” has just been checked"
    )
    stage.scene(
        "Two agents listen",
        "Each session is one memory, dated the day it was held. It is stored verbatim, split into utterances, and"
        " searchable as soon as it is written.",
    )
    for external_id, sessions in ((keeper, LIGHTHOUSE_SESSIONS), (clinic, CLINIC_SESSIONS)):
        for session in sessions:
            written = await memory.create_active_memory(
                external_id, session.title, session.text, occurred_at=session.held_at
            )
            assert written.write is not None
            stage.note(
                f"{external_id}: “{session.title}” ({session.held_at:%d %B %Y}),"
                f" {written.write.chunks_added} utterances"
            )
    found = await memory.retrieve_memories(keeper, "Who offered his scaffolding, and until when?")
    stage.answer(found)
    stage.claim(
        "the answer quotes the right session and names the speaker",
        _best(found, "Marlow offered to lend us his scaffolding") and found.hits[0].speaker == "Ines",
    )
    listed = [one.content for one in await memory.get_active_memories(keeper)]
    stage.claim(
        "every session is stored, character for character", listed == [session.text for session in LIGHTHOUSE_SESSIONS]
    )


async def _plan(memory: AgentMem, stage: Stage, keeper: str) -> ActiveMemory:
    stage.scene(
        "A plan changes until it is consolidated",
        f"The keeper plans the opening and updates the plan. The {UPDATE_THRESHOLD}th update reaches the threshold: the"
        " plan is consolidated into shortterm memory, and what is important there is promoted to longterm.",
    )
    (written_at, passages), *updates = PLAN_VERSIONS
    plan = await memory.create_active_memory(
        keeper, "Opening of the lighthouse", _text(passages), occurred_at=written_at
    )
    due: list[bool] = []
    for written_at, passages in updates:
        plan = await memory.update_active_memory(
            keeper, plan.id, content=_text(passages), occurred_at=written_at, expected_version=plan.version
        )
        assert plan.write is not None
        due.append(plan.write.consolidation_queued)
        stage.note(
            f"version {plan.version} of {written_at:%d %B}, passages: {plan.write.chunks_added} new,"
            f" {plan.write.chunks_kept} kept, {plan.write.chunks_ended} ended"
        )
    stage.claim(
        f"update {UPDATE_THRESHOLD} queued a consolidation, and none before it did",
        due == [False] * (UPDATE_THRESHOLD - 1) + [True],
    )
    given_up = await memory.admin.wait_until_idle(keeper, _WORK_SECONDS)
    consolidated = next(one for one in await memory.get_active_memories(keeper) if one.id == plan.id)
    stage.claim(
        "a background worker did it: nothing is left to consolidate",
        not given_up and consolidated.consolidated_version == plan.version,
    )
    everything = await memory.retrieve_memories(keeper, "the opening of the lighthouse", limit=50)
    counts = {tier: sum(hit.tier == tier for hit in everything.hits) for tier in TIERS}
    stage.note(", ".join(f"{count} chunks {tier}" for tier, count in counts.items()))
    stage.claim("all three tiers hold chunks now", all(counts.values()))
    return plan


def _text(passages: Sequence[str]) -> str:
    return "".join(f"{passage}\n\n" for passage in passages)


async def _ask_each_tier(memory: AgentMem, stage: Stage, keeper: str) -> None:
    stage.scene(
        "Questions, answered from each tier",
        "One ranking covers all tiers; a question can also be put to one tier. Every answer names its source.",
    )
    questions: tuple[tuple[Tier, str, str], ...] = (
        ("active", "Which steps of the stairs are rusted?", "Steps 41 to 58 are rusted through"),
        ("shortterm", "What happens if it rains?", "the quintet plays in the boathouse"),
        ("longterm", "Who plays the concert?", "Ellory Brass Quintet"),
    )
    for tier, question, words in questions:
        found = await memory.retrieve_memories(keeper, question, tiers=[tier])
        stage.answer(found)
        stage.claim(f"the {tier} tier knows it", _best(found, words) and found.hits[0].tier == tier)
        anywhere = await memory.retrieve_memories(keeper, question)
        stage.claim("a search through all tiers finds it too", _best(anywhere, words))


async def _travel(memory: AgentMem, stage: Stage, keeper: str, plan: ActiveMemory) -> None:
    stage.scene(
        "What was true when",
        "The last update moved the opening. The old date has ended but is not deleted.",
    )
    question = "When is opening day?"
    now = await memory.retrieve_memories(keeper, question)
    stage.answer(now)
    stage.claim("asked now, the new date is the answer", _best(now, "June 28"))
    stage.claim("the old date is not among the hits", not any("June 14" in hit.content for hit in now.hits))

    may = _day(5, 10)
    then = await memory.retrieve_memories(keeper, question, as_of=may)
    stage.answer(then, about=f"as of {may:%d %B %Y}")
    old = _hit(then, _PLAN_DATE_OLD)
    stage.claim(f"as of {may:%d %B}, the old date is the answer", _best(then, "June 14"))
    stage.claim(
        "the hit says when it was true and which version of the plan said it",
        old is not None
        and (old.start_date, old.end_date) == (PLAN_VERSIONS[0][0], PLAN_VERSIONS[-1][0])
        and old.memory_id == plan.id
        and old.memory_version == 1,
    )
    before = await memory.retrieve_memories(keeper, question, as_of=_day(3, 1))
    stage.claim("as of the day before the first session, nothing was known", not before.hits)


async def _isolate(memory: AgentMem, stage: Stage, keeper: str, clinic: str, plan: ActiveMemory) -> None:
    stage.scene(
        "The other agent",
        "Both agents share a database. Its row level security shows each agent only its own rows.",
    )
    question = "When does the lighthouse open, and who plays the concert?"
    found = await memory.retrieve_memories(clinic, question, limit=50)
    own = {one.id for one in await memory.get_active_memories(clinic)}
    stage.note(f"{clinic} asks the keeper's question and gets {len(found.hits)} passages, none about a lighthouse")
    stage.claim(
        f"{clinic} finds nothing of {keeper}'s",
        all(hit.memory_id in own for hit in found.hits) and plan.id not in own,
    )
    stage.claim(
        f"{clinic} cannot change the plan, even with its id: to {clinic} it does not exist",
        await _is_unknown(lambda: memory.update_active_memory(clinic, plan.id, content="Closed.")),
    )
    biscuit = await memory.retrieve_memories(clinic, "When does Biscuit get her vaccination?")
    stage.answer(biscuit)
    stage.claim(f"{clinic} finds its own memory", _best(biscuit, "Biscuit needs her second vaccination"))


async def _look_into_the_ledger(memory: AgentMem, stage: Stage, keeper: str) -> None:
    stage.scene(
        "The ledger underneath",
        "Everything above is a projection of one append-only table; each event has its position and its time.",
    )
    events = await memory.ledger.read(keeper, limit=1_000)
    kinds: dict[str, int] = {}
    for event in events:
        kinds[event.kind] = kinds.get(event.kind, 0) + 1
    stage.note(", ".join(f"{count} × {kind}" for kind, count in kinds.items()))
    stage.claim(
        "positions have no gaps, and recording times increase",
        [event.position for event in events] == list(range(1, len(events) + 1))
        and all(earlier.recorded_at < later.recorded_at for earlier, later in pairwise(events)),
    )
    stage.claim(
        "every write above is one event",
        (kinds.get("memory.created"), kinds.get("memory.updated"))
        == (len(LIGHTHOUSE_SESSIONS) + 1, len(PLAN_VERSIONS) - 1),
    )


async def _relate(memory: AgentMem, stage: Stage, keeper: str, clinic: str) -> None:
    stage.scene(
        "Who knows whom",
        "A consolidation also finds the names in new passages and which are mentioned together, without a model.",
    )
    await memory.admin.consolidate(keeper)
    graph = memory.admin.graph
    known = await graph.entities(keeper)
    stage.note(", ".join(f"{entity.name} ({entity.type}, {entity.mentions})" for entity in known))
    stage.claim("the speakers are known as people", {"Ines", "Tomas"} <= {e.name for e in known if e.type == "person"})
    around = await graph.neighbourhood(keeper, "ellory brass quintet")
    stage.note(f"named with the quintet: {', '.join(e.name for e in around.entities if around.distances[e.id] == 1)}")
    stage.claim(
        "the quintet is related to the cape, because one passage of the plan mentions both",
        any(e.name == "Cape Wrenfield" for e in around.entities) and len(around.relationships[0].chunk_ids) == 1,
    )
    stage.claim(f"{clinic} knows none of them", not await graph.entities(clinic, name="Ines"))


async def _prove(memory: AgentMem, stage: Stage, keeper: str, plan: ActiveMemory) -> None:
    stage.scene(
        "History, proof, and forgetting",
        "The ledger shows what was said before, everything can be checked against it, and a friend asks to be"
        " forgotten.",
    )
    history = await memory.admin.history(keeper, plan.id)
    stage.note(", ".join(f"version {one.version} of {one.occurred_at:%d %B}" for one in history.versions))
    stage.claim(
        "the plan's history has every version, word for word, with its date",
        [(one.occurred_at, one.content) for one in history.versions]
        == [(written_at, _text(passages)) for written_at, passages in PLAN_VERSIONS],
    )
    before = await memory.admin.verify(keeper)
    stage.note(f"{before.events} events replayed in {before.seconds * 1000:.0f} ms and compared row by row")
    stage.claim("all tiers match the ledger, and the ledger is unaltered", before.ok)

    preview = await memory.admin.erase(keeper, text=FORGOTTEN, dry_run=True)
    stage.note(f"{FORGOTTEN!r} appears in: {', '.join(item.title or item.kind for item in preview.items)}")
    receipt = await memory.admin.erase(keeper, text=FORGOTTEN)
    stage.note(f"events erased: {len(receipt.events)}; the receipt holds their digests and none of the text")
    stage.claim("the receipt names what the dry run showed", len(receipt.events) == preview.events > 0)
    check = await memory.admin.verify_erased(receipt, text=FORGOTTEN)
    stage.claim(f"a scan of {len(check.places)} columns finds no trace of it", check.ok)
    found = await memory.retrieve_memories(keeper, "Who offered his scaffolding, and until when?", limit=50)
    stage.claim("no search finds it", not any(FORGOTTEN in hit.content for hit in found.hits))
    stage.claim("no entity has the name", not await memory.admin.graph.entities(keeper, name=FORGOTTEN))
    gulls = await memory.retrieve_memories(keeper, "Why is the gallery closed?")
    stage.answer(gulls)
    stage.claim("everything else is still there", _best(gulls, "gulls") or _best(gulls, "gallery stays closed"))
    after = await memory.admin.verify(keeper)
    stage.claim(
        "the ledger still verifies, with the erased events in their places",
        after.ok and after.streams[0].erased_events == len(receipt.events),
    )


def _best(result: RetrievalResult, words: str) -> bool:
    """Whether the best hit contains `words`."""
    return bool(result.hits) and words in result.hits[0].content


def _hit(result: RetrievalResult, text: str) -> SearchHit | None:
    return next((hit for hit in result.hits if hit.content.strip() == text), None)


async def _is_unknown(write: Callable[[], Awaitable[object]]) -> bool:
    try:
        await write()
    except MemoryNotFoundError:
        return True
    return False


def failed(claims: Sequence[Claim]) -> list[Claim]:
    """The claims that do not hold."""
    return [claim for claim in claims if not claim.holds]


async def run(data_dir: str | Path, stage: Stage) -> float:
    """Play the demo on the embedded server in `data_dir`; if a memorizer model is set, also show what it adds.

    Returns:
        How long it took in seconds, including starting and stopping the server.
    """
    from agent_reminiscence import AgentMem

    began = time.monotonic()
    config = demo_config(data_dir)
    # The story's claims hold without a model.
    async with AgentMem(config.model_copy(update={"memorizer_agent_model": None})) as memory:
        await play(memory, stage)
    if config.memorizer_agent_model is not None:
        async with AgentMem(config.model_copy(update={"worker": False})) as memory:
            await read(memory, stage)
    return time.monotonic() - began
