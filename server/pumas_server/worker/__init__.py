"""The serving pod: fetch and inspect a file, run one engine as a child, tell the truth about it."""
