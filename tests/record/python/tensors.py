# SPDX-License-Identifier: MIT
#
# Tensors of many kinds: what each is, as PyTorch says, one JSON object a line. Ends by abort().

import json
import os

import torch

torch.manual_seed(1)
base = torch.arange(24.).reshape(2, 3, 4)


class Mine(torch.Tensor):
    pass


# Their elements are not in memory in order, or not at all.
HIDDEN = {
    "imaginary": torch.tensor([1 + 2j, 3 - 4j]),
    "meta": torch.empty(2, 2, device="meta"),
    "sparse": torch.eye(2).to_sparse(),
    "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
}
SHOWN = {
    "ones": torch.ones(2, 4),
    "scalar": torch.tensor(3.5),
    "long": torch.arange(6).reshape(2, 3),
    "transposed": base.permute(2, 0, 1),
    "sliced": base[:, 1:, ::2],
    "expanded": torch.tensor([[1.], [2.]]).expand(2, 3),
    "half": torch.tensor([0.5, -2.0], dtype=torch.float16),
    "bfloat": torch.tensor([1.5, -3.0], dtype=torch.bfloat16),
    "double": torch.rand(3, dtype=torch.float64),
    "truths": torch.tensor([True, False]),
    "small": torch.tensor([1, 255], dtype=torch.uint8),
    "six": torch.arange(64).reshape(2, 2, 2, 2, 2, 2),
    "grad": torch.tensor([1.0, 2.0], requires_grad=True) * 2,
    "view": torch.frombuffer(bytearray(b"\1\0\0\0\2\0\0\0"), dtype=torch.int32),
    "weight": torch.nn.Linear(2, 1).weight,
    "mine": torch.ones(1).as_subclass(Mine),
    "long_one": torch.arange(1000.),
}


globals().update(HIDDEN | SHOWN)
for name, tensor in (HIDDEN | SHOWN).items():
    print(json.dumps({"name": name, "class": type(tensor).__name__, "dtype": str(tensor.dtype),
                      "shape": list(tensor.shape), "data": tensor.tolist() if name in SHOWN else None}), flush=True)
os.abort()
