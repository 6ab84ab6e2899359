"""The ONNX Runtime engine: a process of its own that speaks the dialect of `llama-server`."""
