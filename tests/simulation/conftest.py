"""Nights in simulated time run where they are asked for: `.ci/run --all` does.

That nobody has anything to do is seen by the processor time of this process. Beside a whole
suite, that is now and then taken for true too early.
"""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("KANISTER_PY_NIGHT") else ["test_night.py"]
