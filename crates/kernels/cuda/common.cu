// What kernels share.

typedef unsigned int u32;
typedef unsigned short f16;
typedef unsigned long long u64;


// The sum of a number of each of up to 1024 threads, in every thread.
__device__ float block_sum(float value) {
    __shared__ float of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (u32 warp = 0; warp < (blockDim.x + 31) / 32; warp++) sum += of_warp[warp];
    return sum;
}

__device__ double block_sum_double(double value) {
    __shared__ double of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    for (u32 warp = 0; warp < (blockDim.x + 31) / 32; warp++) sum += of_warp[warp];
    return sum;
}

__device__ size_t thread_index() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

// Two numbers in half precision, in one register.
__device__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ f16 to_f16(float value) { return (f16)pack(value, 0.0f); }
__device__ float to_float(f16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
    return wide;
}
