"""What stands between the network and the page, tried as an attacker would: raw requests to a real server."""

import contextlib
import http.client
import logging
import os
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from explorer.server import log
from explorer.server.headers import HEADERS
from explorer.server.hosts import ServedHosts, served_hosts
from explorer.server.limits import Limits
from explorer.server.mends.messages import CLOSED, close_messages
from explorer.server.mends.uploads import PLACES_PER_SESSION
from explorer.server.password import TRIES, TRIES_OF_ALL, WINDOW_S, Password, WrongTries
from explorer.server.visitor import COOKIE, HEADER
from tests.support.certificate import make_certificate
from tests.support.root import ROOT
from tests.support.serving import Address, free_port, served
from tests.support.waiting import eventually

PASSWORD = "correct horse battery"  # noqa: S105
HOSTILE = [
    "evil.com",
    "evil.com:{port}",
    "localhost.evil.com",
    "localhost.evil.com:{port}",
    "127.0.0.1.nip.io",
    "127.0.0.1.nip.io:{port}",
    "localhost:{port}@evil.com",
    "evil.com/localhost",
    "localhost, evil.com",
    "localhost evil.com",
    "localhost..",
    "xlocalhost",
    "192.168.0.7:{port}",
    "[fe80::1]",
    "[::1",
    "0x7f000001",
    "2130706433",
    "127.1",
    ":{port}",
    "",
]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: http.client.HTTPMessage
    text: str


def answered(connection: http.client.HTTPConnection) -> Answer:
    """Read the answer, and close the connection."""
    with contextlib.closing(connection), connection.getresponse() as response:
        return Answer(response.status, response.headers, response.read().decode("utf-8", "replace"))


def ask(
    address: str, path: str = "/", method: str = "GET", body: str = "", source: str = "127.0.0.1", **headers: str
) -> Answer:
    """Send a request to the server of an address; names of headers are given with _ for -."""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(address), timeout=30, source_address=(source, 0))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host="Host" in sent)
    if body:
        sent |= {"Content-Length": str(len(body)), "Content-Type": "application/x-www-form-urlencoded"}
    for name, value in sent.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode() or None)
    return answered(connection)


def raw(address: str, text: str) -> str:
    """Send bytes as they are; return the first line of the answer."""
    with socket.create_connection(("127.0.0.1", port_of(address)), 30) as connection:
        connection.sendall(text.encode())
        return connection.recv(65536).decode("latin-1").partition("\r\n")[0]


def stream(address: str, host: str | None = None, path: str = "/_stcore/stream", **options: Any) -> ClientConnection:
    """Open the websocket of a page, with a Host of one's choice."""
    sock = socket.create_connection(("127.0.0.1", port_of(address)), 30)
    uri = f"ws://{host or f'localhost:{port_of(address)}'}{path}"
    try:
        return connect(uri, sock=sock, max_size=None, **options)
    except InvalidStatus:
        sock.close()
        raise


def refusal(address: str, host: str | None = None, **options: Any) -> int:
    """Return the status with which a websocket is refused."""
    with pytest.raises(InvalidStatus) as caught:
        stream(address, host, **options)
    status: int = caught.value.response.status_code
    return status


# Hosts and origins.


@pytest.mark.parametrize("host", HOSTILE)
def test_another_host_gets_nothing(app: Address, host: str) -> None:
    named = host.format(port=port_of(app))
    assert ask(app, Host=named).status in (400, 421)
    assert ask(app, "/_stcore/health", Host=named).status in (400, 421)
    assert ask(app, Host=named, X_Forwarded_Host="localhost").status in (400, 421)


def test_a_rebound_name_opens_no_websocket_though_its_origin_agrees(app: Address) -> None:
    for host in ("evil.com", f"evil.com:{port_of(app)}", f"127.0.0.1.nip.io:{port_of(app)}"):
        assert refusal(app, host, origin=f"http://{host}") == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:{port}", "localhost.", "127.0.0.1:{port}", "[::1]:{port}", "localhost:1"]
)
def test_this_machine_is_served_by_its_names(app: Address, host: str) -> None:
    assert ask(app, Host=host.format(port=port_of(app))).status == 200


