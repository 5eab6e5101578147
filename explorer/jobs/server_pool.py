"""The one pool of solver processes of this server, shared by all its sessions."""

from functools import cache

from streamlit import runtime

from explorer.jobs.pool import WorkerPool
from explorer.server.janitor import FORGETTERS_WHEN_ALONE
from explorer.server.limits import limits


@cache
def solver_pool() -> WorkerPool:
    """Return the pool; the first call starts it with one process warming up, so call it before the page needs it."""
    allowed = limits()
    pool = WorkerPool(
        max_asked=allowed.solvers, longest_s=allowed.longest_solve_s, memory_bytes=allowed.solver_memory_bytes
    )
    pool.start_reaper(is_open)
    FORGETTERS_WHEN_ALONE.append(pool.forget_answers)
    return pool


def is_open(session: str) -> bool:
    """Whether a browser still shows this session; without a server (in tests) every session counts as open."""
    return not runtime.exists() or runtime.get_instance().is_active_session(session)
