"""Which lines of a stage count as which instruction."""

import pytest

from course.lowering.instruction_counts import count

LINES = [
    ("ttir", "loads", "%x = tt.descriptor_gather %d[%i, %c] : tensor<32x64xf16>", 1),
    ("ttir", "stores", "tt.descriptor_scatter %d[%i, %c], %x : tensor<32x64xf16>", 1),
    ("ttir", "dots", "%acc = tt.dot_scaled %a scale %s, %b scale %t, %c lhs = e4m3", 1),
    ("ttgir", "dots", "ttng.tc_gen5_mma_scaled %a, %b, %acc[], %s, %t, %true, %true", 1),
    ("ttgir", "dots", "%r = ttng.warp_group_dot_wait %acc {pendings = 1 : i32}", 0),
    ("ttgir", "dots", "%a = ttg.convert_layout %x : tensor<64x64xf16, #ttg.dot_op<{}>>", 0),
    ("ttgir", "asynchronous copies", "ttng.async_tma_gather %d[%i, %c] %buffer, %barrier", 1),
    ("ttgir", "asynchronous copies", "ttng.async_tma_copy_local_to_global %d[%i, %j] %c", 1),
    ("llir", "inline assembly", '%1 = tail call i32 asm "xor.b32 $0, $1, 1;", "=r,r"(i32 %0)', 1),
    ("llir", "inline assembly", 'tail call void asm sideeffect "st.global …", "r,l"(i32 %0)', 1),
    ("llir", "barriers", "tail call void @llvm.amdgcn.s.barrier.signal(i32 -1)", 1),
    ("llir", "barriers", "tail call void @llvm.amdgcn.s.barrier.wait(i16 -1)", 0),
    ("ptx", "global loads", "@%p1 ld.volatile.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 ];", 1),
    ("ptx", "vectorized global loads", "ld.relaxed.gpu.global.v2.b32 { %r1, %r2 }, [ %rd1 ];", 1),
    ("ptx", "global loads", "ld.shared.b32 %r1, [global_smem];", 0),
    ("ptx", "fp32 additions", "atom.global.gpu.acq_rel.add.f32 %r1, [ %rd1 + 0 ], %r2;", 0),
    ("ptx", "fp32 additions", "@%p1 add.rn.ftz.f32 %r1, %r2, %r3;", 1),
    ("ptx", "fp32 additions", "add.f32x2 %rd1, %rd2, %rd3;", 1),
    ("ptx", "fp32 fused multiply-adds", "fma.rn.ftz.f32 %r1, %r2, %r3, %r4;", 1),
    ("sass", "fp32 additions", "/*0010*/ FADD2 R2, R2.F32x2.HI_LO, R4.F32x2.HI_LO ;", 1),
    ("sass", "mma", "/*0010*/ OMMA.SF.16864.F32.E2M1.E2M1.E8 R4, R8, R10, R4, R1, R2, URZ ;", 1),
    ("sass", "asynchronous copies", "/*0010*/ UTMASTG.2D [UR4], [UR6] ;", 1),
    ("amdgcn", "barriers", "\ts_barrier_signal -1", 1),
    ("amdgcn", "barriers", "\ts_barrier_wait -1", 0),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "name", "line", "number"), LINES)
def test_a_line_counts_as_what_it_is(stage, name, line, number):
    assert count({stage: line})[stage][name] == number
