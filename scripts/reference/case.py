"""What an operator's fixture is made of, and how it is written."""

import json
import math
from dataclasses import dataclass, field

import numpy as np

MARGIN = 20
"""A mistake must miss the expected values by this many tolerances, or the fixture would not guard against it."""


def bf16(x):
    """Rounded to bf16, so that the engine can hold the very same number, as a weight or as f32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


@dataclass
class Case:
    """One operator, one set of inputs; `expected` and each of the `mistakes` map an output's name to its array."""

    name: str
    section: str
    about: str
    inputs: dict
    expected: dict
    mistakes: dict
    params: dict = field(default_factory=dict)
    relative_tolerance: float = 1e-5

    def tolerance(self):
        """Absolute, from the largest expected value."""
        largest = max(float(np.abs(value).max()) for value in self.expected.values())
        return float(f"{self.relative_tolerance * largest:.1e}")

    def distance(self, mistake):
        """How far a mistake is from what is right; NaN anywhere is as far as can be."""
        outputs = self.mistakes[mistake]
        diffs = [float(np.abs(outputs[key] - self.expected[key]).max()) for key in outputs]
        return math.inf if any(math.isnan(diff) for diff in diffs) else max(diffs)

    def check(self):
        """Fails where the fixture would let a mistake pass."""
        for mistake, outputs in self.mistakes.items():
            assert outputs.keys() <= self.expected.keys(), f"{self.name}: {mistake} has other outputs"
            far = self.distance(mistake)
            assert far > MARGIN * self.tolerance(), f"{self.name}: {mistake} is only {far:.1e} away"

    def json(self):
        """One line for each array, so that a difference between two versions can be read."""
        document = {
            "operator": self.name,
            "section": self.section,
            "about": " ".join(self.about.split()),
            "params": self.params,
            "tolerance": self.tolerance(),
            "inputs": {key: encode(value) for key, value in self.inputs.items()},
            "expected": {key: encode(value) for key, value in self.expected.items()},
            "mistakes": {
                mistake: {key: encode(value, digits=4) for key, value in outputs.items()}
                for mistake, outputs in self.mistakes.items()
            },
        }
        return lines(document) + "\n"


def encode(value, digits=None):
    """Bytes as hexadecimal digits; NaN and infinity as null; `digits` where a few are enough."""
    value = np.asarray(value)
    if value.dtype == np.uint8:
        return {"shape": list(value.shape), "hex": value.tobytes().hex()}
    return {"shape": list(value.shape), "data": [number(x, digits) for x in value.ravel().tolist()]}


def number(x, digits):
    """A number that f32 holds in full, any other with ten digits, unless fewer will do."""
    if not math.isfinite(x):
        return None
    if digits is not None:
        return float(f"{x:.{digits - 1}e}")
    return x if float(np.float32(x)) == x else float(f"{x:.9e}")


def lines(value, depth=0):
    """JSON with objects of objects spread over lines, and all else on one line."""
    if isinstance(value, dict) and value and "shape" not in value:
        inner = " " * (depth + 1)
        items = (f"{inner}{json.dumps(key)}: {lines(item, depth + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + "\n" + " " * depth + "}"
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
