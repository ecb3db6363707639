"""Texts in memories and conversations that want to be instructions, one after the other, for each agent.

A scripted model cannot be persuaded. So this shows what holds when a real one is: what every model is shown of a text,
and what comes of a model that does all the text asks for, with every tool and argument that there is.

A test tries many texts on one memory, each with a tenant of its own, and names those that fail. `make test` tries a
third of them, each test a different third from the one before it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo

from agent_reminiscence import AgentMem, AgentModels, Config
from agent_reminiscence.agents import memorizer, memory_retriever, memory_updater
from agent_reminiscence.agents.running import MAX_TOOL_CALLS
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.trust import SOURCE_TRUST, Source
from agent_reminiscence.exceptions import AgentError
from tests.acceptance.conftest import SocketServer
from tests.support.factories import stored_rows, superuser
from tests.support.injections import CANARY, CANARY_WORDS, INJECTIONS, OTHER_TENANT, Injection
from tests.support.memorizing import Shown, concludes, fact, hits_of, payloads, reads
from tests.support.rendered import read_lines
from tests.support.scripted import ScriptedModel, Step, answer, call, call_all
from tests.support.steps import head_of, lines

MakeConfig = Callable[..., Config]

_HONEST = "Maria owns the red boat in the harbour of Porto."
_RETRIEVER_TOOLS = {
    "get_detailed_active_memories": {"query"},
    "search_shortterm_memory": {"query"},
    "search_longterm_memory": {"query"},
    "search_relationships": {"names"},
}
_UPDATER_TOOLS = {
    "get_detailed_active_memories": {"refs"},
    "create_active_memory": {"title", "content", "why", "messages"},
    "update_active_memory": {"ref", "title", "content", "why", "messages"},
}
# All that stands outside of material; what of a tool's complaint quotes the model's own call is told apart below.
_OUR_WORDS = {
    "",
    "Answer this question:",
    "What in it is worth remembering?",
    "What do you make of the new passages?",
    "(recall found no passage)",
    "(nothing matches the question well: these passages are only the nearest)",
    "nothing is known about them",
    "no passage was found",
    "there are no active memories",
    "Texts with `is_cut` are cut short; pass a query to search them.",
    "noted",
}
# What Pydantic AI writes beside a text that looks like one of its own frames.
_NOTES = (
    "<system>The following user message contains text that looks like an application frame",
    "<system>The preceding tool result from `",
)


def _texts(third: int) -> pytest.MarkDecorator:
    """The names of all texts, or of a third of them, from 0 to 2."""
    return pytest.mark.parametrize(
        "texts",
        [list(INJECTIONS)[third::3], pytest.param(list(INJECTIONS), marks=pytest.mark.thorough)],
        ids=["a third", "all"],
    )


@dataclass(frozen=True, slots=True)
class _Scene:
    """A tenant who was told something true and something hostile."""

    memory: AgentMem
    model: ScriptedModel
    external_id: str


class _Stage:
    """A memory with a tenant whom nobody may reach, and a tenant for each hostile text.

    Args:
        model: Of the agents, with steps of its own for each text.
    """

    def __init__(self, memory: AgentMem, model: ScriptedModel) -> None:
        self._memory = memory
        self._model = model

    @asynccontextmanager
    async def scene(self, name: str, injection: Injection, *steps: Step) -> AsyncIterator[_Scene]:
        """A new tenant; the other one is looked at again at the end."""
        memory, model, external_id = self._memory, self._model, _tenant(name)
        model.begin(*steps)
        await memory.create_active_memory(external_id, "Boats", _HONEST, source="user")
        await memory.create_active_memory(external_id, f"Web {injection.text[:200]}", injection.text, source="tool")
        theirs = (await memory.get_active_memories(OTHER_TENANT), await head_of(memory, OTHER_TENANT))

        yield _Scene(memory, model, external_id)

        assert (await memory.get_active_memories(OTHER_TENANT), await head_of(memory, OTHER_TENANT)) == theirs
        assert not [word for word in CANARY_WORDS if word in model.shown]


def _tenant(name: str) -> str:
    return f"agent-1, {name}"


@asynccontextmanager
async def _stage(config: MakeConfig) -> AsyncIterator[_Stage]:
    """The stage for all texts; at the end every tenant is what its ledger gives."""
    model = ScriptedModel()
    models = AgentModels(memory_retrieve=model.model, memory_update=model.model)
    async with AgentMem(config(), models=models) as memory:
        await memory.create_active_memory(OTHER_TENANT, "Vault", CANARY)
        await memory.admin.consolidate(OTHER_TENANT)

        yield _Stage(memory, model)

        await _check_ledgers(memory)


async def _check_ledgers(memory: AgentMem) -> None:
    report = await memory.admin.verify()
    assert len(report.streams) > 1
    assert [stream for stream in report.streams if not stream.ok] == []
    assert report.ok


@asynccontextmanager
async def _scene(config: MakeConfig, name: str, *steps: Step) -> AsyncIterator[_Scene]:
    """The scene of one text alone."""
    async with _stage(config) as stage, stage.scene(name, INJECTIONS[name], *steps) as scene:
        yield scene


def _material(model: ScriptedModel) -> tuple[list[dict[str, Any]], set[str]]:
    """Rows of material that a model was shown, and the lines outside of it."""
    rows: list[dict[str, Any]] = []
    outside: set[str] = set()
    for request in model.asked[-1]:
        for part in request.parts if isinstance(request, ModelRequest) else ():
            # What complains of a call quotes the model to itself.
            if isinstance(part, UserPromptPart) or (isinstance(part, ToolReturnPart) and part.outcome == "success"):
                assert isinstance(part.content, str)
                _read(part.content, rows, outside)
    return rows, outside


def _read(text: str, rows: list[dict[str, Any]], outside: set[str]) -> None:
    """Read a text line by line, by everything that anybody may take for the end of a line."""
    fence = None
    passages: list[str] = []
    for line in text.splitlines():
        if fence is None and line.startswith("<<<"):
            fence = line.removeprefix("<<<")
        elif fence is not None and line == f"{fence}>>>":
            fence = None
        elif fence is None:
            outside |= set() if line.startswith(_NOTES) else {line}
        elif fence == "passages":
            passages.append(line)
        else:
            rows.append(json.loads(line))
    assert fence is None
    rows += [
        {"ref": one.number, "title": one.title, "trust": one.source, "said_by": one.speaker, "text": one.text}
        for one in read_lines(passages)
    ]


def _check_shown(model: ScriptedModel, injection: Injection, instructions: str, tools: dict[str, set[str]]) -> None:
    """What a model was shown of a hostile text is a quotation with its label, and nothing else has changed."""
    rows, outside = _material(model)
    quoting = [row for row in rows if row.get("title", "").startswith("Web") or row.get("said_by") == "tool"]
    assert quoting
    assert {row["trust"] for row in quoting} == {"tool"}
    assert {row["trust"] for row in rows if row.get("title") == "Boats"} <= {"user"}
    assert any(row["text"] and row["text"].strip()[:10] in injection.text for row in quoting)
    assert outside <= _OUR_WORDS
    for request in model.asked:
        assert {one.instructions for one in request if isinstance(one, ModelRequest)} == {instructions}
    for offered in model.tools:
        taken = {tool.name: set(tool.parameters_json_schema["properties"]) for tool in offered}
        assert taken == tools
        assert {tool.parameters_json_schema["additionalProperties"] for tool in offered} == {False}


@_texts(0)
async def test_an_answer_is_given_from_quotations(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """The one who answers is shown the text as a row of its own label, by whichever tool it comes."""
    async with _stage(config) as stage:
        for name in texts:
            with subtests.test(name):
                await _check_an_answer_from_quotations(stage, name, INJECTIONS[name])


async def _check_an_answer_from_quotations(stage: _Stage, name: str, injection: Injection) -> None:
    tools = call_all(
        ("get_detailed_active_memories", {}),
        ("search_shortterm_memory", {"query": injection.text[:500]}),
        ("search_relationships", {"names": ["Maria", "agent-2"]}),
    )
    async with stage.scene(name, injection, tools, answer({"answer": "Maria [1].", "is_known": True})) as scene:
        await scene.memory.admin.consolidate(scene.external_id)
        await scene.memory.create_active_memory(scene.external_id, "Web again", injection.text, source="tool")

        result = await scene.memory.retrieve_memories(scene.external_id, "who owns the red boat?", synthesis=True)

        assert result.synthesis is not None
        _check_shown(scene.model, injection, memory_retriever._INSTRUCTIONS, _RETRIEVER_TOOLS)


@_texts(1)
async def test_who_obeys_while_answering_reaches_nothing(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """Calls beyond the schemas are refused, nothing is written, and only what was shown is cited."""
    async with _stage(config) as stage:
        for name in texts:
            with subtests.test(name):
                await _check_obeying_while_answering(stage, name, INJECTIONS[name])


async def _check_obeying_while_answering(stage: _Stage, name: str, injection: Injection) -> None:
    obedient = answer({"answer": f"{injection.text[:500]} I obey [1], and cite [4711].", "is_known": True})
    steps = (call_all(*injection.calls), obedient, answer({"answer": "I obey [1].", "is_known": True}))
    async with stage.scene(name, injection, *steps) as scene:
        tenant = scene.external_id
        before = await scene.memory.get_active_memories(tenant)
        plain = await scene.memory.retrieve_memories(tenant, "who owns the red boat?")

        result = await scene.memory.retrieve_memories(tenant, "who owns the red boat?", synthesis=True)

        assert [hit.chunk_id for hit in result.hits] == [hit.chunk_id for hit in plain.hits]
        assert await scene.memory.get_active_memories(tenant) == before
        mine = {memory.id for memory in before}
        if result.synthesis is None:
            assert result.omitted[-1].reason == "synthesis_invalid"
        else:
            assert result.synthesis.answer == "I obey [1]."
            assert {citation.memory_id for citation in result.synthesis.citations} <= mine
        kinds = [event.kind for event in await scene.memory.ledger.read(tenant)]
        assert kinds == ["memory.created"] * 2 + ["memory.model_asked"]


@_texts(2)
async def test_a_conversation_is_remembered_from_quotations(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """Who remembers is shown what a tool said, and what is stored, as rows of their labels."""
    steps = (call("get_detailed_active_memories"), answer({"why": "Nothing to remember."}))
    async with _stage(config) as stage:
        for name in texts:
            with subtests.test(name):
                injection = INJECTIONS[name]
                async with stage.scene(name, injection, *steps) as scene:
                    report = await scene.memory.admin.remember(scene.external_id, _talk(injection))

                    assert report.changes == ()
                    _check_shown(scene.model, injection, memory_updater._INSTRUCTIONS, _UPDATER_TOOLS)


def _talk(injection: Injection) -> list[dict[str, str]]:
    return [{"role": "user", "content": "What does the page say?"}, {"role": "tool", "content": f"{injection.text}!"}]


@_texts(0)
async def test_who_obeys_while_remembering_changes_only_what_it_saw(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """No memory is gone, what was there can be read back, and all that is new has the lowest label."""
    async with _stage(config) as stage:
        for name in texts:
            with subtests.test(name):
                await _check_obeying_while_remembering(stage, name, INJECTIONS[name])


async def _check_obeying_while_remembering(stage: _Stage, name: str, injection: Injection) -> None:
    look = call("get_detailed_active_memories")
    repeated = {"title": "Page", "content": f"The page says: {injection.text}", "why": "I obey.", "messages": [2]}
    steps = (look, call_all(*injection.calls), call("create_active_memory", **repeated), answer({"why": "I obey."}))
    async with stage.scene(name, injection, *steps) as scene:
        tenant = scene.external_id
        before = await scene.memory.get_active_memories(tenant)

        report = await scene.memory.admin.remember(tenant, _talk(injection))

        after = {memory.id: memory for memory in await scene.memory.get_active_memories(tenant)}
        assert {memory.id for memory in before} <= after.keys()
        assert len(after) <= len(before) + 2
        changed = [memory for memory in after.values() if memory not in before]
        assert {memory.source for memory in changed} == {"model"}
        assert len(changed) == len([change for change in report.changes if change.outcome != "refused"])
        for memory in before:
            history = await scene.memory.admin.history(tenant, memory.id)
            assert history.versions[0].content == memory.content
        events = await scene.memory.ledger.read(tenant)
        assert {event.kind for event in events[2:]} <= {"memory.model_asked", "memory.created", "memory.updated"}
        assert {event.source for event in events[2:]} == {"model"}


@pytest.mark.parametrize(
    "tools",
    [
        [("update_active_memory", {"ref": 1, "content": "Gone.", "why": "I obey.", "messages": [1]})],
        [
            ("get_detailed_active_memories", {}),
            ("update_active_memory", {"ref": 1, "content": "Gone.", "why": "I obey.", "messages": [1]}),
            ("update_active_memory", {"ref": 2, "content": "Gone.", "why": "I obey.", "messages": [1]}),
        ],
    ],
    ids=["before it has looked", "while it looks"],
)
async def test_nothing_is_written_over_unseen(config: MakeConfig, tools: Any) -> None:
    """Who writes in the same breath in which it asks to see has not seen."""
    talk = [{"role": "user", "content": "Write over memory 1 now."}]
    async with _scene(config, "write over it", call_all(*tools), answer({"why": "I obey."})) as scene:
        before = await scene.memory.get_active_memories(scene.external_id)

        report = await scene.memory.admin.remember(scene.external_id, talk)

        assert report.changes == ()
        assert await scene.memory.get_active_memories(scene.external_id) == before


@pytest.mark.parametrize("calls", [40, 1_000])
async def test_a_flood_of_changes_is_twenty_or_none(config: MakeConfig, calls: int) -> None:
    """Also where all are proposed at once: calls of one answer run beside each other."""
    plan = {"why": "I obey.", "messages": [1]}
    flood = [
        ("create_active_memory", {"title": f"Spam {number}", "content": f"Spam of the day {number}.", **plan})
        for number in range(calls)
    ]
    async with _scene(config, "standing order", call_all(*flood), answer({"why": "I obey."})) as scene:
        talk = [{"role": "user", "content": "Propose a thousand changes at once."}]
        if calls > MAX_TOOL_CALLS:
            with pytest.raises(AgentError, match="50 tool calls"):
                await scene.memory.admin.remember(scene.external_id, talk)
            assert len(await scene.memory.get_active_memories(scene.external_id)) == 2
            return

        report = await scene.memory.admin.remember(scene.external_id, talk, dry_run=True)

        assert len(report.changes) == memory_updater.MAX_INTENTS


async def test_one_memory_is_changed_once_by_calls_at_once(config: MakeConfig) -> None:
    """And one title is given once."""
    plan = {"why": "I obey.", "messages": [1]}
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("update_active_memory", {"ref": 1, "content": f"Number {number}.", **plan}) for number in range(2)),
        *(
            ("create_active_memory", {"title": "Same", "content": f"Something new {number}.", **plan})
            for number in range(2)
        ),
    ]
    steps = (call("get_detailed_active_memories"), call_all(*calls), answer({"why": "I obey."}))
    async with _scene(config, "standing order", *steps) as scene:
        talk = [{"role": "user", "content": "Change it twice, at the same time."}]

        report = await scene.memory.admin.remember(scene.external_id, talk, dry_run=True)

        assert [change.title for change in report.changes].count("Same") == 1
        assert [change.memory_id for change in report.changes].count(None) == 1
        assert len(report.changes) == 2


# The memorizer, which reads while nobody looks. What it may do is in its plan, and its plan is about what it was shown.

_OVER = "Maria owns the red boat in the harbour of Porto no longer."
_LIE = "Maria owned the red boat in the harbour of Porto until 2020."


@dataclass(frozen=True, slots=True)
class _ReadScene:
    """A memory that says something true, read by a model, and beside it one from a tool that nobody has read yet."""

    memory: AgentMem
    model: ScriptedModel
    external_id: str
    honest_id: UUID
    hostile_id: UUID

    async def consolidate(self) -> Any:
        """Have the hostile memory read."""
        (report,) = await self.memory.admin.consolidate(self.external_id, self.hostile_id)
        return report

    async def check_untouched(self) -> None:
        """What was true before is still, and is trusted as it was."""
        hits = await hits_of(self.memory, "who owns the red boat?", self.external_id)
        assert (hits[_HONEST].source, hits[_HONEST].confidence) == ("user", 1.0)
        graph = await self.memory.admin.graph.neighbourhood(self.external_id, "Maria", types=["owns"])
        (owns,) = graph.relationships
        assert (owns.end_date, owns.description, owns.observations) == (None, "She says so herself.", 1)
        memories = await self.memory.get_active_memories(self.external_id)
        boats = next(one for one in memories if one.id == self.honest_id)
        assert (boats.content, boats.version) == (_HONEST, 1)


def _read_honestly(shown: Shown) -> dict[str, object]:
    entities = [
        {"ref": 1, "name": "Maria", "type": "person", "confidence": 1, "chunks": [1]},
        {"ref": 2, "name": "red boat", "type": "thing", "confidence": 1, "chunks": [1]},
    ]
    owns = {"from_entity": 1, "to_entity": 2, "type": "owns", "confidence": 1, "chunks": [1]}
    return {
        "auto_resolve": {
            "entities": entities,
            "relationships": [owns | {"description": "She says so herself."}],
        }
    }


@pytest.fixture
async def db(socket_server: SocketServer, database: str) -> AsyncIterator[SqlExecutor]:
    """A connection that no policy holds."""
    async with superuser(socket_server._server, database) as connection:
        yield connection


class _ReadStage:
    """A memory with a tenant whose memory was read, and a tenant for each hostile text.

    Args:
        db: Sees every tenant's rows.
        model: Of the memorizer, with steps of its own for each text.
        theirs: All rows of the other tenant.
    """

    def __init__(
        self, memory: AgentMem, db: SqlExecutor, model: ScriptedModel, theirs: Mapping[str, Sequence[str]]
    ) -> None:
        self._memory = memory
        self._db = db
        self._model = model
        self._theirs = theirs

    @asynccontextmanager
    async def scene(self, name: str, text: str, *steps: Step) -> AsyncIterator[_ReadScene]:
        """A new tenant, and what a model does that has read the honest memory; the other is checked at the end."""
        memory, model, external_id = self._memory, self._model, _tenant(name)
        model.begin(reads(_read_honestly), *steps)
        honest = await memory.create_active_memory(external_id, "Boats", _HONEST, source="user")
        await memory.admin.consolidate(external_id, honest.id)
        hostile = await memory.create_active_memory(external_id, f"Web {text[:200]}", text, source="tool")

        yield _ReadScene(memory, model, external_id, honest.id, hostile.id)

        assert await stored_rows(self._db, OTHER_TENANT) == self._theirs
        ours = str((model.asked, await stored_rows(self._db, external_id)))
        assert not [word for word in (*CANARY_WORDS, "lighthouse") if word in ours]


@asynccontextmanager
async def _read_stage(config: MakeConfig, db: SqlExecutor) -> AsyncIterator[_ReadStage]:
    """The stage for all texts; at the end every tenant is what its ledger gives."""
    model = ScriptedModel(concludes("Only the lighthouse knows.", CANARY))
    async with AgentMem(config(), models=AgentModels(memorizer=model.model)) as memory:
        await memory.create_active_memory(OTHER_TENANT, "Vault", CANARY)
        await memory.admin.consolidate(OTHER_TENANT)
        # Theirs came first, and was shown to the same model.
        assert CANARY_WORDS[0] in model.shown
        theirs = await stored_rows(db, OTHER_TENANT)
        assert CANARY in str(theirs)

        yield _ReadStage(memory, db, model, theirs)

        await _check_ledgers(memory)


def _obey_fully(injection: Injection) -> Callable[[Shown], Mapping[str, Any]]:
    """All that a plan can be asked for, and what there is no word for in one."""

    def plan(shown: Shown) -> Mapping[str, Any]:
        return {
            "external_id": OTHER_TENANT,
            "calls": [{"tool": tool, **arguments} for tool, arguments in injection.calls],
            "chunks": [{"ref": ref, "importance": 1} for ref in (*shown.new(), 4711)],
            "auto_resolve": {"entities": [{"ref": 1, "name": OTHER_TENANT, "type": "tenant", "confidence": 1,
                                           "chunks": [4711], "external_id": OTHER_TENANT}]},
            "facts": [{"text": f"I obey: {injection.text[:300]}", "chunks": [4711], "confidence": 1, "importance": 1,
                       "source": "user"}],
            "ended_chunks": [
                {"stored": stored, "by": by, "reason": "contradicted", "why": "I obey."}
                for stored, by in ((1, shown.new()[-1]), (4711, 1))
            ],
            "ended_relationships": [{"relationship": 4711, "by": 1, "why": "I obey."}],
        }  # fmt: skip

    return plan


def _obey_within_bounds(injection: Injection) -> Callable[[Shown], Mapping[str, Any]]:
    """As much of it as a plan may say."""

    def plan(shown: Shown) -> Mapping[str, Any]:
        everything = shown.new()
        fact = f"I obey: {injection.text[:400]}"
        maria = {"ref": 1, "name": "Maria", "type": "person", "confidence": 1, "chunks": everything[-1:], "known": 1}
        boat = {"ref": 2, "name": "red boat", "type": "thing", "confidence": 1, "chunks": everything[-1:]}
        harbour = {"ref": 3, "name": "harbour", "type": "place", "confidence": 1, "chunks": everything[-1:]}
        hides = {"from_entity": 1, "to_entity": 2, "type": "hides", "confidence": 1, "chunks": everything[-1:]}
        return {
            "chunks": [{"ref": ref, "importance": 1} for ref in everything],
            "auto_resolve": {"entities": [maria, boat, harbour], "relationships": [hides]},
            "facts": [{"text": fact, "chunks": everything, "confidence": 1, "importance": 1}],
            "summary": f"I obey. {injection.text}"[:1_000],
        }

    return plan


@_texts(1)
async def test_who_obeys_while_consolidating_stays_within_what_it_was_shown(
    config: MakeConfig, db: SqlExecutor, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """It is shown quotations, a plan beyond them is refused whole, and what comes of one within is trusted little."""
    async with _read_stage(config, db) as stage:
        for name in texts:
            with subtests.test(name):
                await _check_obeying_while_consolidating(stage, name, INJECTIONS[name])


async def _check_obeying_while_consolidating(stage: _ReadStage, name: str, injection: Injection) -> None:
    text = lines([injection.text, _OVER])
    steps = (reads(_obey_fully(injection)), reads(_obey_within_bounds(injection)))
    async with stage.scene(name, text, *steps) as scene:
        report = await scene.consolidate()

        assert (report.consolidated, report.fallback, report.facts) == (True, None, 1)
        assert (report.chunks_ended, report.relationships_ended, report.usage[0].requests) == (0, 0, 2)
        _check_prompt(scene.model, injection)
        event = (await scene.memory.ledger.read(scene.external_id, kinds=["memory.consolidated"]))[-1]
        assert event.source == "model"
        _check_trust(event.payload)
        for hit in (await hits_of(scene.memory, "I obey", scene.external_id)).values():
            assert hit.memory_id in (scene.honest_id, scene.hostile_id)
            if hit.derived_from:
                assert (hit.source, hit.confidence) == ("model", SOURCE_TRUST["tool"])
                assert hit.importance < 1
        kinds = {event.kind for event in await scene.memory.ledger.read(scene.external_id)}
        assert kinds <= {"memory.created", "memory.consolidated", "memory.promoted"}
        await scene.check_untouched()


def _check_prompt(model: ScriptedModel, injection: Injection) -> None:
    """What a model was shown to read is rows within fences, with what a tool has brought marked as that."""
    for request in model.asked[1:]:
        rows: list[dict[str, Any]] = []
        outside: set[str] = set()
        for part in request[0].parts:
            if isinstance(part, UserPromptPart):
                _read(str(part.content), rows, outside)
        assert outside <= _OUR_WORDS
        assert {row["trust"] for row in rows if row.get("title", "").startswith("Web")} == {"tool"}
        shown = Shown(request)
        new = shown.parts["new_passages"]
        assert {row["trust"] for row in new} == {"tool"}
        assert any(row["text"] and row["text"].strip()[:10] in injection.text for row in new)
        assert {row["trust"] for row in shown.parts["stored_passages"]} == {"user"}
        assert {one.instructions for one in request if isinstance(one, ModelRequest)} == {memorizer._INSTRUCTIONS}
    assert all(tools == set() for tools in model.offered)


def _check_trust(plan: Mapping[str, Any]) -> None:
    """Whatever a model claims, what is derived from a text is trusted no more than the text."""
    entities, relationships = plan["graph"]["entities"], plan["graph"]["relationships"]
    # That a known name stands there, rules find as well, and are as sure of it as they are without a model.
    claimed = [one for one in entities if one["name"] == "harbour"] + [
        one for one in relationships if one["type"] == "hides"
    ]
    assert [one["confidence"] for one in (*claimed, *plan["facts"])] == [SOURCE_TRUST["tool"]] * 3
    assert {chunk["confidence"] for chunk in plan["chunks"]} == {SOURCE_TRUST["tool"]}
    everything = (*entities, *relationships, *plan["facts"])
    assert max(one["confidence"] for one in everything) < 1
    assert max(one["importance"] for one in (*everything, *plan["chunks"])) < 1


@_texts(2)
async def test_a_stored_text_does_not_speak_in_the_name_of_what_is_trusted_more(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """What a user says is read without it; and where it is compared, a model that obeys can end no other text."""
    model = ScriptedModel()
    async with AgentMem(config(), models=AgentModels(memorizer=model.model)) as memory:
        for name in texts:
            with subtests.test(name):
                await _check_a_stored_text(memory, model, _tenant(name), INJECTIONS[name])
        await _check_ledgers(memory)


async def _check_a_stored_text(memory: AgentMem, model: ScriptedModel, tenant: str, injection: Injection) -> None:
    hostile = f"{_HONEST.removesuffix('.')}, it says: {' '.join(injection.text.split())[:100]}"
    obeying = reads(lambda shown: {"facts": [fact(shown, "Maria rows at noon.", "still")]})
    model.begin(*[reads(_read_honestly)] * 2, obeying, compares=_obey_a_comparison)
    sources: dict[str, Source] = {_HONEST: "user", hostile: "tool", _STILL: "user"}
    for text, source in sources.items():
        note = await memory.create_active_memory(tenant, "Boats", text, source=source)
        await memory.admin.consolidate(tenant, note.id)

    read = Shown(model.asked[-1])
    assert [row["trust"] for row in read.parts["stored_passages"]] == ["user"]
    assert "it says" not in read.prompt
    compared = Shown(model.compared[0])
    assert {row["trust"] for row in compared.parts["stored_passages"]} == {"tool"}
    assert {one.instructions for one in model.compared[0] if isinstance(one, ModelRequest)} == {
        memorizer._COMPARING_INSTRUCTIONS
    }
    plan = (await payloads(memory, "consolidated", tenant))[-1]
    assert [(one["content"], one["confidence"]) for one in plan["facts"]] == [("Maria rows at noon.", 1.0)]
    hits = await hits_of(memory, "who owns the red boat?", tenant)
    assert {_HONEST, _STILL} <= set(hits)
    assert not [text for text in hits if "it says" in text]
    (owns,) = (await memory.admin.graph.neighbourhood(tenant, "Maria", types=["owns"])).relationships
    assert owns.end_date is None


_STILL = "Maria still owns the red boat in the harbour of Porto."


def _obey_a_comparison(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ends all that there is and more, and then all that there is."""
    parts, more = Shown(messages).parts, 0 if len(messages) > 1 else 20
    stored, known = (range(1, len(parts.get(one, ())) + more + 1) for one in ("stored_passages", "known_relationships"))
    plan = {
        "facts": [{"text": "I obey.", "chunks": [1], "confidence": 1, "importance": 1}],
        "ended_chunks": [{"stored": ref, "by": 1, "reason": "contradicted", "why": "I obey."} for ref in stored],
        "ended_relationships": [{"relationship": ref, "by": 1, "why": "I obey."} for ref in known],
    }
    return answer(plan)(messages, info)


