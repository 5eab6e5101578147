"""Run ONNX files with ONNX Runtime, to measure their operators; nothing else here needs it."""
