"""What the user looks at in the picture (level, colours, lanes, presentation, notes), kept the same as the address.

The picture decides and remembers by itself; it tells of a choice when the user pauses, and takes one over when the
address is a new one.
"""

from collections.abc import Collection
from typing import Any

import streamlit as st

from explorer.picture.component import Look, PictureOptions, look_from_state
from explorer.state import session
from explorer.words.wording import plain

PICTURE = "picture"
USUAL_COLOUR, USUAL_ARRANGEMENT = "device", "network"


def picture_options(title: str = "", facts: str = "") -> PictureOptions:
    """Return how the picture is to be shown: as the address says, when that is a new one.

    `title` and `facts` head it in a presentation.
    """
    link = session.address().settled_link
    if link is not None:
        known = session.look()
        parts = (link.level, link.colour, link.lanes, link.present, link.notes, link.by_device)
        asks = any(part is not None for part in parts)
        if asks or known is not None or look_from_state(st.session_state.get(PICTURE)) is not None:
            serial = 1 if known is None else known.serial + 1
            arrangement = "lanes" if link.lanes else USUAL_ARRANGEMENT
            colour, present, notes = link.colour or USUAL_COLOUR, bool(link.present), link.notes or ()
            by_device = bool(link.by_device)
            session.remember_look(Look(link.level, colour, arrangement, serial, present, notes, by_device))
    return PictureOptions(look=session.look(), title=title, facts=facts)


def current_look() -> Look | None:
    """Return what the user looks at: as the picture has told since it was last asked, else as it was asked."""
    asked = session.look()
    told = look_from_state(st.session_state.get(PICTURE))
    serial = 0 if asked is None else asked.serial
    return told if told is not None and told.serial == serial else asked


def show_missing_level(levels: Collection[str]) -> None:
    """Say what levels there are where the address asks for another one."""
    asked, look = session.look(), current_look()
    level = None if look is None else look.level
    if level is None or asked is None or asked.level != level or level in levels:
        return
    said = f"Ignored from the link: level {level} (allowed: {', '.join(levels)})."
    st.warning(plain(said), icon=":material/link_off:")


def look_for_address() -> dict[str, Any]:
    """Return the parts of a link that say what is looked at, without what is usual."""
    look = current_look()
    if look is None:
        return {}
    return {
        "level": look.level,
        "colour": None if look.colour == USUAL_COLOUR else look.colour,
        "lanes": True if look.arrangement == "lanes" else None,
        "present": True if look.present else None,
        "notes": look.notes or None,
        "by_device": True if look.by_device else None,
    }
