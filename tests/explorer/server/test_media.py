"""A file made for a download is there until its browser has had time to fetch it, whoever else is at work."""

from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from explorer.server.mends.media import collect, leave_to_janitor


def made_on_a_click(manager: MediaFileManager) -> str:
    """Have a file made as a download button with a function does; return the name of the file."""
    placeholder = manager.add_deferred(lambda: b"1,2", "text/csv", "button", "table.csv")
    return manager.execute_deferred(placeholder).rpartition("/")[2]


def has(storage: MemoryMediaFileStorage, name: str) -> bool:
    return name.partition(".")[0] in {name_.partition(".")[0] for name_ in storage._files_by_id}


def test_runs_of_other_pages_do_not_delete_it_and_the_janitor_does() -> None:
    storage = MemoryMediaFileStorage("/media")
    manager = MediaFileManager(storage)
    leave_to_janitor(manager)
    name = made_on_a_click(manager)
    assert has(storage, name)
    for _ in range(10):
        manager.remove_orphaned_files()  # what Streamlit does at the end of every run of any page
    assert has(storage, name)
    collect(manager)
    assert has(storage, name)
    collect(manager)
    assert not has(storage, name)
