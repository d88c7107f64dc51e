"""The main job of ``make sim``: real handwritten digits through the array, ``examples/digits.py`` as a bench."""

import numpy as np
from amaranth.lib import data

from examples import digits
from hdl.tensor import TensorEngine
from spec.formats import FP32
from verif.harness.bench import Bench, Trial
from verif.tensor.driver import TensorDriver

LOGITS = data.ArrayLayout(FP32.width, 10)
"""The ten scores of one image."""


def check(trial: Trial) -> None:
    """Logits bit-equal to golden; accuracy beside scikit-learn's; planted faults in the logits are noticed."""
    model = trial.model(**TensorDriver.build(trial.config))
    found = digits.classify(TensorDriver(trial.config, model))
    ours, golden = (np.ascontiguousarray(scores.T.view(np.uint32)) for scores in (found.logits, found.golden))
    with trial.test("logits are golden's, bit for bit"):
        trial.scoreboard("logits", LOGITS, "fp32").compare(ours, golden)
    with trial.test("planted faults are noticed"):
        trial.notices("logits", LOGITS, golden)
    with trial.test("accuracy is scikit-learn's, give or take one image in a hundred for bf16"):
        assert abs(found.accuracy - found.reference) < 0.01
    trial.row.utilisation = found.utilisation
    trial.row.figures = {
        "images": len(ours),
        "accuracy [%]": round(100 * found.accuracy, 2),
        "accuracy of scikit-learn, float64 [%]": round(100 * found.reference, 2),
    }


BENCH = Bench("digits", block=TensorEngine, quick=(digits.CONFIG,), check=check)
