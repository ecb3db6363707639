"""`python -m agent_reminiscence.cli` is `agent-reminiscence`."""

from __future__ import annotations

import sys

from agent_reminiscence.cli import main

if __name__ == "__main__":
    sys.exit(main())
