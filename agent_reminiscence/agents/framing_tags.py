"""The tags that frame memory in what models read.

All are registered when the first of them is used. A tag that is registered later, after a text was framed, would change
how the same text is escaped, and Pydantic AI warns of it.
"""

from __future__ import annotations

from typing import Final

from pydantic_ai.framing import register_tag

# In what any agent of Pydantic AI is shown.
RECALLED_MEMORY: Final = register_tag("recalled_memory")

# In what a ReAct agent is shown.
CONVERSATION: Final = register_tag("conversation_memory")
EARLIER: Final = register_tag("earlier_steps")
EPISODES: Final = register_tag("past_episodes")
FACTS: Final = register_tag("long_term_facts")
LESSONS: Final = register_tag("lessons")
SHARED: Final = register_tag("shared_memory")

# In what the models read that learn from its runs.
KNOWN: Final = register_tag("known_facts")
SHOWN_LESSONS: Final = register_tag("shown_lessons")
TRANSCRIPT: Final = register_tag("transcript")
