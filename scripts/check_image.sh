#!/bin/sh
# Lint the Dockerfile with hadolint, and build and try the image where a builder is at hand; where none is, say so.
# Usage: check_image.sh HADOLINT
set -eu

"$1" Dockerfile

builder=
for candidate in docker podman; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" info >/dev/null 2>&1; then
        builder=$candidate
        break
    fi
done
if [ -z "$builder" ]; then
    echo "the Dockerfile has passed hadolint; it was NOT built: neither docker nor podman works here"
    exit 0
fi

"$builder" build --quiet --tag agent-reminiscence:check . >/dev/null
# Nothing tells who callers are, so it must refuse; and it must not run as root.
"$builder" run --rm agent-reminiscence:check --version
if "$builder" run --rm agent-reminiscence:check serve --host 0.0.0.0 2>/dev/null; then
    echo "the image serves others without asking who they are" >&2
    exit 1
fi
# What models of Ollama and OpenAI are called with.
"$builder" run --rm --entrypoint python agent-reminiscence:check -c "import pydantic_ai.models.ollama, pydantic_ai.models.openai"
test "$("$builder" run --rm --entrypoint id agent-reminiscence:check -u)" = 10001
echo "the image was built by $builder and runs"
