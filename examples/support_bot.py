"""A support bot with Pydantic AI: it remembers what a customer said last week, and keeps the conversation.

Run it with `python examples/support_bot.py`. It plays both sides with a scripted model; with a real one, pass its name,
such as "openai:gpt-5-mini", to `Agent`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pydantic_ai import Agent, RunContext
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.pydantic_ai import Reminiscence, ReminiscenceConversations


@dataclass
class Customer:
    """Who is signed in."""

    id: str


def customer_of(ctx: RunContext[Customer]) -> str:
    """Whose memory a run sees. The model has no say in it."""
    return ctx.deps.id


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a language model: it knows the kettle if a message mentions it."""
    knows = "X-200" in str(messages)
    return ModelResponse([TextPart("Then your X-200 needs a new seal." if knows else "Which kettle do you have?")])


async def main() -> None:
    """Two conversations with one customer, and one with another."""
    async with AgentMem() as memory:
        agent = Agent(
            FunctionModel(script),
            deps_type=Customer,
            instructions="You help customers of a shop for kettles.",
            capabilities=[Reminiscence(memory, external_id=customer_of, token_budget=600)],
        )

        async def chat(customer: str, conversation_id: str, *questions: str) -> None:
            """Ask questions in a conversation that may go on tomorrow, in another process."""
            store = ReminiscenceConversations(memory, customer)
            for question in questions:
                conversation = await store.load(conversation_id) or Conversation(conversation_id=conversation_id)
                result = await agent.run(question, deps=Customer(customer), conversation=conversation)
                await store.save(result)
                print(f"{customer}: {question}\nbot: {result.output}")

        await chat("example-ida", "monday", "My kettle leaks.", "It is an X-200.")
        await chat("example-ida", "friday", "My kettle leaks again.")
        await chat("example-joe", "friday", "My kettle leaks.")

        # A fresh start for the next run of this script.
        for customer in ("example-ida", "example-joe"):
            await memory.admin.erase(customer)


if __name__ == "__main__":
    asyncio.run(main())
