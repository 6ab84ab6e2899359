"""Tells who and where it is."""

import os
import sys

print(
    os.environ["GREETING"],
    f"uid={os.getuid()}",
    f"python={sys.version_info[0]}.{sys.version_info[1]}",
)
