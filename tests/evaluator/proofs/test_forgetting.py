"""A twin that forgets: right where a state fades, far off where it lasts, and left alone where it is short."""

import itertools
from functools import partial

import pytest
import torch
from kernel_evaluator.proofs.forgetting import LEAST, PIECES, Forgetting, forget_steps

STEPS, BATCH, WIDTH = 512, 3, 8
KINDS = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM, "rnn": torch.nn.RNN}


@pytest.fixture(autouse=True)
def drawn_alike():
    torch.manual_seed(5)
    with torch.no_grad():
        yield


def inputs_for(layer, steps=STEPS):
    shape = (BATCH, steps, layer.input_size) if layer.batch_first else (steps, BATCH, layer.input_size)
    return torch.rand(shape)


def leaves(output):
    states, last = output
    return [states, *last] if isinstance(last, tuple) else [states, last]


def both_ways(layer, *inputs):
    """What a layer gives, what it gives where it forgets, and in how many pieces."""
    expected = leaves(layer(*inputs))
    with Forgetting() as mode:
        given = leaves(layer(*inputs))
    return expected, given, mode.pieces


def apart(expected, given):
    return float((expected - given).abs().max())


@pytest.mark.parametrize(
    ("kind", "is_both", "batch_first", "layers"),
    [*itertools.product(KINDS, [False, True], [False, True], [1, 2])],
)
def test_where_states_fade_a_layer_that_forgets_gives_what_it_gave(kind, is_both, batch_first, layers):
    layer = KINDS[kind](WIDTH, 16, layers, bidirectional=is_both, batch_first=batch_first)
    expected, given, pieces = both_ways(layer, inputs_for(layer))
    assert pieces == PIECES and len(expected) == len(given)
    for one, other in zip(expected, given, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert one.std() > 0.01 and apart(one, other) < 1e-5


def test_first_states_that_are_given_count_at_the_beginning_of_each_direction():
    layer = torch.nn.GRU(WIDTH, 16, 2, bidirectional=True)
    inputs, first = inputs_for(layer), torch.randn(4, BATCH, 16)
    expected, given, _ = both_ways(layer, inputs, first)
    assert max(map(apart, expected, given)) < 1e-5
    without = layer(inputs)[0]
    assert apart(without[0], given[0][0]) > 0.1 and apart(without[-1], given[0][-1]) > 0.1


@pytest.mark.parametrize("steps", [LEAST, 67, 71, 101])
def test_pieces_cover_sequences_of_any_length(steps):
    layer = torch.nn.GRU(WIDTH, 16, bidirectional=True)
    for name, weight in layer.named_parameters():
        if name.startswith("weight_hh"):
            weight.mul_(0.01)
        elif name.startswith("bias"):
            weight[16:32] = -4.0  # little is kept of a state
    expected, given, pieces = both_ways(layer, inputs_for(layer, steps))
    assert pieces == PIECES
    assert max(map(apart, expected, given)) < 1e-5


@pytest.mark.parametrize("kind", ["projected", "without a batch", "relu", "without biases"])
def test_all_forms_of_a_layer_are_run_in_pieces(kind):
    layer = {
        "projected": torch.nn.LSTM(WIDTH, 16, proj_size=4, bidirectional=True),
        "without a batch": torch.nn.LSTM(WIDTH, 16, bidirectional=True),
        "relu": torch.nn.RNN(WIDTH, 16, nonlinearity="relu"),
        "without biases": torch.nn.GRU(WIDTH, 16, bias=False),
    }[kind]
    inputs = inputs_for(layer)
    expected, given, pieces = both_ways(layer, inputs[:, 0] if kind == "without a batch" else inputs)
    assert pieces == PIECES and max(map(apart, expected, given)) < 1e-5
    assert [one.shape for one in expected] == [other.shape for other in given]


def remembers(kind, is_both):
    """A layer whose state is the sum of all inputs, or a mean of very many, whatever they are."""
    layer = KINDS[kind](1, 1, bidirectional=is_both, **({"nonlinearity": "relu"} if kind == "rnn" else {}))
    of_inputs, of_states, biases = {  # of each gate, in torch's order
        "gru": ([0, 0, 1], [0, 0, 0], [0, 7, 0]),
        "lstm": ([0, 0, 0.01, 0], [0, 0, 0, 0], [0, 20, 0, 0]),
        "rnn": ([0.01], [1], [0]),
    }[kind]
    for name, weight in layer.named_parameters():
        weight.zero_()
        for start, values in {"weight_ih": of_inputs, "weight_hh": of_states, "bias_ih": biases}.items():
            if name.startswith(start):
                weight.copy_(torch.tensor(values).view(weight.shape))
    return layer


@pytest.mark.parametrize(("kind", "is_both"), [*itertools.product(KINDS, [False, True])])
def test_where_states_last_a_layer_that_forgets_is_far_off(kind, is_both):
    layer = remembers(kind, is_both)
    (states, *lasts), (other_states, *other_lasts), pieces = both_ways(layer, inputs_for(layer))
    assert pieces == PIECES
    for way in range(1 + is_both):
        for last, other in zip(lasts, other_lasts, strict=True):
            assert (other[way] < 0.6 * last[way]).all()
        walked, other_walked = (
            each[..., way].flip(0) if way else each[..., way] for each in (states, other_states)
        )
        remembered = 2 * STEPS // PIECES
        torch.testing.assert_close(walked[:remembered], other_walked[:remembered])
        assert (other_walked[-1] < 0.6 * walked[-1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_short_sequences_are_left_alone(kind):
    layer = KINDS[kind](WIDTH, 16, batch_first=True, bidirectional=True)
    expected, given, pieces = both_ways(layer, inputs_for(layer, LEAST - 1))
    assert pieces == 0 and all(map(torch.equal, expected, given))


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_several_lengths_are_left_alone(kind):
    layer = KINDS[kind](WIDTH, 16)
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs_for(layer), [512, 300, 100])
    expected, given, pieces = both_ways(layer, packed)
    assert pieces == 0 and all(
        map(torch.equal, [expected[0].data, *expected[1:]], [given[0].data, *given[1:]])
    )


class Walk(torch.nn.Module):
    """A loop over the steps of a sequence: the state is kept in part, and each step gives it."""

    def __init__(self, kept, axis=0):
        super().__init__()
        self.kept, self.axis = kept, axis

    def forward(self, x):
        state, states = torch.zeros_like(x.select(self.axis, 0)), []
        for at in range(x.shape[self.axis]):
            state = self.kept * state + x.select(self.axis, at)
            states.append(state)
        return torch.stack(states, self.axis), state


def run_with(model, inputs):
    given = model(*inputs)
    return [*given] if isinstance(given, tuple) else [given]


def forgotten(model, *inputs):
    """What a model gives, and what it gives where steps are forgotten."""
    with Forgetting() as mode:
        expected = run_with(model, inputs)
    return expected, forget_steps(partial(run_with, model), [*inputs], expected, mode.calls)


@pytest.mark.parametrize(("axis", "steps"), [(0, 128), (1, 128), (0, 101), (1, 64)])
def test_a_loop_over_a_fading_state_gives_what_it_gave(axis, steps):
    x = torch.randn([steps, 2, 4] if axis == 0 else [2, steps, 4])
    expected, given = forgotten(Walk(0.1, axis), x)
    for one, other in zip(expected, given, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_late_in_a_loop_outputs_come_from_forgotten_inputs_and_before_from_the_true_ones(axis):
    x = torch.rand([128, 2, 4] if axis == 0 else [2, 128, 4])
    before = x.clone()
    (states, last), given = forgotten(Walk(1.0, axis), x)
    assert torch.equal(x, before)
    changed = torch.cat([x.narrow(axis, 64, 64)] * 2, axis)
    other_states, other_last = Walk(1.0, axis)(changed)
    late = 64 + 128 // PIECES
    assert torch.equal(given[0].narrow(axis, 0, late), states.narrow(axis, 0, late))
    assert torch.equal(given[0].narrow(axis, late, 128 - late), other_states.narrow(axis, late, 128 - late))
    assert torch.equal(given[1], other_last) and apart(last, other_last) > 0.1


def test_what_is_not_as_long_as_the_sequence_or_has_one_axis_only_is_not_forgotten():
    class Weighed(Walk):
        def forward(self, x, weights, few, number):
            return super().forward(x * weights[:, None, None] + few)[0] + number

    x, weights, few = torch.rand(128, 2, 4), torch.rand(128), torch.rand(1, 2, 4)
    _, (given,) = forgotten(Weighed(1.0), x, weights, few, 3)
    changed = torch.cat([x[64:], x[64:]])
    assert torch.equal(given[80:], Weighed(1.0)(changed, weights, few, 3)[80:])


def test_fewer_calls_than_an_axis_is_long_are_no_loop():
    class Sums(torch.nn.Module):
        def forward(self, x):
            return x.cumsum(0).relu()

    assert forgotten(Sums(), torch.rand(128, 2, 4))[1] is None
    x = torch.rand(128, 2, 4)
    expected, run = run_with(Walk(0.1), [x]), partial(run_with, Walk(0.1))
    assert forget_steps(run, [x], expected, 127) is None
    assert forget_steps(run, [x], expected, 128) is not None


def test_a_short_loop_is_left_alone():
    assert forgotten(Walk(0.1), torch.rand(LEAST - 1, 2, 4))[1] is None


def test_where_outputs_lack_the_axis_of_the_sequence_nothing_is_forgotten():
    class Last(Walk):
        def forward(self, x):
            return super().forward(x)[1]

    assert forgotten(Last(0.1), torch.rand(128, 2, 4))[1] is None


def test_a_batch_is_no_sequence_however_many_calls_a_model_makes():
    deep = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)])
    assert forgotten(deep, torch.rand(64, 4))[1] is None


def test_of_a_batch_and_a_sequence_that_are_both_long_the_sequence_is_forgotten():
    x = torch.rand(64, 128, 4)
    (states, _), given = forgotten(Walk(1.0, axis=1), x)
    assert apart(states, given[0]) > 0.1
