"""Remember and recall without `await`, from several threads. Needs no server, key or model.

Run it with `python examples/without_await.py`, or copy its lines into a notebook. Running it again changes nothing: the
idempotency keys distinguish a repetition from a new write.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from agent_reminiscence.sync import AgentMem

NOTES = {
    "Bakery": "The rye starter is fed at six in the morning.",
    "Oven": "The thermostat of the oven sticks at 180 degrees.",
    "Flour": "The mill delivers flour on Thursdays.",
}


def main() -> None:
    """Write from three threads, then ask."""
    with AgentMem() as memory:

        def write(title: str) -> int:
            note = memory.create_active_memory("example-bakery", title, NOTES[title], idempotency_key=f"note-{title}")
            return note.version

        with ThreadPoolExecutor() as threads:
            print(f"versions: {list(threads.map(write, NOTES))}")
        print(f"memories: {sorted(note.title for note in memory.get_active_memories('example-bakery'))}")

        found = memory.retrieve_memories("example-bakery", "When does the mill deliver flour?")
        print(f"answer: {found.hits[0].content}")


if __name__ == "__main__":
    main()
