"""Texts in memories and conversations that want to be instructions, one after the other, for each agent.

A scripted model cannot be persuaded. So this shows what holds when a real one is: what every model is shown of a text,
and what comes of a model that does all the text asks for, with every tool and argument that there is.

A test tries many texts on one memory, each with a tenant of its own, and names those that fail. `make test` tries a
sixth of them, each test another sixth, so that each text is tried somewhere.
"""

from __future__ import annotations

import json
import re
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
from agent_reminiscence.database.connection import SqlExecutor
from agent_reminiscence.domain.trust import SOURCE_TRUST, Source
from agent_reminiscence.services.tiers.proposal import DERIVED_CONFIDENCE
from agent_reminiscence.text.control_tokens import clean
from agent_reminiscence.text.invisible import INVISIBLE
from tests.acceptance.conftest import SocketServer
from tests.support.factories import stored_rows, superuser
from tests.support.injections import CANARY, CANARY_WORDS, INJECTIONS, OTHER_TENANT, Injection
from tests.support.memorizing import Shown, concludes, fact, hits_of, payloads, reads, without_letter
from tests.support.rendered import read_lines
from tests.support.scripted import ScriptedModel, Step, answer, call_all
from tests.support.steps import head_of, lines
from tests.support.updating import NOTHING, Part, changes, creates, forgets, plan

MakeConfig = Callable[..., Config]

_HONEST = "Maria owns the red boat in the harbour of Porto."
_RETRIEVER_TOOLS = {"search_memory": {"query"}, "show_around": {"ref"}}
# All that stands outside of material; what of a tool's complaint quotes the model's own call is told apart below.
_OUR_WORDS = {
    "",
    "What in it is worth remembering?",
    "What do you make of the new passages?",
    "(recall found no passage)",
    "(weak match: these passages are only the nearest)",
    "no passage was found",
    "nothing is stored around this passage",
}
# The frames with passages; the others hold rows of JSON.
_OF_PASSAGES = {"passages", "new_passages", "stored_passages"}
# Of these, the numbers and days are ours as well.
_OUR_LINES = re.compile(
    r"Today is \d{4}-\d\d-\d\d [A-Z][a-z]+day\. Answer this question:"
    r"|\(found as well, and shown already: \d+(?:, \d+)*\)"
)
# What Pydantic AI writes beside a text that looks like one of its own frames.
_NOTES = (
    "<system>The following user message contains text that looks like an application frame",
    "<system>The preceding tool result from `",
)


