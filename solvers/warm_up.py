"""Compile the solver kernels ahead of the first solve; `make install` runs it, `python -m solvers.warm_up` too."""
