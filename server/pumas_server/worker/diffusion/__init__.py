"""Image generation on ONNX Runtime: an exported text-to-image folder, and the steps to a PNG."""
