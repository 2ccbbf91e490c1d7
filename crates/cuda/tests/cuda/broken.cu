// Kernels with one mistake each.

typedef unsigned int u32;

extern "C" __global__ void no_barrier(float* out) {
    __shared__ float numbers[64];
    numbers[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = numbers[63 - threadIdx.x];
}

extern "C" __global__ void no_wait(const float4* in, float4* out) {
    __shared__ float4 numbers[16];
    u32 to = (u32)__cvta_generic_to_shared(numbers + threadIdx.x);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = numbers[threadIdx.x];
}

extern "C" __global__ void nothing_written(float* out) {
    extern __shared__ float numbers[];
    out[threadIdx.x] = numbers[threadIdx.x];
}

extern "C" __global__ void beyond_the_array(float* out) { out[1 << 20] = 1; }

extern "C" __global__ void beyond_shared_memory(float* out) {
    extern __shared__ float numbers[];
    numbers[64 + threadIdx.x] = 1;
    out[threadIdx.x] = numbers[threadIdx.x];
}

extern "C" __global__ void too_much_shared_memory(float* out) {
    __shared__ float numbers[64][100];
    numbers[threadIdx.x][0] = 1;
    out[threadIdx.x] = numbers[threadIdx.x][0];
}

extern "C" __global__ void waits_forever(float* out) {
    if (threadIdx.x % 2) __syncwarp();
    else __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" __global__ void different_meetings(float* out) {
    float number = threadIdx.x;
    if (threadIdx.x % 2) number += __shfl_xor_sync(~0u, number, 1);
    else __syncwarp();
    out[threadIdx.x] = number;
}
