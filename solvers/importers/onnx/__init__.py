"""Bring in ONNX files: what each operator of the graph computes, reads and writes, by the shapes of its tensors."""
