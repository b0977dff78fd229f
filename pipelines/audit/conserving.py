"""Layer-wise relevance propagation in its conserving form, by gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from pipelines.common.errors import PipelineError
from recsys_attn.attention import Dense, Disentangled, HeadsCall
from recsys_attn.constant_factors import constant_factors
from recsys_attn.embeddings import example_inputs
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import AttentionPlace, watch_attention

Visit = Callable[[AttentionPlace, HeadsCall], HeadsCall]


@contextmanager
def conserving(model: RankingModel, visit: Visit = lambda place, call: call) -> Iterator[None]:
    """Makes input times gradient the relevance of CP-LRP, in one call of a model.

    Attention weights, slopes of activations and statistics of norms are constants, so that the
    model is linear at the row: all relevance of attention goes through the values, and the
    relevances of the inputs sum to the logit but for biases and other constants, such as positions
    and the strength of an interest.

    Args:
        model: The model that is called inside, once.
        visit: Sees each attention, with its constant weights.

    Raises:
        PipelineError: An attention does not make its output of weights and values.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention", ACL 2019, arXiv 1905.09418, with
    the constant weights of "When LRP diverges from leave-one-out in Transformers", arXiv
    2510.18810. The authors of LXT (github.com/rachtibat/LRP-eXplains-Transformers) state that
    layer-wise relevance propagation is patented, and free for personal and scientific use only.
    """

    def constant(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
        mechanism = call.mechanism
        pair_values = getattr(mechanism, "pair_values", None)
        if not isinstance(mechanism, Dense | Disentangled) or pair_values is not None:
            raise PipelineError(
                "`evaluation.layer_wise_relevance` holds the weights of attention constant, which "
                f"needs 'dense' mechanisms without `pair_values`. Received at {place}: "
                f"{type(mechanism).__name__}. Remove the key."
            )
        weights = tf.stop_gradient(call.weights)
        value = tf.transpose(call.value, (0, 2, 1, 3))
        output = tf.transpose(tf.matmul(weights, value), (0, 2, 1, 3))
        return visit(place, call._replace(output=output, weights=weights))

    with constant_factors(), watch_attention(model, constant):
        yield


def require_conserving(model: RankingModel) -> None:
    """Raises unless the relevance of a model can be propagated.

    Raises:
        PipelineError: As for `conserving`.
    """
    with conserving(model):
        model(example_inputs(model.schema), training=False)
