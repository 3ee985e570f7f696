"""What a GPU lacks is skipped with the reason, and what it has is not; the GPUs are invented."""

from types import SimpleNamespace

import pytest
import torch

import course
from kernels import attention, matmul, softmax
from tests.support import devices

pytestmark = pytest.mark.skipif(course.MODE.gpu, reason="needs CPU mode: GPUs are invented here")

# name: compute capability, shared memory of a program in KiB, memory in GiB
CARDS = {
    "T4": ((7, 5), 64, 16), "A100": ((8, 0), 163, 80), "RTX 4090": ((8, 9), 99, 24), "H100": ((9,
    0), 227, 80),
    "H200": ((9, 0), 227, 141), "B200": ((10, 0), 227, 180), "RTX 5090": ((12, 0), 99, 32),
}  # fmt: skip


@pytest.fixture
def card(monkeypatch):
    def be(name):
        capability, kib, gib = CARDS[name]
        properties = SimpleNamespace(shared_memory_per_block_optin=kib * 1024)
        monkeypatch.setattr(devices, "MODE", SimpleNamespace(gpu=True))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=None: properties)
        monkeypatch.setattr(
            torch.cuda, "mem_get_info", lambda device=None: (gib * 2**30 - 2**29, gib * 2**30)
        )
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    return be


NO_ROOM = "takes up to {} KiB of shared memory for a program, and this GPU has {}"
OTHER_KIND = "was written for compute capability 9, and this GPU has another"


@pytest.mark.parametrize(
    ("name", "launcher", "head_dim", "says"),
    [
        ("RTX 4090", matmul.matmul_v4, 64, f"matmul_v4 {NO_ROOM.format(227, 99)}"),
        ("A100", matmul.matmul_v5, 64, NO_ROOM.format(227, 163)),
        ("T4", attention.flash_attention_v4, 32, NO_ROOM.format(73, 64)),
        ("RTX 5090", attention.flash_attention_v1, 256, NO_ROOM.format(160, 99)),
        ("B200", attention.flash_attention_v5, 128, OTHER_KIND),
    ],
)
def test_a_version_that_a_gpu_lacks_room_for_is_skipped(card, name, launcher, head_dim, says):
    card(name)
    with pytest.raises(pytest.skip.Exception, match=says):
        devices.needs(launcher, head_dim)


@pytest.mark.parametrize("name", CARDS)
def test_what_picks_its_version_by_the_gpu_is_skipped_on_none(card, name):
    card(name)
    for launcher in (
        matmul.matmul,
        matmul.matmul_v3,
        attention.flash_attention,
        attention.flash_attention_v3,
        softmax.softmax_v7,
    ):
        devices.needs(launcher, 256)


@pytest.mark.parametrize("name", ["H100", "H200"])
def test_nothing_is_skipped_for_want_of_room_on_the_gpus_that_the_versions_were_made_for(
    card, name
):
    card(name)
    for module, operation in ((matmul, "matmul"), (attention, "flash_attention")):
        for version in range(1, 6):
            devices.needs(getattr(module, f"{operation}_v{version}"), 256)


def test_memory_counts_as_far_as_it_is_free(card):
    for name, skipped in (("T4", True), ("RTX 4090", False), ("H200", False)):
        card(name)
        if skipped:
            with pytest.raises(
                pytest.skip.Exception, match=r"needs 20 GiB .*, and 15\.5 of 16\.0 are free"
            ):
                devices.needs_free_gib(20)
        else:
            devices.needs_free_gib(20)


def test_a_t4_has_neither_bfloat16_nor_tf32(card):
    card("T4")
    assert devices.dtypes_of(torch.float16, torch.bfloat16) == [torch.float16]
    with pytest.raises(
        pytest.skip.Exception, match=r"needs TF32, which GPUs have from compute capability 8\.0 on"
    ):
        devices.needs_capability(8, 0, "TF32")
    card("A100")
    assert devices.dtypes_of(torch.float16, torch.bfloat16) == [torch.float16, torch.bfloat16]
    devices.needs_capability(8, 0, "TF32")


def test_nothing_is_skipped_in_cpu_mode():
    for launcher in (matmul.matmul_v5, attention.flash_attention_v5):
        devices.needs(launcher, 256)
    devices.needs_free_gib(10**6)
    devices.needs_shared_kib(10**6)
