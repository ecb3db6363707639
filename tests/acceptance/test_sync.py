"""`agent_reminiscence.sync`: the same calls without `await`, in scripts, in threads and where a loop already runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from agent_reminiscence import (
    ActiveMemory,
    AgentModels,
    Config,
    MemoryNotFoundError,
    NotInitializedError,
    Progress,
    StoreError,
    UsageError,
)
from agent_reminiscence.embedders.hashing import HashEmbedder
from agent_reminiscence.sync import AgentMem, MemoryLedger
from tests.support.command_line import clean_environment, environment
from tests.support.scripted import ScriptedModel, answer
from tests.support.telemetry import Recording

MakeConfig = Callable[..., Config]

_ROOT = Path(__file__).parents[2]
_THREAD = "agent-reminiscence"


class _WaitingEmbedder(HashEmbedder):
    """Waits in its first call until it is cancelled, and says so; all others work."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()
        self.was_cancelled = threading.Event()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Wait, or embed."""
        if not self.waits.is_set():
            self.waits.set()
            try:
                # A test that fails must not wait forever.
                async with asyncio.timeout(120):
                    await asyncio.Event().wait()
            finally:
                self.was_cancelled.set()
        return await super().embed(texts)


@pytest.fixture
def memory(config: MakeConfig) -> Iterator[AgentMem]:
    """A blocking memory on a database of this test's own."""
    with AgentMem(config()) as opened:
        yield opened


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == _THREAD]


def test_the_same_calls_without_await(memory: AgentMem) -> None:
    """The four methods, the ledger, maintenance and the graph."""
    note: ActiveMemory = memory.create_active_memory("agent-1", "Plan", "Ana Sousa ships on Friday.")
    memory.update_active_memory("agent-1", note.id, content="Ana Sousa ships on Monday.")

    assert [one.version for one in memory.get_active_memories("agent-1")] == [2]
    assert memory.retrieve_memories("agent-1", "When does Ana ship?").summary == "Ana Sousa ships on Monday. [1]"
    memory.ledger.append("agent-1", "world.observed", {"text": "The kettle is on."})
    assert memory.ledger.head("agent-1") == 3
    assert [event.position for event in memory.ledger.read("agent-1", after=1)] == [2, 3]
    assert memory.conversation("agent-2", "chat-7").add("user", "Hello.").content.endswith("Hello.")
    [report] = memory.admin.consolidate("agent-1")
    assert report.memory_id == note.id
    assert [entity.name for entity in memory.admin.graph.entities("agent-1")] == ["Ana Sousa"]
    assert memory.admin.erase("agent-1", memory_id=note.id, dry_run=True).events > 0
    assert memory.admin.verify("agent-1").ok


async def test_it_works_where_a_loop_runs(config: MakeConfig) -> None:
    """As in a notebook, whose cells run inside a loop."""
    assert asyncio.get_running_loop().is_running()
    with AgentMem(config()) as memory:
        memory.create_active_memory("agent-1", "Plan", "We ship on Friday.")

        assert memory.retrieve_memories("agent-1", "When do we ship?").summary == "We ship on Friday. [1]"


