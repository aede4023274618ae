"""The causal language model of BART large, from transformers: its decoder alone, 12 post-norm layers of width
1024 with causal attention; without an encoder the cross-attention is skipped, so its weights have no
influence. x of shape (batch_size, sequence_length) holds token ids (int64, below vocab_size), no mask is
given, and the result is the logits of shape (batch_size, sequence_length, vocab_size), float32. Weights are
drawn from the architecture's own initialisation, or are the published ones where the environment sets
KERNELBENCH_PRETRAINED=1; the network is in evaluation mode. Setting tiny gives a model of two small layers
for tests.
"""

import os

import torch
import torch.nn as nn

model_name = "facebook/bart-large"
sequence_length = 256
batch_size = 32
tiny = False
architecture = {
    "model_type": "bart",
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "activation_function": "gelu",
    "d_model": 1024,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
    "init_std": 0.02,
    "scale_embedding": False,
    "use_cache": True,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
}
if tiny:
    architecture |= {
        "vocab_size": 128,
        "encoder_layers": 2,
        "encoder_ffn_dim": 64,
        "encoder_attention_heads": 2,
        "decoder_layers": 2,
        "decoder_ffn_dim": 64,
        "decoder_attention_heads": 2,
        "d_model": 32,
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
