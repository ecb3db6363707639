"""A web service with FastAPI and Pydantic AI: one memory for the process, and each user sees only their own.

Run it with `uvicorn examples.fastapi_service:app`, and ask:
`curl -H "Authorization: Bearer ida-token" -d '{"text": "My boat is called Bura."}' -H "Content-Type: application/json"
http://127.0.0.1:8000/chats/monday`
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict

from agent_reminiscence import AgentMem
from agent_reminiscence.integrations.pydantic_ai import Reminiscence, ReminiscenceConversations

# Stands for your sign-in: whose token it is.
USERS = {"ida-token": "example-ida", "joe-token": "example-joe"}


@dataclass
class User:
    """Who is signed in."""

    id: str


class Message(BaseModel):
    """What a user says, or the agent."""

    text: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Open the memory when the service starts, and close it when it stops."""
    async with AgentMem() as memory:
        recall = Reminiscence(memory, external_id=lambda ctx: ctx.deps.id)
        app.state.memory = memory
        # "test" is Pydantic AI's model for tests; name a real one here.
        app.state.agent = Agent("test", deps_type=User, capabilities=[recall])
        yield
        await recall.settle()


app = FastAPI(lifespan=lifespan)


def signed_in(credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> User:
    """The user whose token the request carries."""
    if credentials.credentials not in USERS:
        raise HTTPException(401, "sign in first")
    return User(USERS[credentials.credentials])


@app.post("/chats/{chat_id}")
async def say(chat_id: str, message: Message, user: Annotated[User, Depends(signed_in)], request: Request) -> Message:
    """Say something in one of your chats."""
    store = ReminiscenceConversations(request.app.state.memory, user.id)
    conversation = await store.load(chat_id) or Conversation(conversation_id=chat_id)
    result = await request.app.state.agent.run(message.text, deps=user, conversation=conversation)
    try:
        await store.save(result)
    except ConversationConflict:
        raise HTTPException(409, "this chat went on in another window; load it again") from None
    return Message(text=str(result.output))