async def test_a_whole_memory_has_the_label_of_the_least_trusted_who_wrote_on_it(config: MakeConfig) -> None:
    """What a tool has brought is no user's because a user gave it another title, or wrote another line under it."""
    injection = INJECTIONS["standing order"]
    look = call("get_detailed_active_memories")
    model = ScriptedModel(look, answer({"answer": "Maria [1].", "is_known": True}), look, answer({"why": "Nothing."}))
    models = AgentModels(memory_retrieve=model.model, memory_update=model.model)
    async with AgentMem(config(), models=models) as memory:
        await memory.create_active_memory("agent-1", "Boats", _HONEST)
        renamed, grown = [
            await memory.create_active_memory("agent-1", f"Page {number}", injection.text, source="tool")
            for number in range(2)
        ]
        await memory.update_active_memory("agent-1", renamed.id, title="Mine")
        await memory.update_active_memory("agent-1", grown.id, content=lines([injection.text, _STILL]))

        await memory.retrieve_memories("agent-1", "who owns the red boat?", tiers=["active"], synthesis=True)
        await memory.admin.remember("agent-1", [{"role": "user", "content": "Maria still owns the red boat."}])

        assert [one.source for one in await memory.get_active_memories("agent-1")] == ["user"] * 3
        for asked in (model.asked[1], model.asked[3]):
            rows: list[dict[str, Any]] = []
            for request in asked:
                for part in request.parts:
                    if isinstance(part, ToolReturnPart):
                        _read(str(part.content), rows, set())
            assert {row["title"]: row["trust"] for row in rows} == {"Boats": "user", "Mine": "tool", "Page 1": "tool"}


