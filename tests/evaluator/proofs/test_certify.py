"""Certificates: trivial answers are found where they get through, told apart where the panel sees them."""

import json

import torch
from kernel_evaluator.labels import census
from kernel_evaluator.numerics import compare
from kernel_evaluator.problems.certificates import read
from kernel_evaluator.problems.deciding import sharpness_of
from kernel_evaluator.problems.problem_set import Problem, ProblemSet, read_sizes
from kernel_evaluator.proofs.certify import Certification
from typer.testing import CliRunner

from leaderboard.cli import app
from leaderboard.stages.boards import PLACES, read_certificates


def examine(level, problem_id, precision="fp32"):
    problem = ProblemSet().load(level, problem_id).reduced(read_sizes())
    return Certification(problem, "cpu", precision).certify()


def test_a_problem_that_is_always_zero_is_not_ranked():
    found = examine(2, 80)
    assert not found.ranked
    assert "zeros" in found.evidence and found.answers["zeros"] == ""


def test_a_relu_of_positive_inputs_is_ranked_since_signed_inputs_tell_it_from_the_identity():
    found = examine(1, 19)
    assert found.ranked
    assert found.answers["identity"] == "signed" and "signed" in found.cured_by


def test_a_softmax_too_small_for_upstreams_tolerance_is_cured_by_a_relative_one():
    found = examine(1, 23)
    assert found.ranked and found.answers["zeros"]
    assert "relative" in found.cured_by


def test_a_line_is_no_shortcut_for_a_reference_that_is_a_line():
    assert examine(1, 5).ranked
    assert examine(1, 5, "bf16").ranked


def test_a_product_of_matrices_has_no_trivial_answer():
    assert examine(1, 10).answers == {}


def test_a_problem_is_not_ranked_in_bf16_where_who_is_more_exact_than_pytorch_is_wrong():
    found = examine(2, 93, "bf16")
    assert not found.ranked and "the reference in float64" in found.evidence
    assert examine(2, 93).ranked


def test_a_product_is_ranked_in_bf16_too():
    assert examine(1, 1, "bf16").ranked


def test_the_command_continues_a_file_and_stops_when_its_time_is_up(tmp_path):
    path = tmp_path / "certificates.json"
    for name in (PLACES.name, sharpness_of("bf16").name):
        (tmp_path / name).write_text('{"problems": {}}')
    arguments = [
        "certify",
        "--device",
        "cpu",
        "--out",
        str(path),
        "--twins",
        str(tmp_path / "sharpness.json"),
        "--only",
        "1/94,2/80",
    ]
    none_yet = CliRunner().invoke(app, [*arguments, "--limit-s", "0"])
    assert none_yet.exit_code == 1 and read(path) == {}
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert set(read(path)) == {"1_94", "2_80"}
    assert json.loads(path.read_text())["source"]["device"] == "CPU"
    assert list(read_certificates(path)["fp32"]) == ["2_80"]
    first = path.read_bytes()
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert path.read_bytes() == first, "what is certified is not certified again"
    anew = CliRunner().invoke(app, [*arguments[:-1], "1/94", "--fresh"])
    assert anew.exit_code == 0 and "1_94" in anew.output and "2_80" not in anew.output
    assert set(read(path)) == {"1_94", "2_80"}, "what is not chosen stays"


def test_kernels_are_labelled_by_whose_work_took_the_time():
    listed = "90.000\t1\trelu_kernel\n5.000\t2\tvoid at::native::vectorized_elementwise_kernel<4, x>\n1.000\t1\tMemset"
    assert census.labels(census.parse(listed)) == ("custom",)
    listed = "0.100\t1\tdecoy\n95.000\t1\tvoid at::native::reduce_kernel<512, 1, x>"
    assert census.labels(census.parse(listed)) == ("library",), "a decoy does not make a kernel"
    listed = "50.000\t1\tmy_gemm\n50.000\t1\tnvjet_tss_128x64"
    assert census.labels(census.parse(listed)) == ("mixed",)
    assert census.labels(census.parse("10.000\t1\ttriton_poi_fused_relu_0")) == ("library", "compiled")
    assert census.labels(census.parse("nonsense\n1e9\tx\ty")) == ("no-kernel",)


ROUNDS_AT_FEW = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        small, large = torch.ones_like(x), torch.zeros_like(x)
        small[{low}], large[{low}], large[{high}] = 2**-8, 4, 16
        y = x * x
        return (small * y + large * y) - large * y


def get_inputs():
    return [torch.rand({count})]


def get_init_inputs():
    return []
"""


def test_a_problem_is_ranked_in_bf16_where_what_the_exact_answer_is_off_by_is_explained_at_that_element():
    count = 1 << 20
    unseen = torch.ones(count, dtype=torch.bool)
    unseen[compare.sample(torch.arange(count), 1 << 18)] = False
    places = unseen.nonzero().flatten().tolist()
    source = ROUNDS_AT_FEW.format(low=places[:5], high=places[-5:], count=count)
    problem = Problem(level=1, problem_id=1, name="1_Rounds", source=source)
    assert Certification(problem, "cpu", "bf16").certify().ranked
