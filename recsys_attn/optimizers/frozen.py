"""Variables frozen after the optimizer was built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from recsys_attn.tensors import Tensor


class AllowsFrozen:
    """Lets an optimizer on JAX update the variables that are still trainable.

    On JAX Keras passes values without variables, and its own optimizers take them for the values of
    all variables from `build`.
    """

    def stateless_apply(
        self: Any,
        optimizer_variables: Sequence[Tensor],
        grads: Sequence[Tensor],
        trainable_variables: Sequence[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        known = [variable for variable in self._trainable_variables if variable.trainable]
        if len(known) != len(trainable_variables):
            raise ValueError(
                f"{type(self).__name__} was built for other variables than are trainable now; "
                "compile the model with a new optimizer. Received: "
                f"{len(trainable_variables)} variables, of which it knows {len(known)}"
            )
        values = [
            *zip(known, trainable_variables, strict=True),
            *zip(self.variables, optimizer_variables, strict=True),
        ]
        with keras.StatelessScope(values) as scope:
            self.apply(grads, known)
        after = scope.get_current_value
        return [after(v) for v in known], [after(v) for v in self.variables]
