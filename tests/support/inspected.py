"""A memory with something of everything that the inspector shows, told by its public calls alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from agent_reminiscence import AgentMem, Turn
from agent_reminiscence.views import reflection_payload

MILL: Final = "mill"
EMPTY: Final = "nobody-yet"
HOSTILE: Final = 'eve <script>alert(1)</script> & "co"\''
ATTACK: Final = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'`{{7*7}}</textarea></title>"
LONG: Final = "W" * 10_000
"""Without a place to break."""
RTL: Final = "\u202egnp.\u2066exe\u2067"
"""Marks that turn the direction of whatever follows, and are never closed."""


def day(month: int, number: int, hour: int = 10) -> datetime:
    """A day of the story."""
    return datetime(2025, month, number, hour, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Told:
    """Where the story's parts are.

    Attributes:
        plan: A memory with six versions, consolidated.
        note: One that is only short.
        archived: One that is archived.
        talk: A conversation of several turns, by people and by tools.
    """

    plan: UUID
    note: UUID
    archived: UUID
    talk: UUID


_SESSIONS: Final = (
    (
        "First walk through the tower",
        day(3, 4),
        """\
Ines: The lantern room leaks on the north side, right above the old clockwork.
Tomas: I counted eleven cracked panes. The glazier in Port Ellory can cut them, but he needs three weeks.
Ines: Then order them now. What about the stairs?
Tomas: Steps 41 to 58 are rusted through. Nobody goes above the second landing until they are replaced.
Ines: Agreed. I would also like to keep the brass fog bell; my grandmother polished it every Sunday.
Tomas: We keep it. It only needs a new clapper rope.
""",
    ),
    (
        "Money and paint",
        day(4, 15),
        """\
Tomas: The heritage fund approved 48,000 euros, a little less than we asked for.
Ines: Enough for the stairs and the glass. What does it mean for the paint?
Tomas: Two coats instead of three. The harbour office insists on the red band, so we start with that.
Ines: Marlow offered to lend us his scaffolding until the end of June.
Tomas: Good, that saves us 2,300 euros. I will call Marlow tonight.
""",
    ),
    (
        "Glass, guests and gulls",
        day(5, 20),
        """\
