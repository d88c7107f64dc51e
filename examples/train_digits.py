"""Train the network of ``examples/digits.py`` and write its weights as bf16 bit patterns.

Data: the 1,797 handwritten digits that ship with scikit-learn (8x8 pixels, 16 grey levels). The first 1,257 images
train, the last 540 test. Both layers carry their bias as one more input that is always 1, so a layer is one product.

    python examples/train_digits.py        # rewrites examples/digits.npz; takes a few seconds
"""

from pathlib import Path

import ml_dtypes
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

WEIGHTS = Path(__file__).with_name("digits.npz")
TRAIN = 1257
HIDDEN = 32


def images() -> tuple[np.ndarray, np.ndarray]:
    """Pixels scaled to 0..1, exact in bf16, as float32 ``[1797, 64]``, and the digit each shows."""
    digits = load_digits()
    return (digits.data / 16).astype(np.float32), digits.target


def main() -> None:
    """Train with a fixed seed, round to bf16, save, and print both accuracies."""
    pixels, target = images()
    network = MLPClassifier((HIDDEN,), alpha=0.01, max_iter=400, random_state=7)
    network.fit(pixels[:TRAIN], target[:TRAIN])
    layers = [
        np.vstack([weights, bias]).astype(ml_dtypes.bfloat16).view(np.uint16)
        for weights, bias in zip(network.coefs_, network.intercepts_, strict=True)
    ]
    reference = network.score(pixels[TRAIN:], target[TRAIN:])
    np.savez(WEIGHTS, first=layers[0], second=layers[1], reference=np.float64(reference))
    print(f"scikit-learn's own accuracy in float64: {reference:.2%}; wrote {WEIGHTS.name}")


if __name__ == "__main__":
    main()
