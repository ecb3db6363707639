"""What became of an invocation is read back whole, however large it is."""

from __future__ import annotations

from agent_reminiscence import AgentMem
from agent_reminiscence.react.journal import Finished, Journal, Learned, as_finished
from agent_reminiscence.react.scope import invocation_conversation


async def test_an_invocation_with_large_values_is_read_back_whole(memory: AgentMem, tenant: str) -> None:
    """The ledger keeps large values beside the event, and what is recorded of it needs them."""
    journal = Journal(memory)
    finished = Finished(
        invocation_id="i-1", attempt="a-1", user="ana", collection="default", conversation_id="c-1",
        question="What is it?", state="It is long. " * 150_000, steps=(), new_steps=0, answer="Three.", failure=None,
    )  # fmt: skip
    learned = Learned(facts=("It is long. " * 150_000,))

    event = await journal.finish(tenant, finished)
    again = await journal.finish(tenant, finished.model_copy(update={"answer": "Four."}))
    [waiting] = await journal.unrecorded(tenant)
    found = await journal.find(tenant, invocation_conversation("c-1", "i-1"), "i-1")

    assert found is not None
    assert as_finished(event) == as_finished(again) == as_finished(await journal.whole(waiting)) == finished
    assert as_finished(found) == finished
    assert await journal.learn(tenant, event, learned) == await journal.learned(tenant, event) == learned
