/*
 * Launches of an exported vector add, one after the other, to be timed from outside. SOURCE is the file that aot.export wrote,
 * LAUNCH its function: what that file keeps to itself is seen here. A launch that fails ends them.
 */
#include SOURCE

CUresult by_export(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n, int launches) {
    CUresult result = CUDA_SUCCESS;
    while (launches-- && result == CUDA_SUCCESS) result = LAUNCH(stream, x, y, out, n);
    return result;
}

/* By the driver's own function alone: one program, with a kernel that by_export has loaded. */
CUresult by_driver(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n, int launches) {
    CUdeviceptr scratch = 0; /* of the last two the driver reads as many as the kernel has */
    void *arguments[] = {&x, &y, &out, &n, &scratch, &scratch};
    CUresult result = CUDA_SUCCESS;
    while (launches-- && result == CUDA_SUCCESS)
        result = cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 128, 1, 1, 0, stream, arguments, NULL);
    return result;
}
