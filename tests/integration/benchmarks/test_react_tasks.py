"""Six tasks of an agent with memory: no change may make them take more, or come out wrong.

Whoever makes them take less lowers the figures here. The model is a script that uses what it is shown and nothing else.
"""

from __future__ import annotations

import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.react import MemoryEpisodes, RetrieveEpisodesRequest
from benchmarks import react_tasks
from benchmarks.react_tasks import Figures

# Of each task, the first and the second time: requests, and hundreds of tokens that the agent reads for its answer.
_MOST = {
    "delivery price, in one of four notes": ((5, 74), (2, 34)),
    "deploy, by one rule of a README": ((6, 138), (2, 33)),
    "two invoices, after a wrong lesson": ((3, 50), (4, 69)),
    "moved to sales on Monday": ((1, 18), (1, 17)),
    "cake, with an allergy that is not named": ((3, 50), (3, 50)),
    "small talk": ((2, 35), (2, 35)),
}
