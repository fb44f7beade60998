// NVIDIA's occupancy calculator behind one C function, for tests/test_occupancy.py.
#include <cuda_occupancy.h>

extern "C" int active_blocks(int major, int minor, int warps, int per_sm, int per_block, int reserved, int registers,
                             int shared, int block)
{
    cudaOccDeviceProp gpu = cudaOccDeviceProp();
    gpu.computeMajor = major;
    gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = 1024;
    gpu.maxThreadsPerMultiprocessor = 32 * warps;
    gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536;
    gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 48 * 1024;
    gpu.sharedMemPerMultiprocessor = per_sm;
    gpu.sharedMemPerBlockOptin = per_block;
    gpu.reservedSharedMemPerBlock = reserved;
    gpu.numSms = 1;
    cudaOccFuncAttributes kernel = cudaOccFuncAttributes();
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = per_block;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state = cudaOccDeviceState();
    cudaOccResult result = cudaOccResult();
    int failed = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, block, shared);
    return failed ? -failed : result.activeBlocksPerMultiprocessor;
}
