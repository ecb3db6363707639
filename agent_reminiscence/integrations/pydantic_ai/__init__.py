"""Pydantic AI: a capability that gives an agent a memory, and a store of its conversations.

Needs `pydantic-ai-slim` 2.66 or later: the extra `pydantic-ai`.
"""

from agent_reminiscence.integrations.pydantic_ai.release import require_release

require_release()

from agent_reminiscence.integrations.pydantic_ai.capability import GUIDE, Reminiscence  # noqa: E402 - checked first
from agent_reminiscence.integrations.pydantic_ai.conversations import ReminiscenceConversations  # noqa: E402
from agent_reminiscence.integrations.pydantic_ai.messages import ORIGIN, Recalled  # noqa: E402

__all__ = ["GUIDE", "ORIGIN", "Recalled", "Reminiscence", "ReminiscenceConversations"]
