"""What a task process does: check out, set up, one turn of the agent, patch, check. One asyncio loop, no
person to ask, and everything that it writes inside the attempt's own directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from functools import partial
from pathlib import Path
from shlex import quote

import msgspec

from coder import (
    OPERATING_MODES,
    ConfigError,
    Engine,
    HistoryError,
    LineAccess,
    ModelError,
    OperatingMode,
    Options,
    Provider,
    Redactor,
    Sandbox,
    SandboxLevel,
    built_in,
    child_environment,
    close_home,
    close_places,
    encode,
    open_agent,
    open_door,
    own_keys,
    probe,
    provider_of,
    read_settings,
    with_model_named,
)
from coder import Settings as Read
from coder.addons.batch.channel import Done, Grew, Start, TaskChannel
from coder.addons.batch.fork_server import PASSED_ON
from coder.addons.batch.limits import Gate
from coder.addons.batch.mirror import NO_GIT, CheckoutError, Killed
from coder.addons.batch.results import ANSWER, PATCH, RECORD
from coder.addons.batch.task import Check, Outcome
from coder.addons.batch.workspace_of_task import HOME, OWN, Workspace, counts
from coder.base.files import write_atomically
from coder.base.process.git import git_line
from coder.base.process.programs import Runs, distrust
from coder.base.process.run import ProcessOutcome as Ran
from coder.base.process.run import run_process
from coder.protocol.entries import Assistant, Observation, Usage
from coder.protocol.events import AnyEvent, ApprovalRequested, Failed, InputDone, Recorded, TurnEnded
from coder.protocol.history import HistoryEvent
from coder.protocol.ops import ApprovalReply, UserInput
from coder.texts import CoderError

_KEEP = 16_384  # bytes of what `setup` and `check` print
_PATCH_EVERY = 5.0  # seconds between two patches of a task that goes on
_LARGEST_PATCH = 64 << 20
_LONGEST_WORD = 100_000  # bytes; of an argument Linux takes 128 KiB, and a list of tests may be longer


def preload() -> None:
    """Modules that the engine imports when they are first needed, which is in every task."""
    from importlib import import_module

    for name in (
        *("engine.approval", "engine.calls", "engine.complex_tasks", "engine.continuation", "engine.limits"),
        *("engine.git_state", "engine.isolation", "engine.notes", "engine.routing"),
        *("engine.step", "engine.verify.attempts"),
        *("models.wires.chat_completions", "models.dialect", "base.http.client", "policy.shell.judge"),
        *("context.conversation", "policy.sandbox.probe", "policy.sandbox.bubblewrap"),
        *("history.undo.shell_changes", "tools.patching.plan", "tools.text.replace", "tools.shell"),
    ):
        import_module(f"coder.{name}")


def serve(connection: socket.socket) -> None:
    """The task process, to its end."""
    asyncio.run(_serve(connection))


async def _serve(connection: socket.socket) -> None:
    channel = await TaskChannel.over(connection)
    start = await channel.started()
    begun = time.monotonic()
    doing = Attempt(start, channel)
    attempt = asyncio.create_task(doing.run())
    listening = asyncio.create_task(channel.listen(attempt.cancel))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, attempt.cancel)
    try:
        outcome = await attempt
    except asyncio.CancelledError:
        outcome = Outcome("cancelled", final=False)
    except Killed:
        listening.cancel()
        return  # without an outcome: it is made again
    except (CheckoutError, OSError) as error:
        outcome = Outcome("setup_failed", error=str(error))
    except CoderError as error:
        outcome = Outcome("error", error=str(error))
    except Exception as error:
        outcome = Outcome("error", error=f"{type(error).__name__}: {error}")
    took = round(time.monotonic() - begun, 3)
    channel.send(Done(msgspec.structs.replace(doing.redacted(outcome), duration=took)))
    with contextlib.suppress(ConnectionError):
        await channel.drain()
    listening.cancel()


class Attempt:
    """One attempt at one task."""

    def __init__(self, start: Start, channel: TaskChannel) -> None:
        self._channel = channel
        self._task = start.job.task
        self._settings = start.job.settings
        self._directory = Path(start.directory)
        self._mirror, self._base = Path(start.mirror), start.base
        self._prefix = start.prefix
        self._sandbox_cache = start.sandbox
        self._notes = [f"{name} has no commit, and is not in the clone" for name in start.left_out]
        self._home, self._own = self._directory / HOME, self._directory / OWN
        self._temp = self._directory / "tmp"
        self._deadline = time.monotonic() + (self._task.timeout_s or self._settings.timeout_s)
        for home, own in start.closed.items():
            close_home(home, own)
        distrust(self._task.source, Path.cwd())
        self._commands = self._directory / "commands"
        close_places(filter(None, start.hidden), but=[self._mirror, self._commands, self._home])
        given = start.secrets
        self._config, self._files = given.config, given.files
        named = {name: given.named[name] for name in self._task.env if name in given.named}
        self._environ = {**_passed_on(), **named, **self._places(), **given.provider}
        self._workspace = Workspace(self._directory, self._mirror, self._base, self._shell, self._git)
        self._patched_at = 0.0
        self._read: Read | None = None
        self._provider: Provider | None = None
        self._level = SandboxLevel()

    @property
    def _cwd(self) -> Path:
        return self._workspace.root / self._prefix

    def _places(self) -> dict[str, str]:
        """Its own, whatever variables the task names."""
        return {
            "HOME": str(self._home),
            "CODER_HOME": str(self._own),
            "TMPDIR": str(self._temp),
            "XDG_CACHE_HOME": str(self._home / ".cache"),
        }

    async def run(self) -> Outcome:
        """Raises what the caller tells as an outcome."""
        self._make_directories()
        await self._workspace.check_out()
        self._refuse_elsewhere()
        if self._task.ref and not self._cwd.is_dir():
            raise CheckoutError(f"{self._prefix} is no folder in {self._task.ref}")
        self._cwd.mkdir(parents=True, exist_ok=True)
        self._open()
        if self._task.setup and (failed := await self._set_up()):
            return failed
        self._refuse_elsewhere()
        if self._task.setup or self._workspace.has_attributes:
            await self._workspace.start_here()
        outcome = await self._turn()
        outcome = await self._with_patch(outcome)
        if outcome.final and self._task.check:
            outcome = msgspec.structs.replace(outcome, check=await self._check())
        return msgspec.structs.replace(outcome, note="; ".join(self._notes))

    def _refuse_elsewhere(self) -> None:
        """Where a link leads out of the clone, the agent would work in a folder of the person's."""
        expected = Path(os.path.realpath(self._directory), self._workspace.root.name, self._prefix)
        if Path(os.path.realpath(self._cwd)) != expected:
            raise CheckoutError(f"{self._prefix or '.'} is a link, and leads out of the task's clone")

    def redacted(self, outcome: Outcome) -> Outcome:
        """As the record is: `setup` and `check` may print secrets too."""
        keys = own_keys(self._environ, self._provider or Provider("", ""))
        others = self._read is None or self._read.loaded.config.safety.redact_secrets
        redactor = Redactor()

        def hide(text: str) -> str:
            for key in keys:
                text = text.replace(key, "[provider key]")
            return redactor.redact(text) if others else text

        check = msgspec.structs.replace(outcome.check, output=hide(outcome.check.output))
        return msgspec.structs.replace(outcome, error=hide(outcome.error), check=check)

    # directories and settings

    def _make_directories(self) -> None:
        for directory in (self._home, self._own, self._temp, self._commands, self._workspace.root):
            directory.mkdir(mode=0o700)
        os.environ.update({"TMPDIR": str(self._temp), "HOME": str(self._home)})
        for file in self._files:
            file.write(self._directory)
        write_atomically(self._own / "config.json", msgspec.json.encode(self._config))
        if self._sandbox_cache:
            (self._own / "sandbox.json").write_bytes(self._sandbox_cache)
        writable = [str(self._home), *self._config.get("sandbox", {}).get("writable", [])]
        above: dict[str, object] = {"sandbox": {"writable": writable}}
        if self._task.budget_usd is not None:
            above["budget"] = {"max_usd": self._task.budget_usd}
        (self._own / "task.json").write_bytes(msgspec.json.encode(above))

    def _options(self) -> Options:
        mode = self._task.mode or self._settings.mode
        custom = mode if mode.startswith("/") else ""
        operating: OperatingMode = "auto-edit"
        for one in OPERATING_MODES:
            operating = one if one == (self._settings.mode if custom else mode) else operating
        return Options(
            cwd=self._cwd,
            environ=self._environ,
            mode=operating,
            custom_modes=[custom] if custom else [],
            preset=self._settings.preset,
            model=self._task.model or self._settings.model,
            lang="en",
            config_file=self._own / "task.json",
            log_dir=self._directory / "record",
            max_steps=self._task.max_steps or self._settings.max_steps,
            session_kind="batch",
            sinks=[_Streamed(self._channel)],
        )

    def _open(self) -> None:
        """Raises `ConfigError`."""
        options = self._options()
        self._read = read_settings(options)
        self._provider = provider_of(options, self._read)
        sandbox = self._read.loaded.config.sandbox
        if sandbox.mode != "off":
            path = self._environ.get("PATH")
            self._level = probe(self._own, path, self._workspace.root, sandbox.backend)
            if self._level.backend == "none" and sandbox.mode == "require":
                raise ConfigError("sandbox.required", reason=self._level.reason or "-")

    # the person's own commands, and git

    async def _git(self, words: list[str], more: dict[str, str]) -> Ran:
        """Outside the sandbox, for a clone whose settings are ours."""
        found = git_line(words, self._environ, self._workspace.root)
        if found is None:
            raise CheckoutError(NO_GIT)
        return await self._run(found[0], Runs.HARDENED, {**found[1], **more})

    async def _shell(self, line: str, more: dict[str, str], writable: list[str]) -> Ran:
        environment = self._environ
        if more:  # our own git, which a task's variables shall not lead elsewhere
            kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
            found = git_line([], kept, self._workspace.root)
            if found is None:
                raise CheckoutError(NO_GIT)
            (program,), hardened = found
            path = f"{Path(program).parent}{os.pathsep}{hardened['PATH']}"
            environment = {**hardened, "PATH": path, **more}
        elif self._provider is not None:
            environment = child_environment(environment, self._provider)
        argv = ["/bin/sh", "-c", line]
        if len(line.encode("utf-8", errors="surrogateescape")) > _LONGEST_WORD:
            script = self._commands / "command.sh"  # where commands cannot write
            script.write_text(line, encoding="utf-8")
            argv = ["/bin/sh", str(script)]
        assert self._read is not None
        settings = self._read.loaded.config.sandbox
        sandbox = Sandbox(
            self._level,
            self._workspace.root,
            self._own,
            writable=[str(self._home), *settings.writable, *writable],
            network=settings.network is True,
            environment=environment,
        )
        door = await open_door(self._level, settings.network, environment)
        return await self._run(sandbox.wrap(argv, LineAccess(door=door)), Runs.IN_SANDBOX, environment)

    async def _command(self, line: str) -> Ran:
        """`setup` or `check`: in the sandbox, as the model's own commands run, because both run its code."""
        inside = f"cd -- {_quoted(self._prefix)} && {{ {line}\n}}" if self._prefix else line
        return await self._shell(inside, {}, [])

    async def _run(self, argv: list[str], runs: Runs, environment: dict[str, str]) -> Ran:
        left = max(1.0, self._deadline - time.monotonic())
        try:
            return await run_process(
                argv,
                runs=runs,
                cwd=self._workspace.root,
                environment=environment,
                timeout_ms=int(left * 1000),
                keep_bytes=_KEEP,
                spill_to=self._temp / "spilled",
                spill_limit=0,
                on_output=lambda _text: None,
            )
        except asyncio.CancelledError:
            # Not its own subclass: `asyncio.timeout` of Python 3.11 would not take that for its own.
            raise asyncio.CancelledError from None

    async def _set_up(self) -> Outcome | None:
        done = await self._command(self._task.setup)
        if done.exit_code != 0:
            said = (done.stderr or done.stdout).strip()[-2000:]
            return Outcome(
                "timeout" if done.timed_out else "setup_failed", error=f"setup: exit {done.exit_code}: {said}"
            )
        return None

    async def _check(self) -> Check:
        self._deadline = time.monotonic() + (self._task.timeout_s or self._settings.timeout_s)
        done = await self._command(self._task.check)
        said = "\n".join(part for part in (done.stdout.strip(), done.stderr.strip()) if part)[-_KEEP:]
        if done.timed_out:
            return Check("timeout", done.exit_code, said)
        return Check("passed" if done.exit_code == 0 else "failed", done.exit_code, said)

    # the agent

    async def _turn(self) -> Outcome:
        assert self._read is not None
        assert self._provider is not None
        provider = await with_model_named(self._provider)
        config = self._read.loaded.config
        limit = asyncio.timeout(None)
        gate = Gate(self._channel, provider, config.budget.prices, partial(_extend, limit))
        options = msgspec.structs.replace(self._options(), around_wire=gate.around)
        read = self._read
        engine = Engine(lambda emit: open_agent(options, read, provider, emit))
        engine.start()
        seen = _Seen()
        late = False
        try:
            async with limit:
                seconds = max(1.0, self._deadline - time.monotonic())
                limit.reschedule(asyncio.get_running_loop().time() + seconds)
                problems = await engine.enable_modes(options.custom_modes) if options.custom_modes else []
                if problems:
                    return Outcome("error", error=" ".join(map(str, problems)))
                engine.submit(_input(self._task.prompt))
                async for event in engine.events():
                    if isinstance(event, ApprovalRequested):
                        engine.submit(ApprovalReply(approval_id=event.approval_id, answer="no"))
                    if seen.take(event):
                        break
                    if isinstance(event, Recorded):
                        await self._stream_patch(event.entry)
        except TimeoutError:
            late = True
        finally:
            await _closed(engine, seen)
        return self._outcome(seen, late=late, refused=gate.refused, model=provider.model, mode=options.mode)

    def _outcome(
        self, seen: _Seen, *, late: bool, refused: bool, model: str, mode: OperatingMode | None
    ) -> Outcome:
        ended = seen.ended
        text = ended.text if ended is not None else ""
        self._channel.send(Grew(ANSWER, text.encode("utf-8", errors="replace"), whole=True))
        status: str = "error" if ended is None else ended.status
        if late:
            status = "timeout"
        elif refused or seen.code == "budget":
            status = "budget"
        return Outcome(
            status,
            final=not refused or late,
            error=str((ended.error if ended is not None else "") or seen.error),
            steps=ended.steps if ended is not None else seen.steps,
            verification=msgspec.to_builtins(ended.verification) if ended is not None else {},
            tokens=seen.tokens,
            cost=seen.cost,
            model=model,
            mode=self._task.mode or mode or "",
            base=self._base,
            session_id=seen.session_id,
        )

    async def _stream_patch(self, entry: HistoryEvent) -> None:
        """While the agent works: what it has done so far is worth having where the attempt is lost."""
        match entry.entry:
            case Observation(tool=tool, ok=True) if built_in(tool).kind in ("edits", "runs"):
                if time.monotonic() - self._patched_at >= _PATCH_EVERY:
                    self._patched_at = time.monotonic()
                    with contextlib.suppress(CheckoutError, OSError):
                        self._channel.send(Grew(PATCH, await self._workspace.patch_so_far(), whole=True))

    async def _with_patch(self, outcome: Outcome) -> Outcome:
        if not outcome.final:
            return outcome
        self._deadline = max(self._deadline, time.monotonic() + 60)
        try:
            patch = await self._workspace.patch()
        except (CheckoutError, OSError) as error:
            self._channel.send(Grew(PATCH, b"", whole=True))  # not the one of the meantime
            return msgspec.structs.replace(outcome, status="error", error=f"there is no patch: {error}")
        if len(patch) > _LARGEST_PATCH:
            return msgspec.structs.replace(outcome, status="error", error=f"the patch has {len(patch)} bytes")
        self._channel.send(Grew(PATCH, patch, whole=True))
        self._notes += [
            f"what changed in {name}, a repository, is not in the patch" for name in self._workspace.lacks
        ]
        files, added, removed = counts(patch)
        return msgspec.structs.replace(outcome, files=files, additions=added, deletions=removed)


