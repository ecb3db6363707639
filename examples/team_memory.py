"""A user's memory beside the team's: an agent reads both, and what it learns is kept in the user's.

Run it with `python examples/team_memory.py`. It plays the model with a script; with a real one, pass its name, such as
"openai:gpt-5-mini", to `Agent`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.pydantic_ai import Reminiscence


@dataclass
class Member:
    """Who is signed in, and which teams your program knows them to be in."""

    id: str
    teams: tuple[str, ...]


def member_of(ctx: RunContext[Member]) -> str:
    """The memory that a run reads and writes."""
    return ctx.deps.id


def teams_of(ctx: RunContext[Member]) -> tuple[str, ...]:
    """The memories that it reads beside that. The model has no say in either."""
    return ctx.deps.teams


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a language model: it answers from what it is shown."""
    shown = str(messages)
    day = "on Thursdays" if "deploy on Thursdays" in shown else "whenever you like"
    return ModelResponse([TextPart(f"Às quintas ({day})." if "in Portuguese" in shown else f"You deploy {day}.")])


async def main() -> None:
    """Ask the same of three people: one has told the agent something, one is new, one is in another team."""
    async with AgentMem() as memory:
        await memory.create_active_memory(
            "example-team-red", "Deploys", "We deploy on Thursdays.", idempotency_key="deploys"
        )
        await memory.create_active_memory(
            "example-team-blue", "Deploys", "We deploy whenever we like.", idempotency_key="deploys"
        )
        agent = Agent(
            FunctionModel(script),
            deps_type=Member,
            capabilities=[Reminiscence(memory, external_id=member_of, shared=teams_of)],
        )
        ana = Member("example-ana", ("example-team-red",))
        await agent.run("Please answer questions about deploys in Portuguese.", deps=ana)

        for member in (
            ana,
            Member("example-ben", ("example-team-red",)),
            Member("example-cleo", ("example-team-blue",)),
        ):
            result = await agent.run("On which day do we deploy?", deps=member)
            print(f"{member.id}: {result.output}")
        print(f"written to the team: {await memory.ledger.head('example-team-red')} event")

        # A fresh start for the next run of this script. What the team knows stays.
        for user in ("example-ana", "example-ben", "example-cleo"):
            await memory.admin.erase(user)


if __name__ == "__main__":
    asyncio.run(main())
