"""The model catalogue with load and unload: section 5 of LMSP 1.0, and nothing else of it."""
