"""The causal language model of Reformer for enwik8, from transformers: 12 reversible layers of width 1024
over bytes, with axial position embeddings, nine with causal attention within neighbouring chunks of 128 and
three hashed with chunks of 256, which at this length see every earlier token. x of shape (batch_size,
sequence_length) holds token ids (int64, below vocab_size), no mask is given, and the result is the logits of
shape (batch_size, sequence_length, vocab_size), float32. Weights are drawn from the architecture's own
initialisation, or are the published ones where the environment sets KERNELBENCH_PRETRAINED=1; the network is
in evaluation mode. Setting tiny gives a model of two small layers for tests.
"""

import os

import torch
import torch.nn as nn

model_name = "google/reformer-enwik8"
sequence_length = 256
batch_size = 32
tiny = False
architecture = {
    "model_type": "reformer",
    "vocab_size": 258,
    "hidden_size": 1024,
    "attention_head_size": 128,
    "num_attention_heads": 8,
    "attn_layers": [
        "local",
        "local",
        "lsh",
        "local",
        "local",
        "local",
        "lsh",
        "local",
        "local",
        "local",
        "lsh",
        "local",
    ],
    "feed_forward_size": 4096,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.2,
    "max_position_embeddings": 65536,
    "axial_pos_embds": True,
    "axial_pos_shape": [128, 512],
    "axial_pos_embds_dim": [256, 768],
    "axial_norm_std": 1.0,
    "local_attn_chunk_length": 128,
    "local_num_chunks_before": 1,
    "local_num_chunks_after": 0,
    "local_attention_probs_dropout_prob": 0.2,
    "lsh_attn_chunk_length": 256,
    "lsh_num_chunks_before": 1,
    "lsh_num_chunks_after": 0,
    "lsh_attention_probs_dropout_prob": 0.1,
    "num_buckets": 512,
    "num_hashes": 4,
    "chunk_size_lm_head": 0,
    "chunk_size_feed_forward": 0,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "use_cache": True,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "is_decoder": True,
    "tie_word_embeddings": False,
}
if tiny:
    architecture |= {
        "vocab_size": 128,
        "hidden_size": 32,
        "attention_head_size": 16,
        "num_attention_heads": 2,
        "attn_layers": ["local", "lsh"],
        "feed_forward_size": 64,
        "axial_pos_embds_dim": [8, 24],
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