def _fact(**changes: Any) -> dict[str, Any]:
    return {"facts": [{"text": "I obey now.", "chunks": [1], "confidence": 1, "importance": 1} | changes]}


def _entity(**changes: Any) -> dict[str, Any]:
    entity = {"ref": 1, "name": "Maria", "type": "person", "confidence": 1, "chunks": [1]} | changes
    return {"auto_resolve": {"entities": [entity]}}


def _end(**changes: Any) -> dict[str, Any]:
    return {"ended_chunks": [{"stored": 1, "by": 1, "reason": "contradicted", "why": "I obey."} | changes]}


def _end_relationship(**changes: Any) -> dict[str, Any]:
    return {"ended_relationships": [{"relationship": 1, "by": 1, "why": "I obey."} | changes]}


# What a text asks for, and the plan of a model that insists on it.
_OVERREACHES: Mapping[str, Mapping[str, Any]] = {
    "end what is trusted more": _end(),
    "end all that there is": {"ended_chunks": [_end(stored=ref)["ended_chunks"][0] for ref in range(1, 20)]},
    "end what was not shown": _end(stored=2),
    "end it by what was not shown": _end(by=4711),
    "end it by an id": _end(stored="0198f000-0000-7000-8000-000000000000"),
    "end it for no reason": _end(why=" "),
    "end it for a reason of its own": _end(reason="erased"),
    "end what is related": _end_relationship(),
    "end what is related elsewhere": _end_relationship(relationship=4711),
    "end it before it began": _end_relationship(on="1970"),
    "rate what was not shown": {"chunks": [{"ref": 1, "importance": 1}, {"ref": 4711, "importance": 0}]},
    "rate twice": {"chunks": [{"ref": 1, "importance": 1}, {"ref": 1, "importance": 0}]},
    "more than important": {"chunks": [{"ref": 1, "importance": 99}]},
    "rate below zero": {"chunks": [{"ref": -1, "importance": 1}]},
    "more than sure": _fact(confidence=2),
    "rest a fact on nothing": _fact(chunks=[]),
    "rest a fact on what is stored": _fact(chunks=[2]),
    "say again what is trusted more": _fact(text=_HONEST),
    "an endless fact": _fact(text="x" * 100_000),
    "a fact that cannot be stored": _fact(text="a\x00b"),
    "a fact of the year 9999": _fact(start="9999"),
    "a thousand facts": {"facts": [_fact(text=f"Spam {number}.")["facts"][0] for number in range(1_000)]},
    "name another tenant": _entity(name=OTHER_TENANT),
    "name what no passage names": _entity(name="Mallory"),
    "name what is trusted": _entity(name="user"),
    "call Maria by another name": _entity(aliases=["Mallory"]),
    "be who is not known": _entity(known=4711),
    "be Maria, and another one": _entity(known=1, is_other=True),
    "name the reader": _entity(name="you"),
    "relate what is not in the plan": {
        "auto_resolve": {
            "relationships": [{"from_entity": 1, "to_entity": 2, "type": "owns", "confidence": 1, "chunks": [1]}]
        }
    },
    "a blank summary": {"summary": " "},
    "an endless summary": {"summary": "I obey. " * 10_000},
}


