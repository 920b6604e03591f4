"""The benchmark of the engine and its peers measures the same work, and its page is the run's."""

from functools import partial
from pathlib import Path

import check
import flops
import jax
import jax.numpy as jnp
import jax_model
import numpy as np
import numpy_model
import pool
import pytest
import table
import task as tasks

from maxfl.utils.files import read_json

ROOT = Path(__file__).parent.parent
SHAPES = {
    "mlp": [(784, 6), (6, 5), (5, 3)],
    "cnn": [(3, 3, 1, 2), (3, 3, 2, 3), (75, 4), (4, 3)],
}


def made(model, evaluated=True, sizes=(9, 4, 6)):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    y = rng.integers(0, 3, offsets[-1]).astype(np.int32)
    x = rng.integers(0, 60, (len(y), 28, 28)) + 60 * y[:, None, None]  # brightness tells the label
    samples = tasks.Samples(x.astype(np.uint8), y, offsets)
    start = [rng.normal(size=s, scale=0.1) for w in SHAPES[model] for s in (w, w[-1:])]
    start = [p.astype(np.float32) for p in start]
    return tasks.Task(
        "made", model, 2, 30, 5, 0.05, 0.2, 2, 2, evaluated, 90.0, 1 / 60, samples, samples, start
    )


@pytest.mark.parametrize("model", SHAPES)
def test_gradients_by_hand_are_those_of_jax(model):
    task = made(model)
    x, y = task.scale_inputs(task.train.x), task.train.y

    def loss(params):
        logits = jax_model.apply(model, 0.0, params, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    theirs = jax.jit(jax.grad(loss))(task.start)
    by_hand = {"mlp": numpy_model.mlp_gradient, "cnn": numpy_model.cnn_gradient}[model]
    ours = by_hand(task.start, x, y, 0.0, np.random.default_rng(0))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_a_peer_is_held_to_what_it_trained_and_evaluated(tmp_path):
    tasks.write(made("mlp"), tmp_path / "task")
    task = tasks.read(tmp_path / "task")
    loops = pool.Pool(task, 1, numpy_model.Loop)
    assert len(tasks.timed(task, loops.one_round)) == task.blocks
    save = partial(np.savez, tmp_path / "out.npz")
    save(*loops.params(), evaluation=loops.evaluation())
    assert check.check(task, tmp_path / "out.npz") == pytest.approx(
        check.mean_loss(task, loops.params())
    )
    save(*loops.params(), evaluation=loops.evaluation() + np.float32(0.01))
    with pytest.raises(check.WrongError, match=r"evaluation is off by up to 0\.01"):
        check.check(task, tmp_path / "out.npz")
    for split, measure in ((0, 0), (0, 1), (1, 0), (1, 1)):
        evaluation = loops.evaluation()
        evaluation[split, measure, 1] = np.nan
        save(*loops.params(), evaluation=evaluation)
        with pytest.raises(check.WrongError, match="off by up to nan"):
            check.check(task, tmp_path / "out.npz")
    evaluation[1] = loops.evaluation()[1]
    evaluation[0, 1] = np.nan  # no accuracy on training data at all
    save(*loops.params(), evaluation=evaluation)
    check.check(task, tmp_path / "out.npz")
    save(*task.start, evaluation=loops.evaluation())
    with pytest.raises(check.WrongError, match="it trained to a loss of"):
        check.check(task, tmp_path / "out.npz")
    save(evaluation=loops.evaluation())
    with pytest.raises(check.WrongError, match="no parameters"):
        check.check(task, tmp_path / "out.npz")


def test_times_of_blocks_by_hand():
    """Blocks of two rounds, of which the first is before the clock runs."""
    ends = [0.0, 9.0, 10.0, 11.0, 13.0, 14.0, 17.0]
    assert tasks.each_block(made("mlp"), ends) == [1500, 2000]


def test_operations_are_counted_by_formula():
    task = made("mlp")
    forward = 784 * 6 + 6 * 5 + 5 * 3
    assert flops.evaluation(task) == 2 * forward * 2 * 19
    assert flops.training(task) == 2 * (3 * forward - 784 * 6) * 2 * 30 * 5
    convolutions = [26 * 26 * 9 * 2, 11 * 11 * 9 * 2 * 3]
    assert flops.products(made("cnn").start) == [*convolutions, 75 * 4, 4 * 3]


def test_the_performance_page_shows_the_runs_that_are_kept():
    both = [read_json(table.record(architecture)) for architecture in table.ARCHITECTURES]
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page, *both) == page, "run python benchmarks/peers/table.py"
    for architecture, results in zip(table.ARCHITECTURES, both, strict=True):
        assert results["machine"]["architecture"] == architecture
        assert not table.why_no_record(results)
        for workload in results["workloads"].values():
            assert f"| {workload['peers']['maxfl']['ms']:.1f} (1.00) |" in page


def test_peers_whose_passes_were_disturbed_are_named():
    quiet, loud = titled("Quiet", 10.0, 11.5, 10.2), titled("Loud", 23.4, 20.0, 20.1)
    failed = {"title": "Failed", "passes": [], "error": "why"}
    mlp, many = {"peers": {"a": quiet, "b": loud}}, {"peers": {"a": quiet}}
    workloads = {"mlp": mlp, "many": many, "cnn": {"missing": "no data", "peers": {"c": failed}}}
    assert table.disturbed({"passes": 3, "workloads": workloads}) == [
        "Slowest passes over 1.15 times the quickest, ms: mlp: Loud (20.0 to 23.4)."
    ]
    (line,) = table.disturbed({"passes": 3, "workloads": {"many": many}})
    assert line.endswith("ms: none.")
    assert table.disturbed({"passes": 1, "workloads": {"many": many}}) == []


def titled(title, *passes):
    return {"title": title, "passes": list(passes)}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, ""),
        ({"partial": True}, "they are a part"),
        ({"workloads": {"mlp": {"missing": "no data", "peers": {}}}}, "some peers or data failed"),
        ({"workloads": {"mlp": {"peers": {"a": {"error": "why"}}}}}, "some peers or data failed"),
        ({"machine": {"cores": 16, "architecture": "x86_64"}}, "its machines have 2 cores"),
        ({"machine": {"cores": 2, "architecture": "riscv64"}}, "x86_64 or aarch64"),
    ],
)
def test_only_whole_results_of_such_machines_are_a_record(change, why):
    whole = {
        "partial": False,
        "machine": {"cores": 2, "architecture": "aarch64"},
        "workloads": {"mlp": {"peers": {"a": titled("A", 1.0, 1.0, 1.0)}}},
    }
    found = table.why_no_record(whole | change)
    assert why in found
    assert bool(why) == bool(found)