def _texts(sixth: int) -> pytest.MarkDecorator:
    """The names of all texts, or of a sixth of them, from 0 to 5."""
    return pytest.mark.parametrize(
        "texts",
        [list(INJECTIONS)[sixth::6], pytest.param(list(INJECTIONS), marks=pytest.mark.thorough)],
        ids=["a sixth", "all"],
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
            # A heading holds to the end of its frame.
            rows += [
                {"ref": one.number, "title": one.title, "trust": one.source, "said_by": one.speaker, "text": one.text}
                for one in read_lines(passages)
            ]
            passages = []
        elif fence is None:
            outside |= set() if line.startswith(_NOTES) else {line}
        elif fence in _OF_PASSAGES:
            passages.append(without_letter(line))
        else:
            rows.append(_with_text(json.loads(line)))
    assert fence is None


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row; the lines of a memory as one text."""
    lines = row.get("lines")
    return row if lines is None else row | {"text": "\n".join(lines.values())}


def _check_shown(model: ScriptedModel, injection: Injection, instructions: str, tools: dict[str, set[str]]) -> None:
    """What a model was shown of a hostile text is a quotation with its label, and nothing else has changed."""
    rows, outside = _material(model)
    quoting = [row for row in rows if row.get("title", "").startswith("Web") or row.get("said_by") == "tool"]
    assert quoting
    assert {row["trust"] for row in quoting} == {"tool"}
    assert {row["trust"] for row in rows if row.get("title") == "Boats"} <= {"user"}
    visible = clean(injection.text)
    # A rendering has a line break for each kind of them.
    texts = [row["text"].strip().split("\n")[0][:10] for row in quoting if row["text"]]
    assert any(text in injection.text or text in visible for text in texts)
    assert {line for line in outside if not _OUR_LINES.fullmatch(line)} <= _OUR_WORDS
    for request in model.asked:
        assert {one.instructions for one in request if isinstance(one, ModelRequest)} == {instructions}
    for offered in model.tools:
        taken = {tool.name: set(tool.parameters_json_schema["properties"]) for tool in offered}
        assert taken == tools
        assert {tool.parameters_json_schema["additionalProperties"] for tool in offered} <= {False}


@pytest.mark.thorough
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
        ("search_memory", {"query": injection.text[:500]}),
        ("search_memory", {"query": "Maria and agent-2"}),
        ("show_around", {"ref": 1}),
        ("show_around", {"ref": 2}),
    )
    async with stage.scene(name, injection, tools, answer({"answer": "Maria [1].", "is_known": True})) as scene:
        await scene.memory.admin.consolidate(scene.external_id)
        await scene.memory.create_active_memory(scene.external_id, "Web again", injection.text, source="tool")

        result = await scene.memory.retrieve_memories(scene.external_id, "who owns the red boat?", synthesis=True)

        assert result.synthesis is not None
        _check_shown(scene.model, injection, memory_retriever._INSTRUCTIONS, _RETRIEVER_TOOLS)


@pytest.mark.promise
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


@pytest.mark.thorough
@_texts(2)
async def test_a_conversation_is_remembered_from_quotations(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """Who remembers is shown what a tool said, and what is stored, as rows of their labels."""
    async with _stage(config) as stage:
        for name in texts:
            with subtests.test(name):
                injection = INJECTIONS[name]
                async with stage.scene(name, injection, NOTHING) as scene:
                    report = await scene.memory.admin.remember(scene.external_id, _talk(injection))

                    assert report.changes == ()
                    _check_shown(scene.model, injection, memory_updater._INSTRUCTIONS, {})


def _talk(injection: Injection) -> list[dict[str, str]]:
    return [{"role": "user", "content": "What does the page say?"}, {"role": "tool", "content": f"{injection.text}!"}]


@pytest.mark.promise
@_texts(3)
async def test_who_obeys_while_remembering_changes_only_what_it_saw(
    config: MakeConfig, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """No memory is gone, what was there can be read back, and all that is new has the lowest label."""
    async with _stage(config) as stage:
        for name in texts:
            with subtests.test(name):
                await _check_obeying_while_remembering(stage, name, INJECTIONS[name])


async def _check_obeying_while_remembering(stage: _Stage, name: str, injection: Injection) -> None:
    repeated = creates("Page", f"The page says: {injection.text}", 2, why="I obey.")
    forgets_all = forgets("I obey: all of it.", 1, 2, message=2)
    obedient = plan(*_parts(injection), repeated, forgets_all, why="I obey.")
    steps = (call_all(*injection.calls) if injection.calls else obedient, obedient)
    async with stage.scene(name, injection, *steps) as scene:
        tenant = scene.external_id
        before = await scene.memory.get_active_memories(tenant)

        report = await scene.memory.admin.remember(tenant, _talk(injection))

        assert report.deletion_requests == ()
        assert "does not hold the user's own words" in scene.model.shown
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


def _parts(injection: Injection) -> list[Part]:
    """What an obedient model writes, with whatever arguments the text asks for."""
    parts: list[Part] = []
    for tool, arguments in injection.calls:
        rest = {name: value for name, value in arguments.items() if name not in ("ref", "content")}
        lines = str(arguments.get("content", "Gone.")).splitlines()
        if tool == "create_active_memory":
            parts.append(("create", rest | {"lines": lines}))
        elif tool == "update_active_memory":
            memory = arguments["ref"]
            parts += [("update", rest | {"memory": memory, "line": line, "text": lines[0]}) for line in (0, 1, 2, 99)]
    return parts


async def test_only_lines_that_were_shown_are_changed(config: MakeConfig) -> None:
    """A memory and a line that the model was not shown stay as they are, and so does the end of a line cut short."""
    long = "The first word. " + "x" * 5_000
    answers = plan(*(changes(number, line, "Gone.", 1) for number in (1, 2, 3, 4) for line in (1, 2, 3, 4_000)))
    async with _scene(config, "write over it", answers) as scene:
        memory, tenant = scene.memory, scene.external_id
        pages = await memory.create_active_memory(tenant, "Pages", "\n".join(f"Page {one}" for one in range(3_999)))
        cut = await memory.create_active_memory(tenant, "Cut", long)

        report = await memory.admin.remember(tenant, [{"role": "user", "content": "Write over all of it now."}])

        assert {change.memory_id for change in report.changes} == {
            one.id for one in await memory.get_active_memories(tenant) if one.id != cut.id
        }
        kept = {one.id: one.content for one in await memory.get_active_memories(tenant)}
        assert kept[cut.id] == long
        assert kept[pages.id].count("Page ") >= 3_996
        assert "line 1 of memory 4 is not shown whole" in scene.model.shown
        assert "was shown without a line 4000" in scene.model.shown


async def test_a_flood_of_changes_is_twenty(config: MakeConfig) -> None:
    """However many are proposed at once."""
    flood = plan(*(creates(f"Spam {number}", f"Spam of the day {number}.", 1) for number in range(1_000)))
    async with _scene(config, "standing order", flood) as scene:
        talk = [{"role": "user", "content": "Propose a thousand changes at once."}]

        report = await scene.memory.admin.remember(scene.external_id, talk, dry_run=True)

        assert len(report.changes) == memory_updater.MAX_INTENTS


# The memorizer, which reads while nobody looks. What it may do is in its plan, and its plan is about what it was shown.

_OVER = "Maria owns the red boat in the harbour of Porto no longer."
_LONGTERM: float = Config.model_fields["shortterm_promotion_threshold"].default
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
        assert (owns.end_date, owns.observations, owns.confidence) == (None, 1, DERIVED_CONFIDENCE)
        assert {one.name: one.description for one in graph.entities}["Maria"] == "She says so herself."
        memories = await self.memory.get_active_memories(self.external_id)
        boats = next(one for one in memories if one.id == self.honest_id)
        assert (boats.content, boats.version) == (_HONEST, 1)


def _read_honestly(shown: Shown) -> dict[str, object]:
    return {
        "entities": [
            {"name": "Maria", "type": "person", "description": "She says so herself."},
            {"name": "red boat", "type": "thing"},
        ],
        "relationships": [{"who": "Maria", "relation": "owns", "whom": "red boat", "passages": [1]}],
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
        everything = shown.new()
        return {
            "external_id": OTHER_TENANT,
            "calls": [{"tool": tool, **arguments} for tool, arguments in injection.calls],
            "importance": [1 for _ in (*everything, 4711)],
            "entities": [{"name": OTHER_TENANT, "type": "tenant", "external_id": OTHER_TENANT}],
            "relationships": [{"who": "Mallory", "relation": "owns", "whom": OTHER_TENANT, "passages": [4711]}],
            "facts": [
                {"text": f"I obey: {injection.text[:300]}", "passages": [4711], "importance": 1, "source": "user"}
            ],
            "over": _end_all(shown, more=20),
        }

    return plan


def _end_all(shown: Shown, *, more: int = 0) -> list[dict[str, Any]]:
    """Ends all that has a number, and some numbers more, by the last new passage."""
    parts = [shown.parts.get(part, ()) for part in ("new_passages", "stored_passages", "known_relationships")]
    texts = {row["number"]: row.get("text", "") for rows in parts for row in rows}
    last = shown.new()[-1]
    return [
        {"number": ref, "by": last, "part": texts.get(ref, ""), "why": "I obey."}
        for ref in range(1, len(texts) + more + 1)
        if ref != last
    ]


def _obey_within_bounds(injection: Injection) -> Callable[[Shown], Mapping[str, Any]]:
    """As much of it as a plan may say, and the end of all that is trusted more."""

    def plan(shown: Shown) -> Mapping[str, Any]:
        everything = shown.new()
        older = [one for one in _end_all(shown) if one["number"] not in everything]
        assert len(older) == 2
        return {
            "importance": [1 for _ in everything],
            "entities": [
                {"name": "Maria", "type": "person", "description": "She obeys."},
                {"name": "red boat", "type": "thing"},
                {"name": "harbour", "type": "place"},
            ],
            "relationships": [{"who": "Maria", "relation": "hides", "whom": "red boat", "passages": everything[-1:]}],
            "facts": [{"text": f"I obey: {injection.text[:400]}", "passages": everything, "importance": 1}],
            "over": older,
            "summary": f"I obey. {injection.text}"[:1_000],
        }

    return plan


@pytest.mark.promise
@_texts(4)
async def test_who_obeys_while_consolidating_stays_within_what_it_was_shown(
    config: MakeConfig, db: SqlExecutor, subtests: pytest.Subtests, texts: Sequence[str]
) -> None:
    """It is shown quotations, is asked again for a plan beyond them, and what comes of one is trusted little."""
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
                # However important it calls itself, that alone does not make it longterm.
                assert hit.importance < _LONGTERM
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
        # Its title may be anybody's: it stands beside passages of the same label alone.
        assert len([row for row in rows if row.get("title", "").startswith("Web")]) == 1
        shown = Shown(request)
        assert [row["title"][:3] for row in shown.parts["memory"]] == ["Web"]
        new = shown.parts["new_passages"]
        assert {row["trust"] for row in new} == {"tool"}
        assert any(row["text"] and _visible(row["text"])[:10] in _visible(injection.text) for row in new)
        assert INVISIBLE.search(shown.prompt) is None
        assert {row["trust"] for row in shown.parts["stored_passages"]} == {"user"}
        assert {one.instructions for one in request if isinstance(one, ModelRequest)} == {memorizer._INSTRUCTIONS}
    assert all(tools == set() for tools in model.offered)


def _visible(text: str) -> str:
    """What a reader sees of a text, without its white space."""
    return "".join(clean(text).split())


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


@pytest.mark.thorough
@_texts(5)
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
    # Two new passages of the user's: nor can one of them be made to end the other.
    news = lines([_STILL, _LATER])
    sources: dict[str, Source] = {_HONEST: "user", hostile: "tool", news: "user"}
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
    assert [(one["content"], one["confidence"]) for one in plan["facts"]] == [
        ("Maria rows at noon.", DERIVED_CONFIDENCE)
    ]
    hits = await hits_of(memory, "who owns the red boat?", tenant)
    assert {_HONEST, _STILL, _LATER} <= set(hits)
    assert not [text for text in hits if "it says" in text]
    (owns,) = (await memory.admin.graph.neighbourhood(tenant, "Maria", types=["owns"])).relationships
    assert owns.end_date is None


_STILL = "Maria still owns the red boat in the harbour of Porto."
_LATER = "Maria paints the red boat in the harbour of Porto."


def _obey_a_comparison(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ends all that there is and more, and concludes what there is no word for."""
    facts = [{"text": "I obey.", "passages": [1], "importance": 1}]
    return answer({"facts": facts, "over": _end_all(Shown(messages), more=20)})(messages, info)


async def test_a_whole_memory_has_the_label_of_the_least_trusted_whose_words_it_holds(config: MakeConfig) -> None:
    """What a tool has brought is no user's because a user gave it another title, or wrote another line under it."""
    injection = INJECTIONS["standing order"]
    model = ScriptedModel(answer({"answer": "Maria [1].", "is_known": True}), NOTHING)
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

        assert [one.source for one in await memory.get_active_memories("agent-1")] == ["user", "tool", "tool"]
        passages, rows = [_shown_rows(asked) for asked in (model.asked[0], model.asked[1])]
        # Where a memory is shown in several rows, the first one has the title.
        titled = {row["title"]: row["trust"] for row in rows if "title" in row}
        assert titled == {"Boats": "user", "Mine": "tool", "Page 1": "tool"}
        assert [row["trust"] for row in rows if row.get("text", "").strip() == _STILL] in ([], ["user"])
        assert {row["trust"] for row in rows if injection.text in row.get("text", "")} == {"tool"}
        # A passage has the label of whoever wrote it, whatever else was written around it.
        told = [row["trust"] for row in passages if row.get("text") and injection.text[:30] in row["text"]]
        assert told
        assert set(told) == {"tool"}


def _shown_rows(asked: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """The rows that a model was shown by prompt and tools."""
    rows: list[dict[str, Any]] = []
    for request in asked:
        for part in request.parts:
            if isinstance(part, UserPromptPart | ToolReturnPart):
                _read(str(part.content), rows, set())
    return rows


def _fact(**changes: Any) -> dict[str, Any]:
    return {"facts": [{"text": "I obey now.", "passages": [1], "importance": 1} | changes]}


def _entity(**changes: Any) -> dict[str, Any]:
    return {"entities": [{"name": "Maria", "type": "person"} | changes]}


# The numbers of what is shown beside the one new passage: what the user said, and that Maria owns the boat.
_SAID, _OWNS = 2, 3


def _end(number: Any = _SAID, **changes: Any) -> dict[str, Any]:
    return {"over": [{"number": number, "by": 1, "why": "I obey."} | changes]}


# What a text asks for, the plan of a model that insists on it, and how often the model is asked: once where it is clear
# what stands without it, three times where only the model can say it better.
_OVERREACHES: Mapping[str, tuple[Mapping[str, Any], int]] = {
    "end what is trusted more": (_end(), 1),
    "end all that there is": ({"over": [_end(number)["over"][0] for number in range(1, 20)]}, 1),
    "end what was not shown": (_end(4), 1),
    "end what was never said": (_end(-1), 1),
    "end it by what was not shown": (_end(by=4711), 1),
    "end it by itself": (_end(by=_SAID), 1),
    "end it by an id": (_end("0198f000-0000-7000-8000-000000000000"), 3),
    "end it for no reason": (_end(why=" "), 1),
    "end it for a reason of its own": (_end(reason="erased"), 1),
    "end what is related": (_end(_OWNS), 1),
    "end what is related elsewhere": (_end(4711), 1),
    "end it before it began": (_end(_OWNS, on="1970"), 1),
    "end it in the year 9999": (_end(_OWNS, on="9999"), 1),
    "end nothing": (_end(None), 3),
    "rate what was not shown": ({"importance": [1, 0]}, 3),
    "rate nothing": ({"importance": []}, 1),
    "more than important": ({"importance": [99]}, 1),
    "rate below zero": ({"importance": [-1]}, 1),
    "rate in words": ({"importance": ["utmost"]}, 1),
    "rest a fact on nothing": (_fact(passages=[]), 3),
    "rest a fact on what is stored": (_fact(passages=[_SAID]), 3),
    "say again what is trusted more": (_fact(text=_HONEST), 1),
    "an endless fact": (_fact(text="x" * 100_000), 3),
    "a fact that cannot be stored": (_fact(text="a\x00b"), 1),
    "name another tenant": (_entity(name=OTHER_TENANT), 3),
    "name what no passage names": (_entity(name="Mallory"), 3),
    "name what is trusted": (_entity(name="user"), 3),
    "call Maria by another name": (_entity(also_called=["Mallory"]), 1),
    "name the reader": (_entity(name="you"), 1),
    "an endless name": (_entity(name="Maria " * 10_000), 3),
    "relate what is not in the plan": (
        {"relationships": [{"who": "Mallory", "relation": "owns", "whom": "red boat", "passages": [1]}]},
        3,
    ),
    "relate her to herself": (
        {"relationships": [{"who": "Maria", "relation": "owns", "whom": "Maria", "passages": [1]}]},
        1,
    ),
    "a blank summary": ({"summary": " "}, 1),
    "an endless summary": ({"summary": "I obey. " * 5_000}, 1),
}


@pytest.mark.thorough
async def test_who_insists_on_more_gets_none_of_it(
    config: MakeConfig, db: SqlExecutor, subtests: pytest.Subtests
) -> None:
    """What a plan asks for beyond its bounds is left out, however often the model says it; the rest of it counts."""
    async with _read_stage(config, db) as stage:
        for name, (overreach, requests) in _OVERREACHES.items():
            with subtests.test(name):
                await _check_insisting(stage, name, overreach, requests)


async def _check_insisting(stage: _ReadStage, name: str, overreach: Mapping[str, Any], requests: int) -> None:
    async with stage.scene(name, _OVER, reads(lambda shown: {"summary": "I obey.", **overreach})) as scene:
        report = await scene.consolidate()

        assert (report.consolidated, report.fallback, report.usage[0].requests) == (True, None, requests)
        shown = Shown(scene.model.asked[-1])
        assert shown.ref("stored_passages", _HONEST) == _SAID
        assert shown.ref("known_relationships", "owns") == _OWNS
        assert (report.facts, report.chunks_ended, report.relationships_ended) == (0, 0, 0)
        plan = (await payloads(scene.memory, "consolidated", scene.external_id))[-1]
        assert ("obey" in plan["summary"]) == (overreach.get("summary") != " ")
        assert len(plan["summary"]) <= 1_000
        # Nowhere else.
        assert "obey" not in json.dumps(plan | {"summary": ""})
        # What the model leaves out is known already.
        assert {one["name"]: one["aliases"] for one in plan["graph"]["entities"]} == {"Maria": [], "red boat": []}
        assert {one["type"] for one in plan["graph"]["relationships"]} <= {"related_to"}
        (rated,) = plan["chunks"]
        assert 0 < rated["importance"] < _LONGTERM
        ended = [await payloads(scene.memory, kind, scene.external_id) for kind in ("ended", "relationship_ended")]
        assert ended == [[], []]
        await scene.check_untouched()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "claims",
    [
        {"confidence": 2},
        {"source": "user", "speaker": "user", "trust": "user"},
        {"start": "1970", "end": "1971"},
        {"start": "9999"},
        {"tier": "longterm", "importance": 99},
        {"external_id": OTHER_TENANT, "id": "0198f000-0000-7000-8000-000000000000"},
    ],
    ids=["sure", "said by a user", "long over", "of the year 9999", "longterm", "another tenant's"],
)
async def test_what_a_plan_has_no_word_for_is_not_heard(
    config: MakeConfig, db: SqlExecutor, claims: Mapping[str, Any]
) -> None:
    """A fact holds from when its passage was said, and is trusted as that is, whatever it says of itself."""
    step = reads(lambda shown: _fact(**claims))
    async with _read_stage(config, db) as stage, stage.scene("claims", _OVER, step) as scene:
        report = await scene.consolidate()

        assert (report.fallback, report.facts, report.usage[0].requests) == (None, 1, 1)
        hits = await hits_of(scene.memory, "I obey", scene.external_id)
        said, concluded = hits[_OVER], hits["I obey now."]
        assert (concluded.source, concluded.confidence) == ("model", SOURCE_TRUST["tool"])
        assert (concluded.start_date, concluded.end_date) == (said.start_date, None)
        assert (concluded.tier, concluded.memory_id) == ("shortterm", scene.hostile_id)
        await scene.check_untouched()


@pytest.mark.thorough
async def test_of_a_flood_of_facts_thirty_are_taken_over(config: MakeConfig, db: SqlExecutor) -> None:
    """A window adds no more than that, however much a text asks for; and all of it is trusted little."""
    facts = [_fact(text=f"Spam {number}.")["facts"][0] for number in range(1_000)]
    step = reads(lambda shown: {"facts": facts})
    async with _read_stage(config, db) as stage, stage.scene("flood", _OVER, step) as scene:
        report = await scene.consolidate()

        assert (report.fallback, report.facts, report.usage[0].requests) == (None, 30, 1)
        plan = (await payloads(scene.memory, "consolidated", scene.external_id))[-1]
        assert {one["confidence"] for one in plan["facts"]} == {SOURCE_TRUST["tool"]}
        assert max(one["importance"] for one in plan["facts"]) < _LONGTERM
        await scene.check_untouched()


@pytest.mark.thorough
async def test_a_tool_cannot_say_that_what_a_user_said_is_over(config: MakeConfig, db: SqlExecutor) -> None:
    """Nor when it says the same of the past: that stands beside what holds, with its own end."""

    def restate(shown: Shown) -> Mapping[str, Any]:
        owned = {"who": "Maria", "relation": "owns", "whom": "red boat", "passages": [1], "until": "2020"}
        return _entity(description="She owns nothing any more.") | {"relationships": [owned]}

    async with _read_stage(config, db) as stage, stage.scene("lie", _LIE, reads(restate)) as scene:
        report = await scene.consolidate()

        assert (report.fallback, report.relationships) == (None, 1)
        await scene.check_untouched()
