"""Pydantic AI."""
from agent_reminiscence.integrations.pydantic_ai_release import require_release
require_release()
from agent_reminiscence.integrations.pydantic_ai_conversations import ReminiscenceConversations