class _Streamed:
    """A history sink that sends every line to the supervisor."""

    def __init__(self, channel: TaskChannel) -> None:
        self._channel = channel

    def append(self, event: HistoryEvent) -> None:
        self._channel.send(Grew(RECORD, encode(event) + b"\n"))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Seen:
    """What the events of a turn add up to."""

    def __init__(self) -> None:
        self.ended: TurnEnded | None = None
        self.error = self.code = self.session_id = ""
        self.steps = 0
        self.cost: float | None = None
        self.tokens = {"prompt": 0, "completion": 0, "total": 0, "cached": 0}

    def take(self, event: AnyEvent) -> bool:
        match event:
            case Recorded(entry):
                self._recorded(entry)
            case TurnEnded():
                self.ended = event
            case Failed(text, code):
                self.error, self.code = str(text), code
            case InputDone():
                return True
        return False

    def _recorded(self, event: HistoryEvent) -> None:
        self.session_id = event.session_id
        match event.entry:
            case Assistant(tokens=tokens, cost_usd=cost):
                self.steps += 1
            case Usage(tokens=tokens, cost_usd=cost):
                pass
            case _:
                return
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
        if tokens is not None:
            for name in self.tokens:
                self.tokens[name] += getattr(tokens, name)


async def _closed(engine: Engine, seen: _Seen) -> None:
    closing = asyncio.ensure_future(engine.close())
    async for event in engine.events():
        seen.take(event)
    with contextlib.suppress(HistoryError, ModelError):
        await closing


def _extend(limit: asyncio.Timeout, seconds: float) -> None:
    if (at := limit.when()) is not None and not limit.expired():
        limit.reschedule(at + seconds)


def _input(prompt: str) -> UserInput:
    """A task is a message: one that begins as a command would is never run as one."""
    if prompt.lstrip().startswith(("!", "/")):
        return UserInput("", attached=prompt)
    return UserInput(prompt)


def _passed_on() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def _quoted(path: str) -> str:
    return quote(path)
