"""Signatures of a served version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from serving.common.errors import signature_not_found
from serving.common.signature_names import first_task
from serving.encoding.features import TensorSpec
from serving.protos import tensorflow_serving_pb2 as pb


@dataclass(frozen=True)
class SignatureSpec:
    """Inputs and outputs of one signature by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


@dataclass(frozen=True)
class ModelMetadata:
    """Signatures of one version of a model by name.

    Attributes:
        first_task: The first task of the experiment file, by which candidates are ranked if the
            request names none; None for a model of another origin.
    """

    name: str
    version: int
    signatures: Mapping[str, SignatureSpec]
    first_task: str | None = None

    @classmethod
    def from_proto(cls, response: pb.GetModelMetadataResponse) -> ModelMetadata:
        # `Unpack` would refuse the name of TensorFlow Serving's message.
        definitions = pb.SignatureDefMap.FromString(response.metadata["signature_def"].value)
        return cls(
            name=response.model_spec.name,
            version=response.model_spec.version.value,
            signatures=MappingProxyType(
                {
                    key: SignatureSpec(_specs(definition.inputs), _specs(definition.outputs))
                    for key, definition in definitions.signature_def.items()
                    if not key.startswith("__")  # internal to TensorFlow
                }
            ),
            first_task=first_task(definitions.signature_def),
        )

    def signature(self, key: str) -> SignatureSpec:
        """Returns a signature; raises FailedPrecondition if the model lacks it."""
        if key not in self.signatures:
            raise signature_not_found(key)
        return self.signatures[key]


def _specs(infos: Mapping[str, Any]) -> Mapping[str, TensorSpec]:
    return MappingProxyType({name: TensorSpec.from_proto(infos[name]) for name in sorted(infos)})
