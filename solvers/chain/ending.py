"""What ended a search for the best chain."""

from enum import Enum, auto


class Ending(Enum):
    """Why a search did not go on."""

    ANSWERED = auto()
    """The optimum, or a plan within the gap asked for."""
    NO_SPLIT = auto()
    """It is proven that there is no chain split."""
    STOPPED = auto()
    """It was stopped, as when time is up."""
    MEMORY = auto()
    """Its tables would take more than they may."""
    IDEALS = auto()
    """It came to more ideals than tables of that size are allowed."""
    MIXES = auto()
    """There are too many mixes of devices of several types."""
