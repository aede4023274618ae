"""The causal language model of GPT-2, from transformers: a decoder of 12 pre-norm layers of width 768 with
causal attention. x of shape (batch_size, sequence_length) holds token ids (int64, below vocab_size), no mask
is given, and the result is the logits of shape (batch_size, sequence_length, vocab_size), float32. Weights
are drawn from the architecture's own initialisation, or are the published ones where the environment sets
KERNELBENCH_PRETRAINED=1; the network is in evaluation mode. Setting tiny gives a model of two small layers
for tests.
"""

import os

import torch
import torch.nn as nn

model_name = "gpt2"
sequence_length = 1023
batch_size = 1
tiny = False
architecture = {
    "model_type": "gpt2",
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": 3072,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-05,
    "initializer_range": 0.02,
    "scale_attn_weights": True,
    "use_cache": True,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
    "tie_word_embeddings": True,
}
if tiny:
    architecture |= {
        "vocab_size": 128,
        "bos_token_id": 127,
        "eos_token_id": 127,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 2,
        "n_inner": 64,
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
