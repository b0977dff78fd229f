"""Signatures of a served version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tensorflow_serving.apis import get_model_metadata_pb2

from serving.common.errors import signature_not_found
from serving.encoding.features import TensorSpec


@dataclass(frozen=True)
class SignatureSpec:
    """Inputs and outputs of one signature by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


@dataclass(frozen=True)
class ModelMetadata:
    """Signatures of one version of a model by name."""

    name: str
    version: int
    signatures: Mapping[str, SignatureSpec]

    @classmethod
    def from_proto(cls, response: get_model_metadata_pb2.GetModelMetadataResponse) -> ModelMetadata:
        definitions = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(definitions)
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
        )

    def signature(self, key: str) -> SignatureSpec:
        """Returns a signature; raises FailedPrecondition if the model lacks it."""
        if key not in self.signatures:
            raise signature_not_found(key)
        return self.signatures[key]


def _specs(infos: Mapping[str, Any]) -> Mapping[str, TensorSpec]:
    return MappingProxyType({name: TensorSpec.from_proto(infos[name]) for name in sorted(infos)})
