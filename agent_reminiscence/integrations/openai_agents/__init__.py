"""The OpenAI Agents SDK: sessions in the ledger, recall before a model call, and tools of a memory.

    session = ReminiscenceSession(memory, "user-1", "chat-7")
    config = RunConfig(call_model_input_filter=recall_filter(memory, "user-1"))
    result = await Runner.run(agent, "What was my plan?", session=session, run_config=config)

Importing this does not import the SDK; making any of these does, and needs the extra `openai-agents`.
"""

from agent_reminiscence.integrations.openai_agents.recall import memory_tools, recall_filter
from agent_reminiscence.integrations.openai_agents.session import ReminiscenceSession

__all__ = ["ReminiscenceSession", "memory_tools", "recall_filter"]
