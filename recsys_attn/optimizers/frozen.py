"""Variables may be frozen after the optimizer was built for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from recsys_attn.tensors import Tensor


class AllowsFrozen:
    """On JAX, too, an optimizer updates those of its variables that are still trainable.

    There Keras hands over values without their variables, and its own optimizers take them for
    the values of all variables that they were built for.
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
