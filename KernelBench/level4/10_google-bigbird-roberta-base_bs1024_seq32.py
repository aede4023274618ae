"""The causal language model of BigBird base, from transformers: 12 post-norm layers of width 768; the model's
own configuration is not a decoder's, so attention is bidirectional, and dense, as the sequence is too short
for the block-sparse form, to which the model changes in its first forward pass. x of shape (batch_size,
sequence_length) holds token ids (int64, below vocab_size), no mask is given, and the result is the logits of
shape (batch_size, sequence_length, vocab_size), float32. Weights are drawn from the architecture's own
initialisation, or are the published ones where the environment sets KERNELBENCH_PRETRAINED=1; the network is
in evaluation mode. Setting tiny gives a model of two small layers for tests.
"""

import os

import torch
import torch.nn as nn

model_name = "google/bigbird-roberta-base"
sequence_length = 32
batch_size = 1024
tiny = False
architecture = {
    "model_type": "big_bird",
    "vocab_size": 50358,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 4096,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "use_cache": True,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "sep_token_id": 66,
    "attention_type": "block_sparse",
    "use_bias": True,
    "rescale_embeddings": False,
    "block_size": 64,
    "num_random_blocks": 3,
    "is_decoder": False,
    "tie_word_embeddings": True,
}
if tiny:
    architecture |= {
        "vocab_size": 128,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "block_size": 4,
        "num_random_blocks": 1,
    }
vocab_size = architecture["vocab_size"]


class Model(nn.Module):
    """The language model named model_name with the given configuration; returns its logits."""

    def __init__(self, model_name, config):
        super().__init__()
        from transformers import AutoModelForCausalLM

        self.model_name = model_name
        self.config = config
        if os.environ.get("KERNELBENCH_PRETRAINED") == "1" and not tiny:
            model = AutoModelForCausalLM.from_pretrained(model_name, config=config, dtype=torch.float32)
        else:
            model = AutoModelForCausalLM.from_config(config)
        self.model = model.eval()

    def forward(self, x):
        return self.model(x).logits


def load_config():
    """The configuration that `architecture` describes."""
    from transformers import AutoConfig

    return AutoConfig.for_model(**architecture)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, vocab_size, (batch_size, sequence_length))]


def get_init_inputs() -> list:
    return [model_name, load_config()]
