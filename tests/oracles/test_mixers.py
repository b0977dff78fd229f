"""Phil Wang's gMLP and MLP-Mixer against ours."""

from __future__ import annotations

from typing import Any

import pytest

from recsys_attn.blocks import GatingMixer, TokenMixer, TransformerBlock
from tests.oracles.support import agree, normal, numpy, oracle, tensor

B, S, E, U = 2, 11, 6, 14
EVENTS = normal(1, B, S, E)


def random(module: Any) -> Any:
    """A module of PyTorch with weights that are not small."""
    torch = oracle("torch")
    torch.manual_seed(0)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return module.eval()


def linear(module: Any) -> list[Any]:
    return [numpy(module.weight).T, numpy(module.bias)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [None, 5], ids=["gMLP", "aMLP"])
def test_gmlp(size: int | None, causal: bool) -> None:
    """Their norms have an epsilon of 1e-5, and their tiny attention has no bias."""
    block = oracle("g_mlp_pytorch.g_mlp_pytorch").gMLPBlock
    theirs = random(block(dim=E, dim_ff=2 * U, seq_len=S, attn_dim=size, causal=causal))
    ours = GatingMixer(S, units=2 * U, causal=causal, attention_size=size)
    ours.build(EVENTS.shape)
    ours.norm.epsilon = theirs.sgu.norm.eps
    ours.hidden.set_weights(linear(theirs.proj_in[0]))
    ours.norm.set_weights([numpy(theirs.sgu.norm.weight), numpy(theirs.sgu.norm.bias)])
    ours.output_layer.set_weights(linear(theirs.proj_out))
    ours.gate_kernel.assign(numpy(theirs.sgu.weight)[0])
    ours.gate_bias.assign(numpy(theirs.sgu.bias)[0])
    if size is not None:
        kernel = numpy(theirs.attn.to_qkv.weight).T
        ours.projection.set_weights([kernel, 0 * kernel[0]])
        ours.attended.set_weights(linear(theirs.attn.to_out))
    agree("g-mlp-pytorch", ours(EVENTS), theirs(tensor(EVENTS)))


def test_mlp_mixer() -> None:
    """A block of theirs: a network over positions, then one over channels."""
    build = oracle("mlp_mixer_pytorch.mlp_mixer_pytorch").MLPMixer
    model = build(
        image_size=(1, S), channels=1, patch_size=1, dim=E, depth=1, num_classes=1,
        expansion_factor=3, expansion_factor_token=2,
    )  # fmt: skip
    positions, channels = random(model)[2]
    ours = TransformerBlock(TokenMixer(S, units=3 * E), 2 * E, activation="gelu")
    ours.build(EVENTS.shape)
    mixed, fed = ours.sublayers
    for sublayer, theirs in ((mixed, positions), (fed, channels)):
        sublayer.entry_norm.epsilon = theirs.norm.eps
        sublayer.entry_norm.set_weights([numpy(theirs.norm.weight), numpy(theirs.norm.bias)])
    first, last = positions.fn[0], positions.fn[3]
    own = {weight.name: weight for weight in ours.attention.weights}
    for name, conv in (("hidden", first), ("output", last)):
        own[f"{name}_kernel"].assign(numpy(conv.weight)[..., 0].T)
        own[f"{name}_bias"].assign(numpy(conv.bias))
    ours.feed_forward.set_weights([*linear(channels.fn[0]), *linear(channels.fn[3])])
    expected = channels(positions(tensor(EVENTS)))
    agree("mlp-mixer-pytorch", ours(EVENTS), expected)