def test_an_error_keeps_its_type_and_its_traceback(memory: AgentMem) -> None:
    """What is caught and what is shown is as without the thread."""
    missing = "0198c0de-0000-7000-8000-000000000000"

    with pytest.raises(MemoryNotFoundError) as caught:
        memory.update_active_memory("agent-1", missing, content="We ship.")

    frames = [(Path(frame.filename).name, frame.name) for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[0] == ("test_sync.py", "test_an_error_keeps_its_type_and_its_traceback")
    assert ("core.py", "update_active_memory") in frames
    assert memory.get_active_memories("agent-1") == []


@pytest.mark.thorough
def test_threads_call_at_once(memory: AgentMem) -> None:
    """Each gets its own result, and nothing is lost."""

    def write(number: int) -> ActiveMemory:
        return memory.create_active_memory("agent-1", f"Note {number}", f"Bench {number} is painted.")

    with ThreadPoolExecutor(8) as threads:
        notes = list(threads.map(write, range(40)))

    assert [note.title for note in notes] == [f"Note {number}" for number in range(40)]
    assert {one.id for one in memory.get_active_memories("agent-1")} == {note.id for note in notes}
    assert memory.ledger.head("agent-1") == 40


def _interrupt_process() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _interrupt_this_thread() -> None:
    # The interpreter then knows of the signal, and nothing wakes the main thread.
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.mark.parametrize("send", [_interrupt_process, _interrupt_this_thread])
def test_ctrl_c_cancels_the_call_and_leaves_the_memory_usable(config: MakeConfig, send: Callable[[], None]) -> None:
    """The interrupted write is rolled back before the caller goes on, also if the signal reaches another thread."""
    embedder = _WaitingEmbedder()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        embedder.waits.wait()
        send()

    try:
        with AgentMem(config(), embedder=embedder) as memory:
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                memory.create_active_memory("agent-1", "Plan", "We ship on Friday.")

            assert embedder.was_cancelled.is_set()
            assert memory.get_active_memories("agent-1") == []
            memory.create_active_memory("agent-1", "Plan", "We ship on Monday.")
            assert memory.ledger.head("agent-1") == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert _threads() == []


def test_a_call_from_its_own_thread_is_refused(memory: AgentMem, tmp_path: Path) -> None:
    """A progress callback that waited for the memory would wait forever."""
    memory.create_active_memory("agent-1", "Plan", "We ship on Friday.")

    def look(step: Progress) -> None:
        memory.ledger.head("agent-1")

    with pytest.raises(UsageError, match="was called from its own thread and would wait for itself forever"):
        memory.admin.export("agent-1", tmp_path / "agent-1.jsonl.zst", progress=look)
    with pytest.raises(UsageError, match="was called from its own thread"):
        memory.admin.export("agent-1", tmp_path / "agent-1.jsonl.zst", progress=lambda step: memory.close())

    assert memory.ledger.head("agent-1") == 1


def test_a_callback_that_ends_the_program_ends_the_call_and_not_the_thread(memory: AgentMem, tmp_path: Path) -> None:
    """`sys.exit()` in a callback reaches the caller."""
    memory.create_active_memory("agent-1", "Plan", "We ship on Friday.")

    with pytest.raises(SystemExit, match="enough"):
        memory.admin.export("agent-1", tmp_path / "e.jsonl.zst", progress=lambda step: sys.exit("enough"))

    assert memory.ledger.head("agent-1") == 1


def test_closing_ends_the_thread_and_opening_again_starts_one(config: MakeConfig) -> None:
    """Before and after, a call says what to do; what was handed out while it was open says so, too."""
    memory = AgentMem(config())
    with pytest.raises(NotInitializedError, match="is not initialized; use `with AgentMem"):
        memory.get_active_memories("agent-1")
    memory.initialize()
    memory.initialize()
    [_] = _threads()
    ledger: MemoryLedger = memory.ledger

    memory.close()
    memory.close()

    assert _threads() == []
    for use in (lambda: memory.get_active_memories("agent-1"), lambda: memory.admin, lambda: ledger.head("agent-1")):
        with pytest.raises(NotInitializedError, match="was closed; use `with AgentMem"):
            use()
    with memory:
        assert memory.ledger.head("agent-1") == 0


def test_a_memory_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    """The error is that of the asynchronous one, and another attempt is possible."""
    memory = AgentMem(Config(postgres_dsn="postgresql://nobody@/none?host=/nonexistent", embedding_provider="hash"))

    for _ in range(2):
        with pytest.raises(StoreError):
            memory.initialize()

    assert _threads() == []
    with pytest.raises(NotInitializedError, match="is not initialized"):
        memory.get_active_memories("agent-1")


def test_closing_ends_the_calls_of_other_threads(config: MakeConfig) -> None:
    """Nobody waits for an answer that never comes."""
    embedder = _WaitingEmbedder()
    with ThreadPoolExecutor(1) as threads:
        with AgentMem(config(), embedder=embedder) as memory:
            running = threads.submit(memory.create_active_memory, "agent-1", "Plan", "We ship on Friday.")
            embedder.waits.wait()
        with pytest.raises(NotInitializedError, match="was closed while the call was running"):
            running.result()
    with AgentMem(config()) as memory:
        assert memory.ledger.head("agent-1") == 0


def test_a_stream_can_be_read_and_left(config: MakeConfig) -> None:
    """It gives what the asynchronous one gives; leaving it early ends it."""
    model = ScriptedModel(*[answer({"answer": "Maria owns the red boat [1].", "is_known": True})] * 3)
    with AgentMem(config(), models=AgentModels(memory_retrieve=model.model)) as memory:
        memory.create_active_memory("agent-1", "Boats", "Maria owns the red boat in the harbour.")

        results = list(memory.admin.stream_answer("agent-1", "who owns the red boat?"))
        with closing(memory.admin.stream_answer("agent-1", "who owns the red boat?")) as stream:
            first, second = next(stream), next(stream)
        again = list(memory.admin.stream_answer("agent-1", "who owns the red boat?"))

        assert results[-1].synthesis is not None
        assert results[-1].synthesis.is_checked
        assert first.synthesis is None
        assert [hit.chunk_id for hit in first.hits] == [hit.chunk_id for hit in results[-1].hits]
        assert second.synthesis is not None
        assert not second.synthesis.is_checked
        assert list(stream) == []
        assert again[-1].synthesis == results[-1].synthesis
        with pytest.raises(UsageError, match="limit"):
            memory.admin.stream_answer("agent-1", "who?", limit=0)


def test_a_span_of_a_call_belongs_to_the_span_it_was_made_in(config: MakeConfig) -> None:
    """Traces do not break at the thread."""
    recording = Recording()
    with AgentMem(config(), tracer_provider=recording.tracer_provider) as memory:
        tracer = recording.tracer_provider.get_tracer("tests")
        with tracer.start_as_current_span("outside") as outside:
            memory.get_active_memories("agent-1")

    recording.close()
    [span] = [span for span in recording.spans() if span.name.endswith("get_active_memories")]
    assert span.parent is not None
    assert span.parent.span_id == outside.get_span_context().span_id


def test_what_nobody_closed_warns_and_is_closed(config: MakeConfig) -> None:
    """The collector does not wait for it, whatever thread it runs in."""
    left = [AgentMem(config())]
    left[0].initialize()
    [thread] = _threads()

    with pytest.warns(ResourceWarning, match="an AgentMem was never closed; use `with AgentMem"):
        left.clear()

    thread.join(30)
    assert not thread.is_alive()


_LEAVES_IT_OPEN = """
from agent_reminiscence.sync import AgentMem

memory = AgentMem()
memory.initialize()
memory.create_active_memory("agent-1", "Plan", "We ship on Friday.")
print("written")
"""

# While the warning is shown, the memory has long been closed, and its thread ends before anything waits for it.
_WARNS_SLOWLY = """
import time, warnings

show = warnings.showwarning

def show_slowly(*args, **kwargs):
    show(*args, **kwargs)
    time.sleep(2)

warnings.showwarning = show_slowly
"""

_FORKS = """
import os, warnings
from agent_reminiscence.sync import AgentMem

warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads forks
with AgentMem() as memory:
    child = os.fork()
    if child == 0:
        try:
            memory.get_active_memories("agent-1")
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        memory.close()
        os._exit(0)
    os.waitpid(child, 0)
    print(memory.get_active_memories("agent-1"))
"""


def _run(program: str, settings: Config, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "default", "-c", program],
        env=clean_environment() | environment(settings) | extra | {"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("before", ["", _WARNS_SLOWLY], ids=["closed at the exit", "closed before"])
def test_a_memory_left_open_does_not_keep_the_program_from_ending(config: MakeConfig, before: str) -> None:
    """It ends without an error, with the usual warning."""
    finished = _run(before + _LEAVES_IT_OPEN, config(), REMINISCENCE_WORKER="true")

    assert (finished.returncode, finished.stdout) == (0, "written\n")
    assert "ResourceWarning: an AgentMem was never closed; use `with AgentMem()`" in finished.stderr
    assert "Traceback" not in finished.stderr
    with AgentMem(config()) as memory:
        assert memory.ledger.head("agent-1") == 1


@pytest.mark.thorough
def test_a_fork_is_told_to_open_its_own(config: MakeConfig) -> None:
    """The child has no such thread and would wait forever; the parent goes on."""
    finished = _run(_FORKS, config())

    assert finished.returncode == 0, finished.stderr
    first, second = finished.stdout.splitlines()
    assert first.startswith("UsageError: this AgentMem was opened by process ")
    assert first.endswith("fork before the first AgentMem is opened; then open one in each process")
    assert second == "[]"
