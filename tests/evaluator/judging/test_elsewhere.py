"""Whether a correct kernel holds on other shapes and strides: labels with evidence, and no influence beside."""

import pytest
import torch
from evaluating import RIGHT, jobs_of, judge, kernel
from kernel_evaluator.problems.inputs import InputSource
from kernel_evaluator.problems.other_shapes import other_shapes
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from kernel_evaluator.records.rows import Status

TRANSPOSED = "inputs transposed in memory"


@pytest.fixture
def judged(unmeasured):
    def rows_of(*sources):
        rows = unmeasured(jobs_of(*sources))
        return [rows[at] for at in sorted(rows)]

    return rows_of


def test_a_kernel_for_any_batch_and_stride_is_general(judged):
    (row,) = judged(RIGHT)
    (shape,) = set(row.elsewhere) - {TRANSPOSED}
    name, size = shape.split(" = ")
    assert (name, int(size) % 2, int(size) < 16) == ("rows", 1, True)
    assert set(row.elsewhere.values()) == {"right"}
    assert (row.status, "general" in row.labels) == (Status.CORRECT, True)


def test_a_kernel_that_refuses_other_shapes_is_of_a_fixed_shape(judged):
    (row,) = judged(kernel("if x.shape[0] != 16: raise ValueError('16 rows, please')"))
    assert "fixed-shape" in row.labels and "refused" in row.elsewhere.values()


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("if x.shape[0] != 16: return self.right(x) + 1", "rows = "),
        ("if not x.is_contiguous(): return self.right(x.t().reshape(x.shape))", TRANSPOSED),
        ("if x.shape[0] != 16: os._exit(3)", "rows = "),
    ],
)
def test_a_kernel_that_is_wrong_elsewhere_is_labelled_and_still_correct(judged, line, where):
    rows = judged(kernel(line), RIGHT)
    assert [row.status for row in rows] == [Status.CORRECT] * 2
    assert "wrong-elsewhere" in rows[0].labels
    (came_of_it,) = (said for name, said in rows[0].elsewhere.items() if name.startswith(where))
    assert came_of_it.startswith(("wrong: ", "died: "))
    assert "general" in rows[1].labels, "the stand is as it was for the next kernel"


def test_a_wrong_kernel_is_not_tried_elsewhere_and_nothing_is_where_that_is_switched_off(judged):
    (wrong,) = judged(kernel("return self.right(x) + 1"))
    assert wrong.elsewhere is None
    off = judge(jobs_of(RIGHT), measure=False, switched_off=("elsewhere",))[0]
    assert off.elsewhere is None and "general" not in off.labels


@pytest.mark.parametrize("key", ["1_1", "1_54", "2_12", "3_5", "1_40"])
def test_other_shapes_keep_the_model_and_change_what_goes_in(key):
    level, problem_id = map(int, key.split("_"))
    problem = ProblemSet().load(level, problem_id).reduced(read_sizes())
    graded = InputSource(problem, "cpu", torch.float32)
    said, other = other_shapes(problem, "a kernel's digest")
    source = InputSource(other, "cpu", torch.float32)
    assert source.init_arguments() == graded.init_arguments()
    assert [leaf.shape for leaf in source.leaves] != [leaf.shape for leaf in graded.leaves], said


def test_the_shapes_are_the_same_for_a_kernel_and_others_for_another():
    problem = ProblemSet().load(1, 1)
    first, again, other = (other_shapes(problem, digest) for digest in ("one", "one", "another"))
    assert first == again != other


def test_where_the_model_knows_every_size_there_are_no_other_shapes():
    source = (
        "import torch\nn = 8\ndef get_inputs(): return [torch.rand(n)]\ndef get_init_inputs(): return [n]\n"
    )
    assert other_shapes(Problem(level=1, problem_id=1, name="1_Fixed", source=source), "a digest") is None
