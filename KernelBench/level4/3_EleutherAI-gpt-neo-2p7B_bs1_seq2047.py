"""The causal language model of GPT-Neo 2.7B, from transformers: a decoder of 32 layers of width 2560 whose
attention is alternately causal over everything and over the last 256 tokens. x of shape (batch_size,
sequence_length) holds token ids (int64, below vocab_size), no mask is given, and the result is the logits of
shape (batch_size, sequence_length, vocab_size), float32. Weights are drawn from the architecture's own
initialisation, or are the published ones where the environment sets KERNELBENCH_PRETRAINED=1; the network is
in evaluation mode. Setting tiny gives a model of two small layers for tests.
"""

import os

import torch
import torch.nn as nn

model_name = "EleutherAI/gpt-neo-2.7B"
sequence_length = 2047
batch_size = 1
tiny = False
architecture = {
    "model_type": "gpt_neo",
    "vocab_size": 50257,
    "max_position_embeddings": 2048,
    "hidden_size": 2560,
    "num_layers": 32,
    "attention_types": [[["global", "local"], 16]],
    "num_heads": 20,
    "intermediate_size": 10240,
    "window_size": 256,
    "activation_function": "gelu_new",
    "resid_dropout": 0.0,
    "embed_dropout": 0.0,
    "attention_dropout": 0.0,
    "layer_norm_epsilon": 1e-05,
    "initializer_range": 0.02,
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
        "hidden_size": 32,
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "num_heads": 2,
        "intermediate_size": 64,
        "window_size": 8,
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
