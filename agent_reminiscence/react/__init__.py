"""A ReAct agent that can be given a memory: facts, episodes, conversations and working memory.

async with ReactMemService("openai:gpt-5-mini", memory, toolsets=[tools]) as agent:
    request = AgentRequest(question="What did I ask you first?", user="ana", conversation_id="c-1", enable_memory=True)
    print((await agent.answer(request)).answer)
"""

from agent_reminiscence.config.pydantic_ai_release import require_release

# Before anything needs it, so that the error says what to install.
require_release(__name__)
# ruff: noqa: E402

from agent_reminiscence.react.config import AgentConfig, ReactMemConfig, read_sections
from agent_reminiscence.react.conversations import MemoryConversations
from agent_reminiscence.react.ending import ConversationEnd, Ending, find_ending
from agent_reminiscence.react.episodes import MemoryEpisodes
from agent_reminiscence.react.facts import MemoryFacts
from agent_reminiscence.react.lifecycle import CollectionUsage, Lifecycle, MaintenanceReport
from agent_reminiscence.react.manager import ReactAgentManager
from agent_reminiscence.react.mem_manager import ReactMemAgentManager
from agent_reminiscence.react.mem_service import ReactMemService
from agent_reminiscence.react.memory_services import MemoryServices
from agent_reminiscence.react.models import (
    AgentFailure,
    AgentRequest,
    AgentResponse,
    AgentStep,
    AgentUsage,
    ConversationMemory,
    Episode,
    Fact,
    ForgetRequest,
    InvocationSummary,
    RecalledMemory,
    WorkingMemoryItem,
)
from agent_reminiscence.react.numbering import lesson_id_of
from agent_reminiscence.react.permission import Permission
from agent_reminiscence.react.prompts import ReactPrompts
from agent_reminiscence.react.protocols import (
    AgentService,
    ConversationMemoryService,
    EpisodeRetrieval,
    EpisodeStorage,
    FactRetrieval,
    FactStorage,
    LessonCorrection,
)
from agent_reminiscence.react.recording import NotRecordedError
from agent_reminiscence.react.scope import default_scope
from agent_reminiscence.react.service import ReactService
from agent_reminiscence.react.service_models import (
    ConversationOutline,
    DeleteConversationRequest,
    DeleteEpisodeRequest,
    DeleteFactRequest,
    DeleteResponse,
    EndLessonsRequest,
    EndLessonsResponse,
    GetConversationMemoryRequest,
    GetConversationMemoryResponse,
    ListConversationsRequest,
    ListConversationsResponse,
    RecordUseRequest,
    RecordUseResponse,
    RetrieveEpisodesRequest,
    RetrieveEpisodesResponse,
    RetrieveFactsRequest,
    RetrieveFactsResponse,
    StoreEpisodeRequest,
    StoreEpisodeResponse,
    StoreFactRequest,
    StoreFactResponse,
    UpdateConversationMemoryRequest,
    UpdateConversationMemoryResponse,
)
from agent_reminiscence.react.switching import create_agent_service, create_lifecycle
from agent_reminiscence.react.toolbox import RunDeps
from agent_reminiscence.react.working_memory import WorkingMemory

__all__ = [
    "AgentConfig",
    "AgentFailure",
    "AgentRequest",
    "AgentResponse",
    "AgentService",
    "AgentStep",
    "AgentUsage",
    "CollectionUsage",
    "ConversationEnd",
    "ConversationMemory",
    "ConversationMemoryService",
    "ConversationOutline",
    "DeleteConversationRequest",
    "DeleteEpisodeRequest",
    "DeleteFactRequest",
    "DeleteResponse",
    "EndLessonsRequest",
    "EndLessonsResponse",
    "Ending",
    "Episode",
    "EpisodeRetrieval",
    "EpisodeStorage",
    "Fact",
    "FactRetrieval",
    "FactStorage",
    "ForgetRequest",
    "GetConversationMemoryRequest",
    "GetConversationMemoryResponse",
    "InvocationSummary",
    "LessonCorrection",
    "Lifecycle",
    "ListConversationsRequest",
    "ListConversationsResponse",
    "MaintenanceReport",
    "MemoryConversations",
    "MemoryEpisodes",
    "MemoryFacts",
    "MemoryServices",
    "NotRecordedError",
    "Permission",
    "ReactAgentManager",
    "ReactMemAgentManager",
    "ReactMemConfig",
    "ReactMemService",
    "ReactPrompts",
    "ReactService",
    "RecalledMemory",
    "RecordUseRequest",
    "RecordUseResponse",
    "RetrieveEpisodesRequest",
    "RetrieveEpisodesResponse",
    "RetrieveFactsRequest",
    "RetrieveFactsResponse",
    "RunDeps",
    "StoreEpisodeRequest",
    "StoreEpisodeResponse",
    "StoreFactRequest",
    "StoreFactResponse",
    "UpdateConversationMemoryRequest",
    "UpdateConversationMemoryResponse",
    "WorkingMemory",
    "WorkingMemoryItem",
    "create_agent_service",
    "create_lifecycle",
    "default_scope",
    "find_ending",
    "lesson_id_of",
    "read_sections",
]
