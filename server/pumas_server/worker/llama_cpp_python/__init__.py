"""The engine of llama-cpp-python's server, as a process with llama-server's surface (ADR 18)."""
