"""The engine of llama-cpp-python's own server, as a process with llama-server's surface (ADR 18)."""
