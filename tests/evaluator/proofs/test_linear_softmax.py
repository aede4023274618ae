"""A twin whose attention is linear: right where scores scatter little, far off where they scatter much."""

import pytest
import torch
import torch.nn.functional as F
from kernel_evaluator.proofs.linear_softmax import LEAST, LINEAR_SOFTMAX
from kernel_evaluator.proofs.twins import Replacing

KEYS, HEADS, WIDTH = 512, 2, 16
LITTLE, MUCH = 0.3, 3.0


@pytest.fixture(autouse=True)
def drawn_alike():
    torch.manual_seed(7)
    with torch.no_grad():
        yield


def both_ways(attend, *inputs):
    """What attention gives, what it gives where it is linear, and how often it was."""
    expected = attend(*inputs)
    with Replacing(LINEAR_SOFTMAX) as mode:
        given = attend(*inputs)
    assert given.shape == expected.shape and given.dtype == expected.dtype
    return expected, given, mode.count


def miss(expected, given, queries):
    """How far off it is, by how much queries' answers differ: an average over all keys has 1."""
    return float((given - expected).norm() / (expected - expected.mean(queries, keepdim=True)).norm())


SOFTMAXES = {
    "torch": lambda scores: torch.softmax(scores, -1),
    "torch, by name": lambda scores: torch.softmax(scores, dim=2),
    "functional": lambda scores: F.softmax(scores, dim=-1),
    "method": lambda scores: scores.softmax(-1),
    "module": torch.nn.Softmax(dim=-1),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_a_softmax_of_scores_is_linear(name):
    def attend(query, key, value):
        return SOFTMAXES[name](query @ key.mT) @ value

    for scale, is_near in ((LITTLE, True), (MUCH, False)):
        query, key, value = (torch.randn(HEADS, KEYS, WIDTH) for _ in range(3))
        expected, given, count = both_ways(attend, query * scale, key / WIDTH**0.5, value)
        assert count == 1
        assert miss(expected, given, -2) < 0.3 if is_near else miss(expected, given, -2) > 0.9


def test_the_less_scores_scatter_the_less_a_linear_softmax_is_off():
    scores = torch.randn(1, KEYS, KEYS)
    off = [miss(*both_ways(SOFTMAXES["torch"], scores * scale)[:2], -2) for scale in (0.5, 0.1, 0.02)]
    assert off[0] > 4 * off[1] > 16 * off[2]


def test_scores_that_are_alike_for_all_queries_may_scatter_among_keys():
    scores = 5 * torch.randn(1, 1, KEYS) + 0.01 * torch.randn(1, KEYS, KEYS)
    expected, given, count = both_ways(SOFTMAXES["torch"], scores)
    assert count == 1 and miss(expected, given, -2) < 0.05
    torch.testing.assert_close(given.sum(-1), torch.ones(1, KEYS))


@pytest.mark.parametrize("mask", [-torch.inf, -1e9])
def test_a_softmax_with_a_causal_mask_is_linear_and_sees_no_later_key(mask):
    def attend(query, key, value):
        return (query @ key.mT).masked_fill(causal(), mask).softmax(-1) @ value

    for scale, is_near in ((LITTLE, True), (MUCH, False)):
        query, key, value = (torch.randn(HEADS, KEYS, WIDTH) for _ in range(3))
        key[:, -1], value[:, -1] = 100, 1e6
        expected, given, count = both_ways(attend, query * scale, key / WIDTH**0.5, value)
        expected, given = expected[:, KEYS // 2 : -1], given[:, KEYS // 2 : -1]
        assert count == 1
        assert miss(expected, given, -2) < 0.3 if is_near else miss(expected, given, -2) > 0.5


@pytest.mark.parametrize("shape", [(HEADS, KEYS, WIDTH), (1, HEADS, KEYS, WIDTH)])
def test_scaled_dot_product_attention_is_linear(shape):
    query, key, value = (torch.randn(shape) for _ in range(3))
    expected, given, count = both_ways(F.scaled_dot_product_attention, LITTLE * query, key, value)
    assert count == 1 and miss(expected, given, -2) < 0.3
    expected, given, count = both_ways(F.scaled_dot_product_attention, MUCH * query, key, value)
    assert count == 1 and miss(expected, given, -2) > 0.9


def heads_of(layer, **how):
    return lambda *inputs: layer(*inputs, **how)[0]


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_attention_of_several_heads_is_linear(is_training, batch_first, bias):
    layer = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, bias=bias).train(is_training)
    x = torch.randn([2, KEYS, WIDTH] if batch_first else [KEYS, 2, WIDTH])
    queries = 1 if batch_first else 0
    expected, given, count = both_ways(heads_of(layer, need_weights=False), x, x, x)
    assert count == 1 and miss(expected, given, queries) < 0.3
    layer.in_proj_weight[: 2 * WIDTH] *= 4
    expected, given, count = both_ways(heads_of(layer, need_weights=False), x, x, x)
    assert count == 1 and miss(expected, given, queries) > 0.9


def test_queries_and_keys_may_differ_in_number():
    layer = torch.nn.MultiheadAttention(WIDTH, HEADS)
    query, key = torch.randn(LEAST, 2, WIDTH), torch.randn(KEYS, 2, WIDTH)
    expected, given, count = both_ways(heads_of(layer), query, key, key)
    assert count == 1 and miss(expected, given, 0) < 0.3


def test_a_layer_of_a_transformer_has_linear_attention():
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True).eval()
    expected, given, count = both_ways(layer, torch.randn(1, KEYS, WIDTH))
    assert count == 1 and not torch.equal(expected, given)
    torch.testing.assert_close(expected, given, rtol=0, atol=0.1)


