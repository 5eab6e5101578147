"""A child process and its owner: messages arrive whole, and nothing of a child is left when either has ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from solvers.processes.child import KEPT_WORDS_BYTES, Cause, Child, End
from tests.support.root import ROOT
from tests.support.solver_processes import is_gone
from tests.support.waiting import eventually

PROGRAM = "tests.support.child_program"


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child(PROGRAM)
    yield child
    child.kill()
    child.end()


def told(child: Child, message: bytes) -> bytes | None:
    child.send(lambda: message)
    return child.receive()


def started_by(child: Child) -> int:
    """Have a child start a process, and return its id."""
    answer = told(child, b"start")
    assert answer is not None
    return int(answer)


def test_messages_arrive_whole_whatever_they_hold(child: Child) -> None:
    for message in (b"", b"\n", b"\0" * 9, bytes(range(256)), os.urandom(5_000_000)):
        assert told(child, b"echo " + message) == message


def test_what_is_printed_does_not_disturb_the_messages(child: Child) -> None:
    assert told(child, b"print") == b"printed"
    assert told(child, b"echo on") == b"on"
    child.kill()
    last_words = child.end().last_words
    assert len(last_words) == KEPT_WORDS_BYTES
    assert "also from a child" in last_words


@pytest.mark.parametrize(
    ("message", "cause", "code", "said"),
    [
        (b"exit 3", Cause.EXIT, 3, "exit code 3"),
        (b"exit 0", Cause.EXIT, 0, "exit code 0"),
        (b"signal 9", Cause.SIGNAL, -9, "killed by SIGKILL"),
        (b"signal 40", Cause.SIGNAL, -40, "killed by signal 40"),
    ],
)
def test_an_end_of_its_own_is_told(child: Child, message: bytes, cause: Cause, code: int, said: str) -> None:
    assert told(child, message) is None
    end = child.end()
    assert (end, str(end)) == (End(cause, code), said)
    assert not end.cause.is_limit
    child.kill(Cause.MEMORY)  # too late: it had ended by itself
    assert child.end() == end


def test_a_crash_leaves_its_traceback(child: Child) -> None:
    assert told(child, b"signal 11") is None
    end = child.end()
    assert end.signal_name == "SIGSEGV"
    assert "Segmentation fault" in end.last_words


def test_a_program_that_fails_says_why() -> None:
    child = Child(PROGRAM, "fail")
    assert child.receive() is None
    end = child.end()
    assert (end.cause, end.code, end.last_line) == (Cause.EXIT, 1, "LookupError: no such thing")


@pytest.mark.parametrize("cause", [Cause.DROPPED, Cause.MEMORY, Cause.SILENCE])
@pytest.mark.parametrize("is_stopped", [False, True], ids=["at work", "stopped from outside"])
def test_its_owner_ends_it_with_its_group_and_the_first_reason_is_told(
    child: Child, cause: Cause, is_stopped: bool
) -> None:
    started = started_by(child)
    assert told(child, b"work") == b"at work"
    if is_stopped:
        os.kill(child.pid, signal.SIGSTOP)
    assert child.is_running
    assert not child.is_ending
    child.kill(cause)
    child.kill(Cause.SILENCE)
    assert child.is_ending
    assert child.receive() is None
    end = child.end()
    assert (end.cause, end.signal_name) == (cause, "SIGKILL")
    assert end.cause.is_limit == (cause is not Cause.DROPPED)
    assert not child.is_running
    eventually(lambda: is_gone(started))


@pytest.mark.parametrize("message", [b"exit 0", b"signal 9"])
def test_what_it_has_started_ends_with_it_whoever_ended_it(child: Child, message: bytes) -> None:
    started = started_by(child)
    assert told(child, message) is None
    assert child.end().cause in (Cause.EXIT, Cause.SIGNAL)
    eventually(lambda: is_gone(started))


def test_what_is_sent_to_one_that_has_ended_is_lost(child: Child) -> None:
    assert told(child, b"exit 0") is None
    assert told(child, b"echo " + b"x" * 1_000_000) is None
    assert child.end() == End(Cause.EXIT, 0)


@pytest.mark.parametrize("leads_group", [True, False])
def test_priority_is_lowered_for_all_it_has_started(leads_group: bool) -> None:
    child = Child(PROGRAM, leads_group=leads_group)
    assert told(child, b"echo ready") == b"ready"
    assert (os.getpgid(child.pid) == child.pid) == leads_group
    processes = [child.pid, started_by(child)] if leads_group else [child.pid]
    child.lower_priority(19)
    assert [os.getpriority(os.PRIO_PROCESS, process) for process in processes] == [19] * len(processes)
    assert os.getpriority(os.PRIO_PROCESS, os.getpid()) < 19
    child.kill()
    child.end()


@pytest.mark.parametrize("leads_group", [True, False])
def test_a_child_shares_the_processor_with_whoever_started_it_by_niceness(leads_group: bool) -> None:
    # Among sessions Linux may share the processor evenly, whatever the niceness of their processes (sched(7)).
    child = Child(PROGRAM, leads_group=leads_group, niceness=3)
    try:
        assert os.getsid(child.pid) == os.getsid(0)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)
    finally:
        child.kill()
        child.end()


OWNER = f"""
import sys, time
from solvers.processes.child import Child
child = Child("{PROGRAM}", leads_group=sys.argv[2] == "group")
child.send(lambda: b"start" if sys.argv[2] == "group" else b"echo 0")
started = child.receive().decode()
child.send(lambda: b"work")
child.receive()
print(child.pid, started, flush=True)
if sys.argv[1] == "wait":
    time.sleep(1000)
"""


@pytest.mark.parametrize("end", ["wait", "exit"])
@pytest.mark.parametrize("group", ["group", "alone"])
def test_no_child_outlives_its_owner(end: str, group: str) -> None:
    """Neither that of one that is killed, nor that of one that exits without a word, in the middle of their work."""
    command = [sys.executable, "-c", OWNER, end, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as owner:  # noqa: S603
        assert owner.stdout is not None
        processes = [int(word) for word in owner.stdout.readline().split() if word != "0"]
        assert len(processes) == (2 if group == "group" else 1)
        if end == "wait":
            assert not any(map(is_gone, processes))
            owner.kill()
    for process in processes:
        eventually(lambda process=process: is_gone(process))
