"""What stays on its way to the browser when a run of the page begins."""

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

from explorer.server.mends.messages import keep_answers


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForwardMsgQueue, "clear", ForwardMsgQueue.clear)  # given back after the test
    keep_answers()
    keep_answers()  # twice is once


def queue_of_all() -> ForwardMsgQueue:
    queue = ForwardMsgQueue()
    for answer in ("file_urls_response", "backend_operation_response"):
        message = ForwardMsg()
        getattr(message, answer).SetInParent()
        queue.enqueue(message)
    for text in ("old", "older"):
        delta = ForwardMsg()
        delta.delta.new_element.markdown.body = text
        delta.metadata.delta_path.extend([0, len(text)])
        queue.enqueue(delta)
    started = ForwardMsg()
    started.new_session.SetInParent()
    queue.enqueue(started)
    return queue


def kinds(queue: ForwardMsgQueue) -> list[str | None]:
    return [message.WhichOneof("type") for message in queue.flush()]


def test_a_run_that_begins_drops_what_was_drawn_before_and_no_answer() -> None:
    queue = queue_of_all()
    queue.clear(retain_lifecycle_msgs=True)
    assert kinds(queue) == ["file_urls_response", "backend_operation_response", "new_session"]


def test_a_run_of_a_fragment_keeps_every_answer_once() -> None:
    queue = queue_of_all()
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=["one"])
    found = kinds(queue)
    assert found.count("file_urls_response") == found.count("backend_operation_response") == 1
    assert found[:2] == ["file_urls_response", "backend_operation_response"]


def test_a_session_that_ends_keeps_nothing() -> None:
    queue = queue_of_all()
    queue.clear()
    assert kinds(queue) == []
