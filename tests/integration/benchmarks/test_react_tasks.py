"""Six tasks of an agent with memory: no change may make them take more, or come out wrong.

The model is a script that uses what it is shown and nothing else, so these are counts. If you make a task take less,
lower the figures here.
"""

from __future__ import annotations

import pytest

from agent_reminiscence import AgentMem
from benchmarks import react_tasks

# Of each task, the first and the second time: requests, and tokens that the agent reads for its answer. The figures are
# those of `make bench-react-tasks` with some room: a clearer sentence in a prompt may cost a token a request.
_MOST = {
    "delivery price, in one of four notes": ((5, 6_200), (2, 2_800)),
    "deploy, by one rule of a README": ((6, 13_600), (2, 2_850)),
    "two invoices, after a wrong lesson": ((3, 3_700), (3, 4_400)),
    "moved to sales on Monday": ((1, 1_200), (1, 1_260)),
    "cake, with an allergy that is not named": ((3, 3_650), (3, 4_200)),
    "small talk": ((2, 2_500), (2, 2_550)),
}
# That the model reads after the answers, to learn.
_MOST_TO_LEARN = 15_500
# Of the first request, for memory.
_LARGEST_SHARE = 0.54


@pytest.mark.thorough
async def test_six_tasks_come_out_right_and_take_no_more_than_they_did(bundled_memory: AgentMem) -> None:
    """The figures say what a change of what an agent is shown is worth; here, that none makes them worse."""
    figures = await react_tasks.measure(bundled_memory)

    wrong = [name for name, asked in (*figures.first.items(), *figures.second.items()) if not asked.is_right]
    # Nobody can know the rate of a customer abroad before it was said.
    assert wrong == ["two invoices, after a wrong lesson"]
    assert not figures.first["two invoices, after a wrong lesson"].is_right
    for name, most in _MOST.items():
        for asked, (requests, tokens) in zip((figures.first[name], figures.second[name]), most, strict=True):
            assert asked.requests <= requests, name
            assert asked.tokens <= tokens, name
    assert sum(one.learning for one in (*figures.first.values(), *figures.second.values())) <= _MOST_TO_LEARN
    assert max(figures.share.values()) <= _LARGEST_SHARE
    assert not figures.is_wrong_lesson_shown
    assert not figures.is_old_team_shown