def test_attention_in_bf16_stays_in_bf16():
    query, key, value = (torch.randn(HEADS, KEYS, WIDTH, dtype=torch.bfloat16) for _ in range(3))
    _, given, count = both_ways(F.scaled_dot_product_attention, query, key, value)
    assert count == 1 and given.dtype == torch.bfloat16


def causal(size=KEYS):
    return torch.ones(size, size, dtype=torch.bool).triu(1)


ALONE = {
    "an axis of queries": lambda x: torch.softmax(x @ x.mT, -2),
    "an axis of heads": lambda x: F.softmax(x @ x.mT, dim=0),
    "no axis": lambda x: torch.log_softmax(x @ x.mT, -1),
    "one matrix": lambda x: torch.softmax(x[0] @ x[0].T, -1),
    "few keys": lambda x: torch.softmax(x @ x[:, : LEAST - 1].mT, -1),
    "few queries": lambda x: torch.softmax(x[:, : LEAST - 1] @ x.mT, -1),
    "few keys, fused": lambda x: F.scaled_dot_product_attention(x, x[:, : LEAST - 1], x[:, : LEAST - 1]),
    "few queries, fused": lambda x: F.scaled_dot_product_attention(x[:, : LEAST - 1], x, x),
    "masked, fused": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=~causal()),
    "masked by place, fused": lambda x: F.scaled_dot_product_attention(x, x, x, ~causal()),
    "causal, fused": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_is_no_attention_to_many_keys_or_is_masked_is_left_alone(name):
    expected, given, count = both_ways(ALONE[name], torch.randn(HEADS, KEYS, WIDTH))
    assert count == 0 and torch.equal(expected, given)


@pytest.mark.parametrize("how", ["masked", "causal", "few keys", "without a batch", "other widths"])
def test_several_heads_are_left_alone_where_they_are_masked_or_see_few_keys(how):
    layer = torch.nn.MultiheadAttention(WIDTH, HEADS, kdim=WIDTH - 1 if how == "other widths" else None)
    x = torch.randn(LEAST - 1 if how == "few keys" else KEYS, 2, WIDTH)
    mask = {"attn_mask": causal(), "is_causal": how == "causal", "need_weights": False}
    attend = heads_of(layer, **(mask if how in {"masked", "causal"} else {}))
    x = x[:, 0] if how == "without a batch" else x
    expected, given, count = both_ways(attend, x, x[..., 1:] if how == "other widths" else x, x)
    assert count == 0 and torch.equal(expected, given)


def test_several_heads_with_padded_keys_are_left_alone():
    layer = torch.nn.MultiheadAttention(WIDTH, HEADS)
    x, padded = torch.randn(KEYS, 2, WIDTH), torch.arange(KEYS).expand(2, -1) >= KEYS // 2
    expected, given, count = both_ways(heads_of(layer, key_padding_mask=padded, need_weights=False), x, x, x)
    assert count == 0 and torch.equal(expected, given)


def test_scaled_dot_product_attention_by_a_scale_of_its_own_is_linear_or_left_alone():
    def attend(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, scale=0.02)

    expected, given, _ = both_ways(attend, *(torch.randn(HEADS, KEYS, WIDTH) for _ in range(3)))
    assert miss(expected, given, -2) < 0.3


def test_a_softmax_gives_the_type_that_is_asked_for():
    scores = torch.randn(HEADS, KEYS, KEYS, dtype=torch.bfloat16)
    both_ways(lambda given: F.softmax(given, dim=-1, dtype=torch.float32), scores)
