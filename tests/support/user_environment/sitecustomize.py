"""Hides what a process need not import, from a process that finds this folder first.

TensorFlow and Keras import these packages where they are there, which is a third of the time that
a process needs to start. Only development installs JAX; `recsys-attn` itself hides scikit-learn
from Keras, and then shows it again.
"""

import os
import sys

if os.environ.get("KERAS_BACKEND") != "jax":
    sys.modules.update(dict.fromkeys(("jax", "sklearn")))
