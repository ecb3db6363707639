"""`python -m agent_reminiscence` is `agent-reminiscence`."""

from __future__ import annotations

import sys
from typing import Final

from agent_reminiscence.config.extras import require
from agent_reminiscence.config.installation import check_installation
from agent_reminiscence.exceptions import ConfigurationError

# As of every command that was called incorrectly; where the extra is missing, the command line cannot be asked.
_EXIT_USAGE: Final = 2


def main() -> int:
    """Run the command in `sys.argv` and return the exit code; 2 if the installation cannot run any."""
    try:
        check_installation()
        require("cli", "the command line")
    except ConfigurationError as error:
        sys.stderr.write(f"agent-reminiscence: {error}\n")
        return _EXIT_USAGE
    from agent_reminiscence import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