def test_requests_without_a_host_or_with_two_are_refused(app: Address) -> None:
    assert " 421 " in raw(app, "GET / HTTP/1.0\r\n\r\n")
    assert " 400 " in raw(app, "GET / HTTP/1.1\r\n\r\n")
    assert " 400 " in raw(app, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n\r\n")
    assert " 400 " in raw(app, "GET http://evil.com/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert " 421 " in raw(app, "GET / HTTP/1.1\r\nHost: evil.com\r\nX-Forwarded-Host: localhost\r\n\r\n")


def test_only_pages_of_this_server_open_a_websocket(app: Address) -> None:
    here = f"localhost:{port_of(app)}"
    for origin in ("http://evil.com", "http://localhost", f"http://127.0.0.1:{port_of(app)}", "null", f"ftp://{here}"):
        assert refusal(app, origin=origin) == 403
    with stream(app, origin=f"http://{here}"):
        pass
    with stream(app, origin=f"https://{here}"):  # a proxy that speaks TLS to the browser
        pass
    with stream(app):  # a program that is no browser
        pass


def test_other_pages_send_nothing_that_writes(app: Address) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(app, "/_stcore/upload_file/a/b", method, Origin="http://evil.com").status == 403
        assert ask(app, "/_stcore/upload_file/a/b", method, Origin="null").status == 403


def test_what_is_served_at_every_address() -> None:
    everywhere = served_hosts("0.0.0.0", ["Classroom.example.org"])  # noqa: S104
    own = socket.gethostname()
    for host in ("10.1.2.3:8501", "[2001:db8::1]", "classroom.example.org", own, f"{own.upper()}:80", "localhost"):
        assert everywhere.admits(host)
    for host in ("evil.com", "10.1.2.3.nip.io", "x.classroom.example.org", "[10.1.2.3]x"):
        assert not everywhere.admits(host)
    one = served_hosts("192.168.0.7")
    assert one.admits("192.168.0.7:8501")
    assert one.admits("localhost:8501")
    assert not one.admits("192.168.0.8:8501")
    assert ServedHosts().admits("127.0.0.1")
    assert not ServedHosts().admits(None)


@pytest.mark.parametrize("name", ["", "a b", "https://x.org", "x.org:80", "*", "*.org", "-", "x..org"])
def test_names_that_cannot_be_hosts_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a host"):
        served_hosts("localhost", [name])


def test_no_address_is_looked_up_on_the_internet(tmp_path: Path) -> None:
    """Streamlit would ask a service for the external address, at the start and for every foreign Origin."""
    asked, script, port = tmp_path / "asked", tmp_path / "start.py", free_port()
    script.write_text(
        f"""
import pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
from streamlit import net_util
def note(*_):
    pathlib.Path({str(asked)!r}).write_text("asked")
net_util.get_external_ip = net_util._make_blocking_http_get = note
from explorer.launch import main
main()
"""
    )
    with served([str(script), "--headless", "--host", "0.0.0.0", "--port", str(port)], port) as address:  # noqa: S104
        assert refusal(address, origin="http://evil.com") == 403
        assert refusal(address, f"10.9.8.7:{port}", origin="http://evil.com") == 403
        with stream(address, f"10.9.8.7:{port}", origin=f"http://10.9.8.7:{port}"):
            pass
        assert ask(address, "/_stcore/host-config", Origin="http://evil.com").status == 200
    assert not asked.exists()


# Headers and routes.


@pytest.mark.parametrize("path", ["/", "/compare", "/_stcore/health", "/_stcore/metrics", "/media/x", "/no/such.js"])
def test_every_answer_has_the_headers(app: Address, path: str) -> None:
    for answer in (ask(app, path), ask(app, path, Host="evil.com")):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value


def test_the_policy_lets_nothing_in_from_elsewhere() -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == "'none'"
    assert "'unsafe-inline'" not in policy["script-src"]
    assert "'unsafe-eval'" not in policy["script-src"].split()
    assert "'sha256-" in policy["script-src"]
    assert not re.search(r"https?:|\*", HEADERS["Content-Security-Policy"])


@pytest.mark.parametrize(
    "path",
    ["/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/agent/interact", "/_stcore/agent/openapi.json",
     "/_stcore/agent/mcp", "/auth/login", "/auth/logout", "/oauth2callback", "/app/static/x", "/_stcore/%6detrics"],
)  # fmt: skip
def test_what_the_app_does_not_use_is_closed(app: Address, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        assert ask(app, path, method).status == 404
    assert ask(app, "/_stcore/health").status == 200


# Uploads.


def next_message(connection: ClientConnection, kind: str) -> ForwardMsg:
    while True:
        message = ForwardMsg.FromString(connection.recv(timeout=60))  # type: ignore[arg-type]
        if message.WhichOneof("type") == kind:
            return message


def put(address: str, path: str, cookie: str = "", token: str = "") -> int:
    body = '--b\r\nContent-Disposition: form-data; name="f"; filename="g.json"\r\n\r\n{}\r\n--b--\r\n'
    connection = http.client.HTTPConnection("127.0.0.1", port_of(address), timeout=30)
    headers = {"Content-Type": "multipart/form-data; boundary=b", "Cookie": cookie, "X-Xsrftoken": token}
    connection.request("PUT", path, body, headers)
    return answered(connection).status


def test_uploads_go_only_where_the_server_said(app: Address) -> None:
    cookie = ask(app, "/_stcore/health").headers.get_all("Set-Cookie") or []
    cookie += ask(app, "/_stcore/host-config").headers.get_all("Set-Cookie") or []
    (xsrf,) = {one.partition(";")[0] for one in cookie if one.startswith("_streamlit_xsrf")}
    token = xsrf.partition("=")[2].strip('"')
    with stream(app) as page, stream(app) as other:
        page.send(BackMsg(rerun_script={"query_string": ""}).SerializeToString())
        session = next_message(page, "new_session").new_session.initialize.session_id
        other.send(BackMsg(rerun_script={"query_string": ""}).SerializeToString())
        strangers = next_message(other, "new_session").new_session.initialize.session_id

        def places(number: int) -> list[str]:
            request = {"request_id": "1", "file_names": ["g.json"] * number, "session_id": session}
            page.send(BackMsg(file_urls_request=request).SerializeToString())
            return [one.upload_url for one in next_message(page, "file_urls_response").file_urls_response.file_urls]

        (place,) = places(1)
        file_id = place.rpartition("/")[2]
        assert put(app, f"/_stcore/upload_file/{session}/invented", xsrf, token) == 404
        assert put(app, f"/_stcore/upload_file/{strangers}/{file_id}", xsrf, token) == 404
        assert put(app, f"/_stcore/upload_file/nobody/{file_id}", xsrf, token) == 404
        assert put(app, f"/_stcore/upload_file/{session}/{file_id}/x", xsrf, token) == 404
        assert ask(app, f"/_stcore/upload_file/{session}/invented", "DELETE", Cookie=xsrf).status == 404
        assert put(app, place) == 403  # without the token that Streamlit wants from its own page
        assert put(app, place, xsrf, token) == 204
        many = places(PLACES_PER_SESSION + 5)
        assert len(many) == PLACES_PER_SESSION
        assert put(app, place, xsrf, token) == 404  # it went for newer ones
        assert put(app, many[0], xsrf, token) == 204
    eventually(lambda: put(app, many[1], xsrf, token) in (400, 404))  # gone with its session


# What a page may send.


def session_of(connection: ClientConnection) -> str:
    connection.send(BackMsg(rerun_script={"query_string": ""}).SerializeToString())
    session: str = next_message(connection, "new_session").new_session.initialize.session_id
    return session


def test_a_session_is_given_back_to_its_browser_alone(app: Address) -> None:
    def opened(cookie: str, session: str = "", **headers: str) -> ClientConnection:
        known = ["streamlit", "token", *([session] if session else [])]
        return stream(
            app,
            subprotocols=known,
            additional_headers={"Cookie": f"{COOKIE}={cookie}", **headers},
            origin=f"http://localhost:{port_of(app)}",
        )

    mine, others = "m" * 32, "o" * 32
    with opened(mine) as page:
        session = session_of(page)
        with opened(others, session) as stranger:  # while it is open
            assert session_of(stranger) != session
        with opened(others, session, **{HEADER: mine}) as stranger:
            assert session_of(stranger) != session
        with opened("", session) as stranger:
            assert session_of(stranger) != session
    with opened(others, session) as stranger:  # while it may come back
        assert session_of(stranger) != session
    with opened(mine, session) as page:
        assert session_of(page) == session


def test_messages_without_a_use_are_dropped() -> None:
    kinds = {field.name for field in BackMsg.DESCRIPTOR.oneofs_by_name["type"].fields}
    refused_by_streamlit = {"debug_disconnect_websocket", "debug_shutdown_runtime"}
    used = {"rerun_script", "stop_script", "file_urls_request", "app_heartbeat", "backend_operation_request"}
    assert kinds - refused_by_streamlit - used == set(CLOSED)
    handled: list[str] = []
    runtime = SimpleNamespace(handle_backmsg=lambda _session, message, **_: handled.append(message.WhichOneof("type")))
    close_messages(runtime)
    for kind in sorted(kinds):
        message = BackMsg()
        if BackMsg.DESCRIPTOR.fields_by_name[kind].message_type is None:
            setattr(message, kind, True)
        else:
            getattr(message, kind).SetInParent()
        runtime.handle_backmsg("session", message, client=None)
    assert set(handled) == kinds - set(CLOSED)


def test_the_server_runs_no_git_for_its_visitors(tmp_path: Path) -> None:
    """A server with a `git` of ours on its path, which leaves a mark when it is called."""
    mark, program = tmp_path / "called", tmp_path / "git"
    program.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    program.chmod(0o755)
    port = free_port()
    arguments = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served(arguments, port, environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"}) as address:
        with stream(address) as page:
            session_of(page)
            page.send(BackMsg(load_git_info=True).SerializeToString())
            session_of(page)  # answered after it
        assert not mark.exists()


# The password.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    file = tmp_path_factory.mktemp("password") / "password"
    file.write_text(f"{PASSWORD}\n")
    port = free_port()
    arguments = ["-m", "explorer.launch", "--headless", "--port", str(port), "--password-file", str(file)]
    with served(arguments, port) as address:
        yield address


@pytest.fixture(scope="module")
def known() -> Password:
    return Password(PASSWORD)


def sign_in(address: str, password: str = PASSWORD, path: str = "/", **options: str) -> Answer:
    return ask(address, path, "POST", urlencode({"password": password}), **options)


def test_without_the_password_there_is_only_the_form(guarded: Address, known: Password) -> None:
    assert ask(guarded, "/_stcore/health").status == 200
    for path in ("/", "/sweep?over=memory", "/index.html", "/favicon.png", "//evil.com"):
        answer = ask(guarded, path)
        text = answer.text
        assert answer.status == 401
        assert '<input id="password" name="password" type="password"' in text
        assert "Streamlit" not in text
        assert answer.headers["Cache-Control"] == "no-store"
    for path in ("/_stcore/host-config", "/static/js/index.js", "/media/x", "/_stcore/upload_file/a/b"):
        assert ask(guarded, path).status in (401, 404)
        assert "form" not in ask(guarded, path).text
    assert refusal(guarded) == 403
    good = f"{known.cookie_name}={known.cookie}"
    with stream(guarded, additional_headers={"Cookie": good}) as page:
        page.send(BackMsg(rerun_script={"query_string": ""}).SerializeToString())
        next_message(page, "new_session")
    assert ask(guarded, Cookie=good).status == 200


def test_a_cookie_that_was_changed_is_none(guarded: Address, known: Password) -> None:
    cookie = known.cookie
    for wrong in (cookie[:-1], cookie + "0", cookie.upper(), "", "x", "é", cookie[::-1], f'"{cookie}"', known.token):
        assert ask(guarded, Cookie=f"{known.cookie_name}={wrong}".encode().decode("latin-1")).status == 401
    assert ask(guarded, Cookie=f"{known.cookie_name}x={cookie}").status == 401
    assert Password(PASSWORD).cookie == cookie  # that of the next start
    assert Password(PASSWORD + "x").cookie != cookie
    assert Password(PASSWORD + "x").cookie_name != known.cookie_name


def test_the_password_leads_back_to_what_was_asked_for(guarded: Address, known: Password) -> None:
    answer = sign_in(guarded, path="/sweep?over=memory&values=1%3A4&token=old")
    assert answer.status == 303
    assert answer.headers["Location"] == "/sweep?over=memory&values=1%3A4"
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{known.cookie_name}={known.cookie};")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie


@pytest.mark.parametrize("path", ["//evil.com", "///evil.com/x", "/\\evil.com", "/%5Cevil.com", "/%2F%2Fevil.com"])
def test_nobody_is_led_elsewhere(guarded: Address, known: Password, path: str) -> None:
    for answer in (sign_in(guarded, path=path), ask(guarded, f"{path}?token={known.token}")):
        if answer.status == 303:
            assert re.match(r"/[^/\\]", answer.headers["Location"])


def test_the_token_of_the_first_address_lets_in_and_goes(guarded: Address, known: Password) -> None:
    answer = ask(guarded, f"/compare?token={known.token}&x=%0D%0ASet-Cookie:%20a=b")
    assert answer.status == 303
    assert answer.headers["Location"] == "/compare?x=%0D%0ASet-Cookie%3A+a%3Db"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert len(answer.headers.get_all("Set-Cookie") or []) == 1
    assert ask(guarded, "/?token=wrong").status == 401
    good = f"{known.cookie_name}={known.cookie}"
    assert ask(guarded, "/?token=wrong&x=1", Cookie=good).headers["Location"] == "/?x=1"
    assert refusal(guarded, path=f"/_stcore/stream?token={known.token}") == 403


def test_trying_passwords_is_stopped_for_who_does_it(guarded: Address) -> None:
    tries = [sign_in(guarded, f"guess {i}", source="127.0.0.9") for i in range(TRIES + 1)]
    assert [answer.status for answer in tries] == [401] * TRIES + [429]
    assert 0 < int(tries[-1].headers["Retry-After"]) <= WINDOW_S
    assert "Too many wrong passwords. Try again in" in tries[-1].text
    assert sign_in(guarded, source="127.0.0.9").status == 429
    assert sign_in(guarded, source="127.0.0.10").status == 303


def test_passwords_that_are_sent_at_once_are_counted_like_others(guarded: Address) -> None:
    port = port_of(guarded)
    guesses = [urlencode({"password": f"guess {i}"}) for i in range(2 * TRIES)] + [urlencode({"password": PASSWORD})]
    with contextlib.ExitStack() as stack:
        waiting = []
        for body in guesses:
            connection = socket.create_connection(("127.0.0.1", port), 30, source_address=("127.0.0.13", 0))
            stack.enter_context(connection)
            head = f"POST / HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall((head + body[:-1]).encode())
            waiting.append((connection, body[-1:]))
        answers = []
        for connection, rest in waiting:  # all were let as far as this before any of them was wrong
            connection.sendall(rest.encode())
            answers.append(int(connection.recv(65536).split()[1]))
    assert answers == [401] * TRIES + [429] * (len(guesses) - TRIES)


def test_only_a_proxy_on_this_machine_says_for_whom_it_asks(guarded: Address) -> None:
    def tried(source: str, client: str) -> int:
        return sign_in(guarded, "a guess", source=source, X_Forwarded_For=client).status

    assert [tried("127.0.0.12", f"10.0.0.{i}") for i in range(TRIES + 1)][-1] == 429
    assert [tried("127.0.0.1", "10.1.1.1") for _ in range(TRIES + 1)][-1] == 429
    assert tried("127.0.0.1", "10.1.1.2") == 401
    assert (
        tried("127.0.0.1", "10.1.1.1, 10.1.1.3") == 401
    )  # the last is what the proxy saw, the rest is what it was told


def test_wrong_tries_are_few_and_pass() -> None:
    now_s = [0.0]
    tries = WrongTries(lambda: now_s[0])
    for i in range(10 * TRIES_OF_ALL):
        tries.add(f"client {i}")
    assert len(tries._tries) == TRIES_OF_ALL
    assert tries.wait_s("another") == WINDOW_S
    now_s[0] = WINDOW_S - 0.5
    assert tries.wait_s("another") == 1
    now_s[0] = WINDOW_S
    assert tries.wait_s("another") == 0
    assert not tries._tries


@pytest.mark.parametrize("body", ["password=" + "x" * 10_000, "a=b&" * 30, "password=%ff%fe", "password"])
def test_nonsense_in_the_form_is_refused(guarded: Address, body: str) -> None:
    assert ask(guarded, "/", "POST", body, source="127.0.0.11").status in (400, 401, 413)


def test_with_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    port = free_port()
    start = ["-m", "explorer.launch", "--headless", "--port", str(port), "--host", "localhost", "--password"]
    context = ssl.create_default_context(cafile=str(certificate))
    with served([*start, "--certificate", str(certificate), "--key", str(key)], port, context) as address:
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=30)
        text = eventually(lambda: re.search(r"\?token=(\w+)", address.output()))
        connection.request("GET", f"/?token={text[1]}")
        answer = answered(connection)
        assert answer.status == 303
        assert "Secure" in answer.headers["Set-Cookie"]


# The command.


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", ""], "is no address"),
        (["--host", "unix:///tmp/x"], "is no address"),
        (["--host", "203.0.113.7"], "is no address of this machine"),
        (["--port", "70000"], "give 1 to 65535"),
        (["--allow-host", "https://x.org"], "is no name of a host"),
        (["--certificate", "x.pem"], "go together"),
        (["--certificate", "x.pem", "--key", "y.pem"], "cannot be used"),
        (["--password-file", "no-such-file"], "cannot be read"),
        (["--password-file", "/dev/null"], "has 0 characters; give one of 8 or more"),
    ],
)
def test_options_that_cannot_be_used_are_one_sentence(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from explorer.launch import main

    monkeypatch.setattr(sys, "argv", ["placement-explorer", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    written = capsys.readouterr().err
    assert sentence in written
    assert written.count("\n") == 1


def test_limits_are_the_operators(tmp_path: Path) -> None:
    from explorer.launch import _limits, _parser

    assert _limits(_parser().parse_args(["--keep-in-memory"])) == Limits()
    given = ["--solvers", "3", "--longest-solve", "90", "--solver-memory", "1.5", "--largest-graph", "2000"]
    folder = tmp_path / "kept"
    expected = Limits(3, 90.0, 1.5 * 2**30, 2000, 8000, folder)
    assert _limits(_parser().parse_args([*given, "--keep-in", str(folder)])) == expected
    assert folder.stat().st_mode & 0o777 == 0o700
    ports = [_limits(_parser().parse_args(["--port", port])).keep_in for port in ("8501", "8502", "0")]
    assert None not in ports[:2]
    assert ports[0] != ports[1]
    assert ports[2] is None


@pytest.mark.parametrize(
    "arguments", [["--solvers", "0"], ["--solvers", "1.5"], ["--longest-solve", "nan"], ["--solver-memory", "-1"]]
)
def test_limits_that_cannot_be_used_are_named(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from explorer.launch import _parser

    with pytest.raises(SystemExit) as caught:
        _parser().parse_args(arguments)
    assert caught.value.code == 2
    assert f"argument {arguments[0]}: '{arguments[1]}' is no " in capsys.readouterr().err


def test_the_start_says_who_can_reach_it() -> None:
    port = free_port()
    start = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served([*start, "--host", "0.0.0.0"], port) as address:  # noqa: S104
        eventually(lambda: "can open it" in address.output())
        told = address.output()
        assert "Everybody who can reach this machine over the network, without a password" in told
        assert "not encrypted" in told
        assert "streamlit" not in told.lower()
    with served([*start, "--password"], port) as address:
        eventually(lambda: "token=" in address.output())
        told = address.output()
        assert "network" not in told
        found = re.search(r"^Password: (\S{12})$", told, re.MULTILINE)
        assert found is not None
        assert Password(found[1]).token in told
        assert sign_in(address, found[1]).status == 303


# The log.


EVIL = "x\n2026-01-01 00:00:00.000 All is well\r\x1b[2J\x9b31m\u202e\u2028"


def test_no_visitor_writes_a_line_of_the_log(app: Address) -> None:
    request = {"request_id": EVIL, "session_id": EVIL, "deferred_file": {"file_id": EVIL}}
    with stream(app) as page:
        session = session_of(page)
        for asked in (request, request | {"session_id": session}):
            page.send(BackMsg(backend_operation_request=asked).SerializeToString())
        eventually(lambda: "MediaFileStorageError" in app.output() and "session ID mismatch" in app.output())
    told = app.output()
    assert "2026-01-01" in told
    assert "\n2026-01-01" not in told
    assert all(c.isprintable() or c == "\n" for c in told)


def test_the_log_has_no_line_for_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    from streamlit.logger import get_logger

    log.keep_in_order()
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    session, websocket = get_logger(log.SESSION_LOGGER), get_logger(log.WEBSOCKET_LOGGER)
    for logger in (session, websocket):
        logger.addHandler(handler)
    try:
        session.info("The fragment with id %s does not exist anymore - it might have been removed ...", "abc")
        session.warning("Something else of %s", "abc")
        for error in (
            RuntimeError("Unexpected ASGI message 'websocket.send', after sending 'websocket.close'."),
            RuntimeError('Cannot call "send" once a close message has been sent.'),
            ConnectionResetError(),
            ValueError("a fault of ours"),
        ):
            try:
                raise error
            except (RuntimeError, OSError, ValueError):
                websocket.exception("Error sending websocket payload")
        assert lines == ["Something else of abc", "Error sending websocket payload"]
    finally:
        for logger in (session, websocket):
            logger.removeHandler(handler)


def test_the_lines_left_out_are_those_streamlit_writes() -> None:
    from streamlit.runtime import app_session
    from streamlit.web.server.starlette import starlette_websocket

    def source(module: Any) -> str:
        return Path(module.__file__).read_text(encoding="utf-8")

    assert '"The fragment with id %s does not exist anymore' in source(app_session)
    assert '"Error sending websocket payload"' in source(starlette_websocket)
    assert (app_session.__name__, starlette_websocket.__name__) == (log.SESSION_LOGGER, log.WEBSOCKET_LOGGER)
