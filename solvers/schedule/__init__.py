"""A split run over micro-batches: who computes, receives and sends what, and when."""
