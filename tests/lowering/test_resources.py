"""What a kernel's instructions and its machine code say of it: counts, registers, occupancy."""

from dataclasses import replace

from course import lower
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, MATMUL


def test_counts_of_a_vector_add(add):
    assert add.counts["ttir"] == {"loads": 2, "stores": 1, "dots": 0, "reductions": 0}
    assert add.counts["ptx"]["vectorized global loads"] == add.counts["ptx"]["global loads"] == 4
    assert add.counts["sass"]["fp32 additions"] == 8
    unaligned = ("*fp32", "*fp32", "*fp32", "i32", 1024)
    scalar = lower(kernels.add_kernel, *unaligned, target="sm_90").counts["ptx"]
    assert (scalar["global loads"], scalar["vectorized global loads"]) == (16, 0)


def test_counts_of_a_row_sum():
    arguments = ("*fp32:16", "*fp32:16", "i32:16", 1024)
    counts = lower(kernels.row_sum_kernel, *arguments, target="sm_90").counts
    assert counts["ttgir"]["reductions"] == 1
    # 5 within a warp of 32, 2 for its 4 warps
    assert counts["ptx"]["shuffles"] == counts["sass"]["shuffles"] == 7
    assert counts["ptx"]["barriers"] == counts["sass"]["barriers"] > 0


def test_descriptors_and_amds_buffer_loads_are_counted():
    block = "tensordesc<fp16[64, 64]>"
    by_descriptor = lower(kernels.descriptor_kernel, block, "*fp16:16", 64, target="sm_90")
    assert by_descriptor.counts["ttir"]["loads"] == 1
    amd = lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024, target="gfx942")
    assert amd.counts["ttgir"]["loads"] == 2


def test_registers_and_the_occupancy_that_follows(add):
    resources = add.resources
    assert (resources.spill_bytes, resources.shared_bytes, resources.num_warps) == (0, 0, 4)
    assert 8 <= resources.registers <= 64
    limited = resources.programs_per_sm, resources.limit, resources.occupancy
    assert limited == (16, "warps", 1.0)
    assert "programs of 4 warps on" in str(resources)
    assert "programs of 1 warp on" in str(replace(resources, num_warps=1))


def test_what_finds_no_register_is_spilled():
    few = lower(kernels.matmul_kernel, *MATMUL, maxnreg=48, target="sm_80")
    assert few.resources.spill_bytes > 0


def test_what_a_print_keeps_in_memory_is_no_spill():
    assert lower(kernels.print_kernel, "*fp32", target="sm_90").resources.spill_bytes == 0


def test_a_kernel_of_too_many_warps_cannot_be_launched():
    arguments = {"BLOCK_SIZE": 4096, "num_warps": 64, "target": "sm_90"}
    resources = lower(kernels.add_kernel, *ADD, **arguments).resources
    assert (resources.fits, resources.programs_per_sm) == (False, 0)
    assert "64 warps, and a program may have 32" in str(resources)


def test_a_kernel_of_too_much_shared_memory_cannot_be_launched():
    large = (*MATMUL[:-1], 128)
    resources = lower(kernels.matmul_kernel, *large, num_stages=8, target="sm_80").resources
    assert (resources.fits, resources.programs_per_sm) == (False, 0)
    assert "too much, it cannot be launched" in str(resources)
