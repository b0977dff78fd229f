"""Python for the peers: a virtual environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def python_of(place: Path) -> Path | None:
    """Returns the Python of a virtual environment, or the path if it is a Python; or None."""
    for path in (place, place / "bin" / "python", place / "Scripts" / "python.exe"):
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()
    return None


def install(folder: Path) -> None:
    """Makes the environment. Where packages come from is pip's to know, from its settings."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", FOLDER / "imports.txt"], check=True)
    subprocess.run([*pip, "--no-deps", "-r", FOLDER / "requirements.txt"], check=True)