Ines: All eleven panes are in, and the lantern room was dry during the storm on Sunday.
Tomas: And the stairs passed inspection, so guests may go up in groups of six.
Ines: A pair of herring gulls nests on the gallery. The warden says we must not disturb them before August.
Tomas: Then the gallery stays closed, and we show the view from the lantern room.
""",
    ),
)
_HEAD: Final = "The lighthouse at Cape Wrenfield opens to guests with a concert by the Ellory Brass Quintet."
_OLD: Final = "Opening day is Saturday, June 14."
_NEW: Final = "Opening day is Saturday, June 28, because the paint has to dry."
_REST: Final = (
    "The ferry Annika brings visitors from Port Ellory every hour.",
    "Ines bakes saffron buns; the harbour office pays for the coffee.",
    "Guests climb the tower in groups of six.",
    "If it rains, the Ellory Brass Quintet plays in the boathouse.",
)
_PEOPLE: Final = (
    "Ines Halvorsen keeps the lighthouse at Cape Wrenfield with Tomas Reyes.",
    "Tomas Reyes hired the glazier Brandt and Sons in Port Ellory.",
    "Ines Halvorsen knows Captain Marlow, who owns the scaffolding and the ferry Annika.",
    "The Ellory Brass Quintet rehearses in Port Ellory with Petra Lindgren.",
    "Petra Lindgren works for the Heritage Fund and knows Tomas Reyes.",
    "Captain Marlow sails the Annika from Port Ellory to Cape Wrenfield.",
    "The Harbour Office of Port Ellory pays Petra Lindgren for the concert.",
)


async def tell(memory: AgentMem, tenant: str = MILL) -> Told:
    """Tell the story of a lighthouse: memories, versions, a graph, agents, runs and a profile."""
    for title, held_at, text in _SESSIONS:
        await memory.create_active_memory(tenant, title, text, occurred_at=held_at, actor="keeper", language="en")
    plan = await memory.create_active_memory(
        tenant,
        "Opening of the lighthouse",
        _text(_HEAD, _OLD),
        key="plans/opening",
        description="The plan of the opening day.",
        metadata={"project": "lighthouse", "year": 2025},
        occurred_at=day(4, 16),
        actor="keeper",
        language="en",
    )
    for number in range(1, 5):
        plan = await memory.update_active_memory(
            tenant,
            plan.id,
            content=_text(_HEAD, _OLD, *_REST[:number]),
            occurred_at=day(4, 20 + number),
            actor="keeper",
        )
    plan = await memory.update_active_memory(
        tenant, plan.id, content=_text(_HEAD, _NEW, *_REST), occurred_at=day(5, 30), actor="keeper"
    )
    talk = memory.conversation(tenant, "chat-7", title="About the ferry", actor="desk")
    await talk.add_turns(
        [
            Turn(text="Does the ferry Annika run in winter?", speaker="user", time=day(6, 1, 9)),
            Turn(text="I will look it up.", speaker="assistant", time=day(6, 1, 9)),
            Turn(text="Timetable: the Annika runs from April to October.", speaker="tool", time=day(6, 1, 9)),
            Turn(text="No, only from April to October.", speaker="assistant", time=day(6, 1, 10)),
        ]
    )
    note = await memory.create_active_memory(
        tenant, "Found by a model", "Guests probably prefer the morning ferry.", source="model", actor="analyst",
        occurred_at=day(6, 2), language="en",
    )  # fmt: skip
    await memory.create_active_memory(
        tenant, "Who is who", _text(*_PEOPLE), occurred_at=day(2, 20), actor="keeper", language="en"
    )
    archived = await memory.create_active_memory(
        tenant, "An old shopping list", "Rope, red paint, eleven panes.", occurred_at=day(3, 1), language="en"
    )
    await memory.admin.archive(tenant, archived.id, actor="keeper", occurred_at=day(5, 1))
    await memory.admin.consolidate(tenant)
    await memory.admin.profiles.define(tenant, "opening", "What is planned for the opening?", actor="keeper")
    await memory.admin.run_due(tenant)
    await _agents(memory, tenant)
    await _runs(memory, tenant)
    listed = await memory.get_active_memories(tenant)
    return Told(plan.id, note.id, archived.id, next(one.id for one in listed if one.title == "About the ferry"))


async def _agents(memory: AgentMem, tenant: str) -> None:
    """Two agents that share the ledger: what they say, see and believe."""
    tale = [
        ("mara", "agent.spoke", "The brass key lies under the mill wheel."),
        ("odo", "agent.thought", "I hope nobody finds my key."),
        (None, "world.observed", "A stranger asks about a key at the gate."),
        ("mara", "agent.spoke", "I ground the last sack of rye."),
    ]
    events = [
        await memory.ledger.append(tenant, kind, {"text": text}, actor=actor, turn=turn, conversation_id="village")
        for turn, (actor, kind, text) in enumerate(tale)
    ]
    payload = reflection_payload("mara", "Somebody has lost a key.", [events[0].event_id, events[2].event_id], events)
    await memory.ledger.append(tenant, "agent.reflected", payload, actor="mara", turn=4, conversation_id="village")


async def _runs(memory: AgentMem, tenant: str) -> None:
    """An invocation of a ReAct agent as it records it, and a run that recalled."""
    finished = await memory.ledger.append(tenant, "react.invocation.finished", invocation(), conversation_id="trip-1")
    learned: dict[str, Any] = {
        "finished": str(finished.event_id),
        "facts": ["The visitor wants to see the lighthouse on the opening day."],
        "success": True,
        "outcome": "The visitor knows when to come.",
        "lessons": ["Look at the plan before the timetable."],
    }
    await memory.ledger.append(tenant, "react.invocation.learned", learned, conversation_id="trip-1", source="model")
    await memory.ledger.append(
        tenant, "react.invocation.recorded", {"finished": str(finished.event_id)}, conversation_id="trip-1"
    )
    failed = invocation() | {
        "invocation_id": "inv-2",
        "question": "Book me a berth.",
        "answer": "",
        "failure": {"reason": "iteration_limit", "message": "no answer after 8 steps"},
    }
    await memory.ledger.append(tenant, "react.invocation.finished", failed, conversation_id="trip-2")
    await memory.retrieve_memories(tenant, "When is opening day?", run_id="run-1", limit=3)
    await memory.admin.report_outcome(tenant, "run-1", success=True, note="The visitor came on the right day.")


def invocation() -> dict[str, Any]:
    """The payload of an invocation."""
    steps = [
        {
            "thought": "The plan says when it opens.",
            "action": "retrieve_facts",
            "arguments": {"query": "opening day"},
            "observation": "Opening day is Saturday, June 28.",
        },
        {
            "thought": "And the ferry?",
            "action": "timetable",
            "arguments": {"ship": "Annika", "day": "2025-06-28"},
            "observation": "Every hour from 9:00 to 18:00.",
        },
    ]
    return {
        "invocation_id": "inv-1",
        "attempt": "1",
        "user": "visitor",
        "collection": "default",
        "conversation_id": "trip-1",
        "question": "When does the lighthouse open, and how do I get there?",
        "state": "planning a trip",
        "steps": steps,
        "new_steps": 2,
        "answer": "On Saturday, June 28. The ferry Annika goes every hour.",
        "failure": None,
        "recalled": ["plans/opening"],
    }


async def attack(memory: AgentMem, tenant: str = HOSTILE) -> UUID:
    """Put HTML and scripts into every field that takes a text; returns the memory."""
    kept = await memory.create_active_memory(
        tenant,
        f"Title {ATTACK}",
        f"{ATTACK}: Sophie Baker lives in Graz.\n\nAnna Miller knows Sophie Baker.\n\n{ATTACK}",
        description=ATTACK,
        metadata={ATTACK: ATTACK},
        key=f"key {ATTACK}",
        actor=ATTACK,
        conversation_id=ATTACK,
        occurred_at=day(1, 1),
        language="en",
    )
    await memory.update_active_memory(
        tenant, kept.id, title=f"Newer {ATTACK}",
        content=f"{ATTACK} Sophie Baker moved to Linz. {ATTACK}\n\nAnna Miller knows Sophie Baker.",
        occurred_at=day(1, 1) + timedelta(days=1), actor=ATTACK,
    )  # fmt: skip
    talk = memory.conversation(tenant, f"talk {ATTACK}", title=ATTACK, actor=ATTACK)
    await talk.add_turns([Turn(text=f"{ATTACK} said Anna Miller.", speaker="user", time=day(1, 3))])
    gone = await memory.create_active_memory(tenant, ATTACK, f"Archived {ATTACK}", actor=ATTACK, language="en")
    await memory.admin.archive(tenant, gone.id, actor=ATTACK)
    await memory.admin.consolidate(tenant)
    await memory.admin.profiles.define(tenant, ATTACK, ATTACK, actor=ATTACK)
    await memory.admin.run_due(tenant)
    first = await memory.ledger.append(
        tenant, "agent.spoke", {"text": ATTACK, ATTACK: ATTACK}, actor=ATTACK, conversation_id=ATTACK, turn=1
    )
    payload = reflection_payload(ATTACK, f"Believes {ATTACK}", [first.event_id], [first])
    await memory.ledger.append(tenant, "agent.reflected", payload, actor=ATTACK, turn=2)
    hostile = {name: ATTACK if isinstance(value, str) else value for name, value in invocation().items()} | {
        "steps": [{"thought": ATTACK, "action": ATTACK, "arguments": {ATTACK: ATTACK}, "observation": ATTACK}]
    }
    await memory.ledger.append(tenant, "react.invocation.finished", hostile, conversation_id=ATTACK)
    # Somebody may append whatever they like under these kinds.
    await memory.ledger.append(tenant, "react.invocation.finished", {"steps": ATTACK})
    await memory.ledger.append(tenant, "agent.reflected", {"belief": 7, "based_on": ATTACK}, actor=ATTACK)
    await memory.retrieve_memories(tenant, "Where does Sophie Baker live?", run_id=ATTACK)
    await memory.admin.report_outcome(tenant, ATTACK, success=False, note=ATTACK)
    await memory.admin.erase(tenant, memory_id=gone.id, actor=ATTACK)
    return kept.id


@dataclass(frozen=True, slots=True)
class Overlong:
    """What `overdo` has written.

    Attributes:
        names: Of entities, all related to the first.
        positions: Of events whose every field is too much.
        run: The position of an invocation.
    """

    memory: UUID
    names: tuple[str, ...]
    actor: str
    positions: tuple[int, ...]
    run: int


async def overdo(memory: AgentMem, tenant: str) -> Overlong:
    """Put the longest texts without a space, marks that turn the direction, and addresses that run into every name."""
    names = (f"Sophie Baker {RTL}", f"javascript:taken=true//{RTL}", f"{ATTACK}{RTL}", LONG[:500])
    name = f"{RTL}{LONG[:240]}"
    kept = await memory.create_active_memory(
        tenant, LONG[:500], f"{LONG} {names[0]} and Graz", description=LONG, metadata={LONG: LONG, RTL: [RTL, LONG]},
        key=name, actor=name, conversation_id=name, language="en",
    )  # fmt: skip
    await memory.update_active_memory(tenant, kept.id, content=f"{RTL} {LONG}{LONG} {names[0]} and Linz", actor=name)
    await memory.admin.consolidate(tenant, kept.id)
    for other in names[1:]:
        await memory.admin.graph.state_relationship(
            tenant, names[0], LONG[:100], other, memory_id=kept.id, description=LONG, actor=name
        )
    await memory.admin.graph.state_entity(
        tenant, names[0], memory_id=kept.id, description=f"{RTL}{LONG[:9_000]}", actor=name
    )
    said = await memory.ledger.append(
        tenant,
        f"agent.{LONG[:240].lower()}",
        {"text": f"{RTL}{LONG}", LONG: LONG},
        actor=name,
        conversation_id=name,
        turn=7,
    )
    await memory.ledger.append(
        tenant, "agent.reflected", reflection_payload(name, f"{RTL}{LONG}", [said.event_id], [said]), actor=name, turn=8
    )
    run = await memory.ledger.append(
        tenant,
        "react.invocation.finished",
        {key: f"{RTL}{LONG}" if isinstance(value, str) else value for key, value in invocation().items()}
        | {"steps": [{"thought": LONG, "action": LONG, "arguments": {LONG: RTL}, "observation": LONG}]}
        | {"recalled": [name[:100]]},
        conversation_id=name,
    )
    await memory.retrieve_memories(tenant, LONG, run_id=name)
    await memory.admin.report_outcome(tenant, name, success=False, note=LONG[:2000], actor=name)
    await memory.admin.profiles.define(tenant, name, LONG, actor=name)
    head = await memory.ledger.head(tenant)
    return Overlong(kept.id, names, name, (said.position, head), run.position)


def _text(*passages: str) -> str:
    return "".join(f"{passage}\n\n" for passage in passages)
