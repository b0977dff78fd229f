"""Hides what only development installs, from a process that finds this folder first.

TensorFlow and Keras import these packages where they are there, which is a third of the time that
a process needs to start.
"""

import os
import sys

if os.environ.get("KERAS_BACKEND") != "jax":
    sys.modules.update(dict.fromkeys(("jax", "sklearn")))
