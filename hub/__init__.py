"""A JupyterHub for a room of learners on one Linux host: `course workshop start`.

The hub, the proxy and the learners' servers run in an environment of their own (build/hub);
the learners' sessions run in the course's, read-only.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "hub"
