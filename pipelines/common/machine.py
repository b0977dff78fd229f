"""The hardware of this machine, as a report names it."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path
from typing import Any


def machine(accelerators: list[str]) -> dict[str, Any]:
    """Processor, usable cores, memory in bytes, and the names of the accelerators.

    Args:
        accelerators: As TensorFlow names them; this module does not import it.
    """
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "accelerators": accelerators,
    }


def _processor() -> str:
    with contextlib.suppress(OSError):  # not on every system
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
