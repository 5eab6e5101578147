"""Files made for a download stay until a browser has had the time to fetch them.

A download button with a function has its file made on the click, for nobody: no page refers to it. Streamlit marks such
files at the end of any page's run, and deletes them at the end of the next one. With thirty people at work that is
before the browser of the one who clicked has asked for it. So runs leave files alone, and the janitor collects them.
"""

from typing import Any


def leave_to_janitor(manager: Any) -> None:
    """Have Streamlit's manager of files delete nothing by itself."""
    manager.remove_orphaned_files = lambda: None


def collect(manager: Any) -> None:
    """Delete the files that no page refers to, if they were that at the last call already, and mark the others."""
    type(manager).remove_orphaned_files(manager)
