"""A process of its own that loads the operator with the fake driver, calls it, and prints as
JSON what came of it.

One process has one driver library and one operator, so the tests' own process takes no part in it.
"""

import json
import os
import sys
import threading
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from course import aot
from course.aot import fake_driver
from course.errors import CourseError

HEAD_DIMS, DTYPES = (32, 64), ("fp16",)
found: dict[str, Any] = {}


def said(call: Any) -> str:
    """What a call that must fail says."""
    try:
        call()
    except (RuntimeError, CourseError) as error:
        return str(error)
    return "nothing: it succeeded"


def tensor(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, dtype=torch.float16)


def recorded(call: Any) -> dict[str, Any]:
    """The launches of a call, its results' shapes and addresses."""
    with fake_driver.recorded() as calls:
        out, lse = call()
    launches = [
        {**each.details, "result": each.result} for each in calls if each.name == "cuLaunchKernel"
    ]
    return {
        "launches": launches,
        "loads": sum(each.name == "cuLibraryLoadData" for each in calls),
        "shapes": [list(out.shape), list(lse.shape)],
        "dtypes": [str(out.dtype), str(lse.dtype)],
        "addresses": [out.data_ptr(), lse.data_ptr()],
    }


class Attend(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, lse = torch.ops.course.fmha(q, k, v, 0.125, True)
        return out * lse[..., None]


q, k, v = tensor(2, 3, 200, 64), tensor(2, 3, 333, 64), tensor(2, 3, 333, 64)

# With no driver. What follows may look for a GPU, and would find the machine's own driver: it comes
# after the fake driver.
fmha = aot.operator(HEAD_DIMS, DTYPES, target="sm_90")
found["schema"] = str(fmha.default._schema)
found["no driver"] = said(lambda: fmha(q, k, v, 0.125, False))
found["other kernels"] = said(lambda: aot.operator((64,), DTYPES, target="sm_90"))
found["same again"] = aot.operator(HEAD_DIMS, DTYPES, target="sm_90") is fmha

# With the fake driver. The first call loads the kernels: when that fails, the next one tries again.
aot.operator(HEAD_DIMS, DTYPES, target="sm_90", driver=fake_driver)
os.environ["COURSE_FAKE_DRIVER_FAIL"] = "cuLibraryLoadData=209"
found["not loaded"] = said(lambda: fmha(q, k, v, 0.125, False))
del os.environ["COURSE_FAKE_DRIVER_FAIL"]
found["first"] = recorded(lambda: fmha(q, k, v, 0.125, False))
found["inputs"] = [x.data_ptr() for x in (q, k, v)]
rows = [
    x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)
]  # [batch, length, heads, head_dim] in memory
found["rows"] = recorded(lambda: fmha(*rows, 0.5, True))
found["32"] = recorded(lambda: fmha(*[tensor(1, 2, 5, 32)] * 3, 1.0, False))
odd = torch.ones(3 * 7 * 64, dtype=torch.float16).as_strided(
    (1, 3, 7, 64), (5, 448, 64, 1)
)  # nothing is 5 elements apart
found["one batch"] = recorded(lambda: fmha(odd, odd, odd, 1.0, False))
found["no keys"] = recorded(lambda: fmha(q, k[:, :, :0], v[:, :, :0], 1.0, False))
found["no queries"] = recorded(lambda: fmha(q[:, :, :0], k, v, 1.0, False))
exported = torch.export.export(Attend(), (q, k, v))
found["exported"] = [
    str(node.target) for node in exported.graph.nodes if node.op == "call_function"
]
with FakeTensorMode():
    traced = [
        torch.empty(sizes, dtype=torch.bfloat16)
        for sizes in ((2, 3, 200, 64), *[(2, 3, 333, 64)] * 2)
    ]
    found["fake"] = [
        [list(x.shape), str(x.dtype), str(x.device)] for x in fmha(*traced, 0.125, True)
    ]
found["fake dimensions"] = said(
    lambda: fmha(*[torch.empty(3, 200, 64, device="meta")] * 3, 0.125, True)
)
compiled = torch.compile(Attend(), fullgraph=True, backend="aot_eager")
found["compiled"] = list(compiled(q, k, v).shape)
torch.library.opcheck(
    fmha.default, (q, k, v, 0.125, True), test_utils=("test_schema", "test_faketensor")
)

in_thread: list[Any] = []
thread = threading.Thread(
    target=lambda: in_thread.append(recorded(lambda: fmha(q, k, v, 0.125, False)))
)  # it has no context
thread.start()
thread.join()
found["thread"] = in_thread[0]["launches"][0]["result"] if in_thread else "it failed"

os.environ["COURSE_FAKE_DRIVER_FAIL"] = "cuLaunchKernel=719"
found["launch fails"] = said(lambda: fmha(q, k, v, 0.125, False))
del os.environ["COURSE_FAKE_DRIVER_FAIL"]

wide = torch.ones(2, 3, 200, 128, dtype=torch.float16)
shifted = torch.ones(2 * 3 * 200 * 64 + 1, dtype=torch.float16)[1:].view(2, 3, 200, 64)
REFUSED = {
    "q dimensions": lambda: fmha(q[0], k, v, 0.125, False),
    "k dtype": lambda: fmha(q, k.float(), v, 0.125, False),
    "q dtype": lambda: fmha(q.float(), k.float(), v.float(), 0.125, False),
    "last stride": lambda: fmha(wide[..., ::2], k, v, 0.125, False),
    "stride": lambda: fmha(tensor(2, 3, 200, 72)[..., :64], k, v, 0.125, False),
    "address": lambda: fmha(shifted, k, v, 0.125, False),
    "head_dim": lambda: fmha(
        tensor(2, 3, 9, 48), tensor(2, 3, 9, 48), tensor(2, 3, 9, 48), 0.125, False
    ),
    "heads": lambda: fmha(q, k[:, :1], v[:, :1], 0.125, False),
    "lengths": lambda: fmha(q, k, v[:, :, :300], 0.125, False),
    "scale 0": lambda: fmha(q, k, v, 0.0, False),
    "scale that float32 has as 0": lambda: fmha(q, k, v, 1e-50, False),
    "scale NaN": lambda: fmha(q, k, v, float("nan"), False),
    "batches": lambda: fmha(*[tensor(1, 1, 1, 64).expand(70_000, 1, 1, 64)] * 3, 1.0, False),
}
found["refused"] = {name: said(call) for name, call in REFUSED.items()}
with fake_driver.recorded() as calls:
    for call in REFUSED.values():
        said(call)
found["launches of refused calls"] = len(calls)

json.dump(found, sys.stdout)
