"""Memories that a ReAct agent reads beside its user's, such as the team's. They are never written."""

from __future__ import annotations

from agent_reminiscence.beside import retrieve_shared, shared_ids
from agent_reminiscence.core import AgentMem
from agent_reminiscence.domain.retrieval import RetrievalResult
from agent_reminiscence.react.config import ReactMemConfig
from agent_reminiscence.react.limits import MAX_QUESTION_CHARACTERS
from agent_reminiscence.react.scope import Scope

# Of the budget for all that is recalled at the start; also what the tool shows at once.
_SHARE = 0.25


class SharedMemories:
    """Finds passages of shared memories.

    Their passages are quoted, and have no numbers: what a model names to be replaced or forgotten is always the user's.
    """

    def __init__(self, memory: AgentMem, config: ReactMemConfig, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._shared = config.shared
        self._token_budget = int(config.memory_token_budget * _SHARE)

    @property
    def are_there(self) -> bool:
        """Whether any memory is shared."""
        return bool(self._shared)

    def beside(self, external_id: str) -> tuple[str, ...]:
        """The shared memories without that of the user, which is read anyway."""
        return shared_ids(self._shared, external_id)

    async def retrieve(self, user: str, collection: str, query: str, *, is_asked: bool) -> RetrievalResult | None:
        """Ask the shared memories a question; None if nothing is shared with this user.

        Args:
            is_asked: Whether the model asks: then weak matches are returned, too.

        Raises:
            ExternalIdNotFoundError: Nothing was ever stored for one of them.
            StoreError: The store is unavailable.
        """
        own = self._scope(user, collection)
        if not self.beside(own):
            return None
        return await retrieve_shared(
            self._memory,
            own,
            self._shared,
            query[:MAX_QUESTION_CHARACTERS],
            token_budget=self._token_budget,
            min_match=None if is_asked else "found",
            synthesis=False,
        )
