"""How the functions of the DP kernels are compiled.

They work on arrays that they are given and allocate none, so nobody has to count references to these. numba would do
so wherever a function with several exits is handed a tuple of arrays, with two atomic additions per array and call:
half the time of the label setting for one kind, and nine tenths for several. `_nrt=False`, which numba's own sorting
uses, leaves that out; a function that allocates after all does not compile and is for plain `njit`.

numba's cache on disk notices changes of a function's own file only; for others see `solvers.kernel_files`.
"""

from typing import Any

from numba import njit

compiled: Any = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
inlined: Any = njit(cache=True, nogil=True, _nrt=False, forceinline=True)  # type: ignore[call-overload]
"""For a step of an inner loop that is a function only to be read: it would be handed dozens of arrays."""
