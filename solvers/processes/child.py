"""Programs of this project as child processes: started, spoken to, watched and ended in one way.

Who starts a program holds a `Child`; the program itself holds an `Owner`. Messages go between them over the child's
standard streams, byte strings each behind its length; what they say is the matter of the two.

A child dies with its owner, in whatever way that ends: its input ends then, and it ends itself at once, even in the
middle of a solve. As the leader of a process group it takes all with it that it has started. How it ended is one
record, `End`: by itself, by a signal, or because its owner ended it, and why.

Only the standard library is needed here, and nothing of it that is slow to load: a child may be a program that can have
few other modules beside it, such as `solvers.latency.cp_sat`.
"""

import contextlib
import faulthandler
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import IO

from solvers.processes.root import ROOT

HEADER = struct.Struct("<Q")
"""Before each message: its length in bytes."""
KEPT_WORDS_BYTES = 16_000
"""What is kept of the end of a child's standard error."""


class Cause(Enum):
    """What ended a child: itself, a signal that its owner did not send, or its owner for one of three reasons.

    DROPPED: its work was of no more use. MEMORY: it took more memory than it may. SILENCE: no answer came in time.
    """

    EXIT = auto()
    SIGNAL = auto()
    DROPPED = auto()
    MEMORY = auto()
    SILENCE = auto()

    @property
    def is_limit(self) -> bool:
        """Whether its owner ended it because it had gone past a limit; the same work would end the same again."""
        return self in (Cause.MEMORY, Cause.SILENCE)


@dataclass(frozen=True, slots=True)
class End:
    """How a child ended. `code` is its exit code, or minus the number of the signal that ended it.

    `last_words` is what it wrote to standard error last: a traceback, or what a crash in compiled code leaves.
    """

    cause: Cause
    code: int
    last_words: str = ""

    @property
    def signal_name(self) -> str:
        """The signal that ended it, such as "SIGSEGV"; empty for none."""
        if self.code >= 0:
            return ""
        try:
            return signal.Signals(-self.code).name
        except ValueError:  # most real-time signals have no name
            return f"signal {-self.code}"

    @property
    def last_line(self) -> str:
        """The last line of its last words, which sums up a traceback; empty for none."""
        lines = self.last_words.split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def __str__(self) -> str:
        """Say it in a few words.

        >>> print(End(Cause.EXIT, 3), "and", End(Cause.SIGNAL, -9))
        exit code 3 and killed by SIGKILL
        """
        return f"killed by {self.signal_name}" if self.code < 0 else f"exit code {self.code}"


class Child:
    """A running program, with the threads that watch it.

    Any thread may send and kill. One thread receives, until there is nothing more, and then asks for the `end`.
    """

    def __init__(self, module: str, *arguments: str, leads_group: bool = True, niceness: int = 0) -> None:
        """Start the module `module` with arguments; OSError where no process can be started.

        `niceness` is how much lower than this process's its priority is, from its first moment on.

        A child that does not lead a group of its own belongs to the group of this process and ends and yields with it.
        Such a one starts no processes, for `kill` would not end them.
        """
        root, inherited = str(ROOT), os.environ.get("PYTHONPATH")
        # -P keeps the current folder off the import path, where a file could hide a library.
        self._process = subprocess.Popen(  # noqa: S603 -- our own module
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A group of its own, for Ctrl-C is for whoever started it, but no session: where Linux shares the processor
            # among sessions (autogroup, sched(7)) a niceness counts within one only, and each would have a full share.
            process_group=0 if leads_group else None,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self.pid = self._process.pid
        self._leads_group = leads_group
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        if niceness:
            self.lower_priority(niceness)
        self._cause: Cause | None = None
        self._last_words = bytearray()
        self._listener = self._in_a_thread(self._listen_to_stderr)
        self._waiter = self._in_a_thread(self._end_what_is_left)

    @property
    def age_s(self) -> float:
        """For how long it has been there, in seconds."""
        return time.monotonic() - self._began_s

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.poll() is None

    @property
    def is_ending(self) -> bool:
        """Whether it was killed by its owner, and has ended or will in a moment."""
        return self._cause is not None

    def send(self, message: Callable[[], bytes]) -> None:
        """Have a thread make a message and send it; it is lost when the child has ended, which the end tells."""

        def write() -> None:
            content = message()
            with self._sending, contextlib.suppress(OSError, ValueError):
                _write(self._stdin, content)

        self._in_a_thread(write)

    def receive(self) -> bytes | None:
        """Return the next message, waiting for it; None when none will come any more."""
        return _read(self._stdout)

    def lower_priority(self, niceness: int) -> None:
        """Lower the priority of it and all it has started to so much below this process's; for good, but for root."""
        which = os.PRIO_PGRP if self._leads_group else os.PRIO_PROCESS
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(which, self.pid, os.getpriority(os.PRIO_PROCESS, 0) + niceness)

    def kill(self, cause: Cause = Cause.DROPPED) -> None:
        """End it and its group at once; the first to do so says why. Does nothing where it has ended."""
        with self._lock:
            if self.is_running:
                self._cause = self._cause or cause
                self._signal_end()

    def end(self) -> End:
        """Wait until it has ended, and return how; its pipes are closed then."""
        code = self._process.wait()
        self._waiter.join()
        self._listener.join(timeout=1.0)  # what it left behind may hold on to its standard error
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):  # unsent bytes of a message
                pipe.close()
        by_itself = Cause.SIGNAL if code < 0 else Cause.EXIT
        return End(self._cause or by_itself, code, self._last_words.decode(errors="replace"))

    def _in_a_thread(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"child {self.pid}", daemon=True)
        thread.start()
        return thread

    def _signal_end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if self._leads_group else os.kill)(self.pid, signal.SIGKILL)

    def _listen_to_stderr(self) -> None:
        with self._stderr as stderr:
            while chunk := os.read(stderr.fileno(), 65536):
                self._last_words += chunk
                del self._last_words[:-KEPT_WORDS_BYTES]

    def _end_what_is_left(self) -> None:
        """When it has ended by itself, end what it has started, which could also hold our pipes open."""
        self._process.wait()
        if self._leads_group:
            self._signal_end()


class Owner:
    """What a program that runs as a `Child` knows of whoever started it."""

    def __init__(self) -> None:
        """Take the standard streams for messages alone, and from now on end with the owner.

        Whoever uses them after that reads nothing and writes to standard error. So neither a print, nor one from C++
        code, nor a process that is started can disturb the messages. A crash leaves a traceback on standard error.
        """
        self._requests = os.fdopen(os.dup(0), "rb")
        self._replies = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        faulthandler.enable()
        self._sending = threading.Lock()
        self._messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="owner", daemon=True).start()

    def receive(self) -> bytes:
        """Return the next message, waiting for it."""
        return self._messages.get()

    def send(self, message: bytes) -> None:
        """Send a message; any thread may."""
        with self._sending:
            _write(self._replies, message)

    def _listen(self) -> None:
        try:
            while (message := _read(self._requests)) is not None:
                self._messages.put(message)
                del message  # it may be large, and whoever receives it may want its memory back
        finally:  # also where there is no memory for a message: whoever waits for it must not do so for ever
            if os.getpgid(0) == os.getpid():  # our own group, not the terminal's
                os.killpg(0, signal.SIGKILL)
            os._exit(0)


def _write(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(HEADER.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """Return a message; None at the end, where one that was killed may have left half a message."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    message = pipe.read(length)
    return message if len(message) == length else None
