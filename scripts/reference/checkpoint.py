"""Tensors of a checkpoint in the released layout, as float64 (spec, section 1)."""

import json
import struct
from pathlib import Path

import numpy as np

from ops import mxfp4_decode

PREFIX = "language_model.model."


class Checkpoint:
    """Reads the header of every shard once, and a tensor when asked for it. Small models only: nothing is cached."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.config = json.loads((self.folder / "config.json").read_text())["text_config"]
        self._places = {}
        for shard in sorted(self.folder.glob("*.safetensors")):
            raw = shard.read_bytes()
            (length,) = struct.unpack("<Q", raw[:8])
            for name, entry in json.loads(raw[8 : 8 + length]).items():
                if name != "__metadata__":
                    self._places[name] = (raw, 8 + length, entry)

    def tensor(self, name):
        """BF16 and F32 widened, U8 as bytes."""
        raw, base, entry = self._places[name]
        begin, end = entry["data_offsets"]
        data, shape = raw[base + begin : base + end], entry["shape"]
        match entry["dtype"]:
            case "BF16":
                widened = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
                return widened.reshape(shape).astype(np.float64)
            case "F32":
                return np.frombuffer(data, "<f4").reshape(shape).astype(np.float64)
            case "U8":
                return np.frombuffer(data, np.uint8).reshape(shape)
        raise ValueError(f"{name}: dtype {entry['dtype']}")

    def model(self, name):
        """A tensor of the model itself."""
        return self.tensor(PREFIX + name + ".weight")

    def head(self):
        """The output projection, which lies outside the model's prefix."""
        return self.tensor("language_model.lm_head.weight")

    def layer(self, index, name):
        """A tensor of a layer, by its name after the layer's number."""
        return self.tensor(f"{PREFIX}layers.{index}.{name}")

    def expert(self, index, expert):
        """An expert's gate, up and down matrices, decoded."""
        parts = []
        for part in ("w1", "w3", "w2"):
            name = f"block_sparse_moe.experts.{expert}.{part}"
            packed = self.layer(index, f"{name}.weight_packed")
            parts.append(mxfp4_decode(packed, self.layer(index, f"{name}.weight_scale")))
        return tuple(parts)
