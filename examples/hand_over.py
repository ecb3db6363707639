"""Two agents of the OpenAI Agents SDK: one hands over to the other, which knows what the first one learned.

Run it with `python examples/hand_over.py`. Scripted models stand for real ones, so that it needs no key: with yours,
give each agent `model="gpt-5-mini"`, or any other.
"""

from __future__ import annotations

import asyncio
import sys

try:
    from agents import Agent, RunConfig, Runner, handoff, set_tracing_disabled
    from agents.handoffs import HandoffInputData
    from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
except ModuleNotFoundError:
    sys.exit("This example needs the OpenAI Agents SDK; run `pip install '.[openai-agents]'`")

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.openai_agents import ReminiscenceSession, recall_filter

_TRAVELLER = "example-hand-over"


def only_the_question(data: HandoffInputData) -> HandoffInputData:
    """What the second agent is handed: the newest question, nothing that was said or done before."""
    said = [item for item in data.input_history if isinstance(item, dict) and item.get("role") == "user"]
    return data.clone(input_history=tuple(said[-1:]), pre_handoff_items=(), input_items=())


def guide_answers(call: ModelCall) -> ModelStep:
    """What a model would say that reads what it is shown."""
    shown = "\n".join(str(item["content"]) for item in call.input)
    pier = "the south pier, where there is a ramp" if "cannot climb stairs" in shown else "the north pier"
    return ModelStep(output=[assistant_message(f"Take {pier}.")])


async def main() -> None:
    """Talk to the desk on one day; on another, be handed over to the guide."""
    set_tracing_disabled(True)
    guide = Agent(
        name="Guide",
        handoff_description="Knows the piers.",
        instructions="Say which pier to take: the north pier, with stairs, or the south pier, with a ramp.",
        model=ScriptedModel([ModelStep.respond(guide_answers)]),
    )
    desk = Agent(
        name="Desk",
        instructions="Welcome travellers; hand questions about piers over.",
        model=ScriptedModel(
            [
                [assistant_message("Welcome! I will keep that in mind.")],
                [function_call("transfer_to_guide", {}, call_id="call_1")],
            ]
        ),
        handoffs=[handoff(guide, input_filter=only_the_question)],
    )
    async with AgentMem() as memory:
        config = RunConfig(call_model_input_filter=recall_filter(memory, _TRAVELLER))

        monday = ReminiscenceSession(memory, _TRAVELLER, "monday")
        await monday.clear_session()
        said = "I am Ines. I cannot climb stairs, so tell me about the pier before I book a ferry."
        await Runner.run(desk, said, session=monday, run_config=config)

        tuesday = ReminiscenceSession(memory, _TRAVELLER, "tuesday")
        await tuesday.clear_session()
        result = await Runner.run(desk, "Which pier should I take for the ferry?", session=tuesday, run_config=config)
        print(f"{result.last_agent.name}: {result.final_output}")
        print(f"items of tuesday: {len(await tuesday.get_items())}")


if __name__ == "__main__":
    asyncio.run(main())
