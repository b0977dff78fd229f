"""When Python's garbage is collected."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
import weakref
from serving.common.gc_tuning import collect_garbage, hide_imports

class Cycle:
    def __init__(self):
        self.own = self

gc.disable()
before = weakref.ref(Cycle())
collect_garbage()
print(before() is None)
hide_imports()
after = weakref.ref(Cycle())
kept = Cycle()
collect_garbage()
print(after() is None, gc.get_freeze_count() > 0, kept.own is kept)
"""


def test_garbage_is_collected_where_imports_are_hidden_and_not_elsewhere() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False", "True True True"], done.stderr