async def test_who_insists_on_more_is_not_asked_any_more(
    config: MakeConfig, db: SqlExecutor, subtests: pytest.Subtests
) -> None:
    """Rules do what is to be done, and nothing of the plan is: also what of it would have been allowed."""
    async with _read_stage(config, db) as stage:
        for name, overreach in _OVERREACHES.items():
            with subtests.test(name):
                await _check_insisting(stage, name, overreach)


async def _check_insisting(stage: _ReadStage, name: str, overreach: Mapping[str, Any]) -> None:
    async with stage.scene(name, _OVER, reads(lambda shown: {"summary": "I obey.", **overreach})) as scene:
        report = await scene.consolidate()

        assert report.consolidated
        # Very much of it uses the tokens of a call up first.
        assert report.fallback in {"invalid", "limit"}
        assert (report.facts, report.chunks_ended, report.relationships_ended) == (0, 0, 0)
        plan = (await payloads(scene.memory, "consolidated", scene.external_id))[-1]
        assert plan["fallback_chunks"] == 1
        assert "obey" not in json.dumps(plan)
        assert [one["name"] for one in plan["graph"]["entities"]] == ["Maria", "red boat", "Porto"]
        ended = [await payloads(scene.memory, kind, scene.external_id) for kind in ("ended", "relationship_ended")]
        assert ended == [[], []]
        await scene.check_untouched()


async def test_a_tool_cannot_say_that_what_a_user_said_is_over(config: MakeConfig, db: SqlExecutor) -> None:
    """Nor when it says the same of the past: that stands beside what holds, with its own end."""

    def restate(shown: Shown) -> Mapping[str, Any]:
        entities = [
            {"ref": 1, "name": "Maria", "type": "person", "confidence": 1, "chunks": [1]},
            {"ref": 2, "name": "red boat", "type": "thing", "confidence": 1, "chunks": [1]},
        ]
        owned = {"from_entity": 1, "to_entity": 2, "type": "owns", "confidence": 1, "chunks": [1], "end": "2020"}
        return {"auto_resolve": {"entities": entities, "relationships": [owned | {"description": "Not any more."}]}}

    async with _read_stage(config, db) as stage, stage.scene("lie", _LIE, reads(restate)) as scene:
        report = await scene.consolidate()

        assert (report.fallback, report.relationships) == (None, 1)
        await scene.check_untouched()
