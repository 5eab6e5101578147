"""What the server's process keeps its objects with."""

import platform

import psutil
import pytest

from tests.support.serving import free_port, served
from tests.support.waiting import eventually

VARIABLE = "PYTHONMALLOC"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to give pages back")
def test_the_server_keeps_objects_with_the_c_library_and_its_solvers_do_not() -> None:
    port = free_port()
    with served(["-m", "explorer.launch", "--headless", "--port", str(port)], port, environment={VARIABLE: ""}):
        (server,) = (one for one in psutil.Process().children() if str(port) in one.cmdline())
        assert server.environ()[VARIABLE] == "malloc"
        solvers = eventually(lambda: server.children(recursive=True))
        assert solvers
        assert {one.environ().get(VARIABLE) for one in solvers} == {None}
