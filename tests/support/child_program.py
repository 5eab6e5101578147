"""A program for `solvers.processes.child.Child` that does what it is told, as a message of a word and an argument."""

import os
import signal
import subprocess
import sys
import time

from solvers.processes.child import Owner


def main() -> None:
    if sys.argv[1:] == ["fail"]:
        raise LookupError("no such thing")
    owner = Owner()
    while True:
        word, _, argument = owner.receive().partition(b" ")
        if word == b"echo":
            owner.send(argument)
        elif word == b"print":
            print("to the messages?", flush=True)
            os.write(1, b"\0" * 100_000)
            subprocess.run(["/bin/sh", "-c", "echo also from a child; read line; echo $line"], check=True)
            owner.send(b"printed")
        elif word == b"exit":
            os._exit(int(argument))
        elif word == b"signal":
            os.kill(os.getpid(), int(argument))
        elif word == b"start":  # a process that hears of nothing, and holds on to standard error
            started = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 1000 & wait"])
            owner.send(str(started.pid).encode())
        elif word == b"work":  # and hear of nothing meanwhile
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            owner.send(b"at work")
            time.sleep(1000)


if __name__ == "__main__":
    main()
