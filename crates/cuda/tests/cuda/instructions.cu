// Instructions and functions that kernels build on, each with its operands as they are.

typedef unsigned int u32;
typedef unsigned short u16;

extern "C" __global__ void convert(const float* in, u32* f16x2, u32* bf16x2, u16* f16, float* back, u32* tf32) {
    u32 at = threadIdx.x;
    float x = in[2 * at], y = in[2 * at + 1];
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(f16x2[at]) : "f"(y), "f"(x));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bf16x2[at]) : "f"(y), "f"(x));
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    f16[at] = half;
    asm("cvt.f32.f16 %0, %1;" : "=f"(back[at]) : "h"(half));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32[at]) : "f"(x));
}

// Two numbers in half precision at once.
extern "C" __global__ void of_two(const u32* x, const u32* y, const u32* z, u32* out) {
    u32 at = threadIdx.x, count = blockDim.x;
    asm("add.f16x2 %0, %1, %2;" : "=r"(out[at]) : "r"(x[at]), "r"(y[at]));
    asm("sub.f16x2 %0, %1, %2;" : "=r"(out[count + at]) : "r"(x[at]), "r"(y[at]));
    asm("mul.f16x2 %0, %1, %2;" : "=r"(out[2 * count + at]) : "r"(x[at]), "r"(y[at]));
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out[3 * count + at]) : "r"(x[at]), "r"(y[at]), "r"(z[at]));
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(out[4 * count + at]) : "r"(x[at]));
}

// `sums += left right`, of 16 rows by 8 columns; left lies row by row and right column by column. A register of them has
// two numbers or, in single precision, one.
#define PRODUCT(name, instruction, registers)                                                                        \
    extern "C" __global__ void name(float* sums, const u32* left, const u32* right) {                                \
        u32 g = threadIdx.x / 4, t = threadIdx.x % 4;                                                                \
        float* own = sums + g * 8 + 2 * t;                                                                           \
        left += g * registers + t, right += g * registers + t;                                                       \
        asm(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                     \
            : "+f"(own[0]), "+f"(own[1]), "+f"(own[64]), "+f"(own[65])                                               \
            : "r"(left[0]), "r"(left[8 * registers]), "r"(left[4]), "r"(left[8 * registers + 4]), "r"(right[0]),     \
              "r"(right[4]));                                                                                        \
    }
PRODUCT(product_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 8)
PRODUCT(product_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 8)
PRODUCT(product_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8)

// Four matrices of 8 by 8 numbers of 16 bits, as they are and transposed.
extern "C" __global__ void load_matrices(const uint4* in, u32* out, u32* turned) {
    __shared__ uint4 rows[32];
    u32 a, b, c, d, lane = threadIdx.x;
    rows[lane] = in[lane];
    __syncwarp();
    u32 at = (u32)__cvta_generic_to_shared(rows + lane);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
    out[lane] = a, out[32 + lane] = b, out[64 + lane] = c, out[96 + lane] = d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
    turned[lane] = a, turned[32 + lane] = b, turned[64 + lane] = c, turned[96 + lane] = d;
}

// Two groups of copies behind the back of the thread, of which the first is waited for first.
extern "C" __global__ void copies(const uint4* in, uint4* out) {
    extern __shared__ uint4 staged[];
    u32 at = threadIdx.x, count = blockDim.x;
    for (u32 group = 0; group < 2; group++) {
        u32 to = (u32)__cvta_generic_to_shared(staged + group * count + at);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + group * count + at) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[at] = staged[count - 1 - at];
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[count + at] = staged[2 * count - 1 - at];
}

// The numbers of other threads of a warp, of which there are as many as the last has.
extern "C" __global__ void shuffles(const u32* in, u32* out) {
    u32 at = threadIdx.x, count = blockDim.x, value = in[at];
    out[at] = __shfl_xor_sync(~0u, value, 5);
    out[count + at] = __shfl_sync(~0u, value, 3, 8);
    out[2 * count + at] = __shfl_down_sync(~0u, value, 2, 16);
    out[3 * count + at] = __shfl_up_sync(~0u, value, 3);
    out[4 * count + at] = __ballot_sync(~0u, value % 3 == 0);
    out[5 * count + at] = __any_sync(~0u, value == 7) + 2 * __all_sync(~0u, value < 40);
    // Halves of a warp on their own.
    u32 half = at % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
    if (at % 32 < 16) value = __shfl_xor_sync(half, value, 1);
    else value = __shfl_xor_sync(half, value, 2);
    out[6 * count + at] = value;
}

// Threads that have ended are not waited for.
extern "C" __global__ void barriers(u32* out) {
    __shared__ u32 numbers[96];
    u32 at = threadIdx.x;
    if (at >= 96) return;
    numbers[at] = at * at;
    __syncthreads();
    out[at] = numbers[95 - at];
    out[96 + at] = __syncthreads_or(at == 70) + 2 * __syncthreads_and(at < 90) + 4 * __syncthreads_count(at % 3 == 0);
}

extern "C" __global__ void atomics(u32* count, int* least, float* sum, unsigned long long* wide) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(count, 1u);
    atomicMin(least, 5 - (int)at);
    atomicAdd(sum, 0.5f);
    atomicAdd(wide, 1ull << 32);
}

// Bits of one number.
extern "C" __global__ void bits(const u32* in, u32* out) {
    u32 at = threadIdx.x, count = blockDim.x, value = in[at];
    out[at] = __popc(value);
    out[count + at] = __ffs((int)value);
    out[2 * count + at] = __clz((int)value);
    out[3 * count + at] = __float_as_uint(__uint_as_float(value & 0x7f7fffff) * 2.0f);
}

extern "C" __global__ void __launch_bounds__(64) small_blocks(u32* out) { out[threadIdx.x] = threadIdx.x; }
