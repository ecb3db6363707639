"""`python -m agent_reminiscence` is `agent-reminiscence`."""

from __future__ import annotations

import sys

from agent_reminiscence_ledger import main

if __name__ == "__main__":
    sys.exit(main())
