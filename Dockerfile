# `agent-reminiscence serve`, and every other command, over a PostgreSQL of your own: docs/guide/serving.md.
#
#   docker build -t agent-reminiscence .
#   docker run --rm -p 127.0.0.1:8765:8765 -e REMINISCENCE_POSTGRES_DSN=… agent-reminiscence
#
# The base is named by its series: rebuild the image to get its security fixes.

FROM python:3.12-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# First what seldom changes.
COPY requirements/image.txt requirements/build.txt requirements/
RUN python -m venv /opt/agent-reminiscence \
    && /opt/agent-reminiscence/bin/pip install --require-hashes -r requirements/image.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY scripts/write_sync.py scripts/
COPY agent_reminiscence_launcher agent_reminiscence_launcher
COPY agent_reminiscence_ledger agent_reminiscence_ledger
COPY agent_reminiscence agent_reminiscence
COPY sql sql
COPY cypher cypher
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/agent-reminiscence/bin/pip install --no-deps dist/*.whl

FROM python:3.12-slim
# Files of the embedded server, if it is used, are in the home: mount a volume there.
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin reminiscence
COPY --from=build /opt/agent-reminiscence /opt/agent-reminiscence
ENV PATH=/opt/agent-reminiscence/bin:$PATH PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/reminiscence
EXPOSE 8765
# Ready, not only alive: `docker compose up --wait` waits for it.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8765, timeout=8); c.request('GET', '/readyz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["agent-reminiscence"]
# Others reach a container's address, so callers need keys: `agent-reminiscence keys create`.
CMD ["serve", "--host", "0.0.0.0", "--keys"]
