"""The causal language model of OPT 1.3B, from transformers: a decoder of 24 pre-norm layers of width 2048
with causal attention and ReLU. x of shape (batch_size, sequence_length) holds token ids (int64, below
vocab_size), no mask is given, and the result is the logits of shape (batch_size, sequence_length,
vocab_size), float32. Weights are drawn from the architecture's own initialisation, or are the published ones
where the environment sets KERNELBENCH_PRETRAINED=1; the network is in evaluation mode. Setting tiny gives a
model of two small layers for tests.
"""

import os

import torch
import torch.nn as nn

model_name = "facebook/opt-1.3b"
sequence_length = 2047
batch_size = 1
tiny = False
architecture = {
    "model_type": "opt",
    "vocab_size": 50272,
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "ffn_dim": 8192,
    "max_position_embeddings": 2048,
    "do_layer_norm_before": True,
    "word_embed_proj_dim": 2048,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "num_attention_heads": 32,
    "activation_function": "relu",
    "layerdrop": 0.0,
    "init_std": 0.02,
    "use_cache": True,
    "pad_token_id": 1,
    "bos_token_id": 2,
    "eos_token_id": 2,
    "enable_bias": True,
    "layer_norm_elementwise_affine": True,
    "tie_word_embeddings": True,
}
if tiny:
    architecture |= {
        "vocab_size": 128,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "ffn_dim": 64,
        "word_embed_proj_dim": 32,
        "num_attention_heads": 2,
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
