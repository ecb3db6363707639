"""Models that propose: each agent is a typed function from what it is shown to a plan, and changes nothing itself.

Only this package imports Pydantic AI, and only code that needs a model imports this package.
"""
