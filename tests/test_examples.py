"""The scripts of examples/ run, and what they print is as they say."""

import re
import runpy

import jax
import numpy as np
import pytest

from support.commands import ROOT

pytestmark = pytest.mark.slow


def test_hospitals_that_did_not_train_want_maxfls_model_rather(capsys):
    runpy.run_path(str(ROOT / "examples/regression_hospitals.py"), run_name="__main__")
    *_, paired = capsys.readouterr().out.splitlines()
    differences = re.findall(r"(-?[\d.]+) ± ([\d.]+)", paired)
    assert len(differences) == 3, "at each learning rate"
    assert all(float(mean) > float(half) for mean, half in differences)


def test_adapters_are_trained_of_a_model_that_was_trained_before():
    example = runpy.run_path(str(ROOT / "examples/lora_transformer.py"))
    history = example["main"](width=8, depth=1, base_rounds=2, rounds=2, steps=2)
    assert np.isfinite(history.evaluation.test_loss).all()
    names = {path[-1].name for path, _ in jax.tree_util.tree_leaves_with_path(history.params)}
    assert names == {"A", "B"}
