# Written by scripts/write_sync.py from the asynchronous classes: `make sync` writes it anew.
"""The blocking twin of `agent_reminiscence.services.reflection.reflection.Reflections`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from agent_reminiscence.domain.reflecting import ReflectionReport
from agent_reminiscence.sync.lifecycle import Twin
from agent_reminiscence.views.manifest import AgentManifest
from agent_reminiscence.views.visibility import Visibility

if TYPE_CHECKING:
    from agent_reminiscence.services.reflection.reflection import Reflections as AsyncReflections


class Reflections(Twin):
    """`memory.admin.reflections`: what agents that share a ledger conclude from what they have seen.

    Args:
        model: Writes the beliefs; None if none is configured.
    """

    _wrapped: AsyncReflections

    def run(
        self,
        external_id: str | int | UUID,
        agent: AgentManifest | str,
        *,
        threshold: int | None = None,
        visibility: Visibility | None = None,
        force: bool = False,
        public: bool | None = None,
    ) -> ReflectionReport:
        """Have a model write an agent's reflection, if one is due.

        One is due when the agent has seen `threshold` events, not only reflections, since its last reflection, or since
        a model was last asked for one in vain. If none is due, this is one short read: call it every turn. The model is
        shown only what the agent sees: the last events since its last reflection, its current beliefs, and those of
        others. Each belief that it writes, up to three, becomes an `agent.reflected` event of the agent with the trust
        label `model`, in the turn of the last event that the agent has seen.

        Args:
            agent: Its manifest, or the `actor` of its own events.
            threshold: So many seen events make a reflection due; None is the manifest's `memory.reflection_threshold`,
                and if that is unset too, none ever is.
            visibility: What agents see of this ledger; None is the default.
            force: Ask the model even if none is due, provided that the agent has seen something since its last
                reflection.
            public: Whether all agents may read the belief; None is the manifest's `memory.public_beliefs`, and False
                for a name. Otherwise those may who see everything that the model is shown. The model is told which.

        Returns:
            What came of it. However many processes call this at once, the beliefs of one answer are written.

        Raises:
            InvalidInputError: An argument is invalid, or there is neither a threshold nor a manifest.
            ConfigurationError: No model is configured (`reflector_agent_model`).
            RedactionError: Your redactor failed; no reflection is written.
            AgentError: The model gave no usable answer, or the day's tokens are used up. No reflection is written; call
                again later.
            StoreError: The store is unavailable.
        """
        return self._thread.call(
            lambda: self._wrapped.run(
                external_id, agent, threshold=threshold, visibility=visibility, force=force, public=public
            )
        )

    def is_due(
        self,
        external_id: str | int | UUID,
        agent: AgentManifest | str,
        *,
        threshold: int | None = None,
        visibility: Visibility | None = None,
    ) -> bool:
        """Whether a reflection of the agent is due, read from the ledger; it needs no model.

        For agents that write their reflections themselves, where no `ReflectionTracker` follows the ledger.

        Args:
            agent: As in `run`, like all other arguments.

        Raises:
            InvalidInputError: An argument is invalid, or there is neither a threshold nor a manifest.
            StoreError: The store is unavailable.
        """
        return self._thread.call(
            lambda: self._wrapped.is_due(external_id, agent, threshold=threshold, visibility=visibility)
        )
