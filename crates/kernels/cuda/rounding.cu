// From single to half precision.
//
// For the kernels of `scoring.cu`: of the `dim` numbers of a query every 32 are stored in another order, so that what a thread of a matrix product owns
// lies side by side: number 8 j + 2 t + e is stored at 8 t + 2 j + e.

// To bf16, two numbers in one register.
__device__ u32 pack_bf16(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// `count` numbers, then zeros; both are multiples of eight, and a thread has eight.
extern "C" __global__ void round_to_bf16(uint4* out, const float* in, u64 count, u64 all) {
    u64 at = 8 * (u64)thread_index();
    if (at >= all) return;
    float4 low = {}, high = {};
    if (at < count) low = *(const float4*)(in + at), high = *(const float4*)(in + at + 4);
    out[at / 8] = make_uint4(
        pack_bf16(low.x, low.y), pack_bf16(low.z, low.w), pack_bf16(high.x, high.y), pack_bf16(high.z, high.w));
}

__device__ u32 stored(u32 at) { return (at & ~31u) | ((at & 6) << 2) | ((at & 24) >> 2) | (at & 1); }

// Rows of items, padded to `most` with zeros. One block a padded row.
extern "C" __global__ void pad_items_f16(f16* out, const float* rows, const u32* offsets, u32 most, u32 dim) {
    u32 item = blockIdx.x / most, r = blockIdx.x % most, first = offsets[item], count = offsets[item + 1] - first;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
        out[(size_t)blockIdx.x * dim + at] = to_f16(r < count ? rows[(size_t)(first + r) * dim + at] : 0.0f);
}

// Rows in the order of numbers and, if wanted, in the stored order.
extern "C" __global__ void round_rows(f16* out, f16* reordered, const float* rows, u32 dim, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    size_t row = at / dim;
    u32 column = at % dim;
    f16 value = to_f16(rows[at]);
    out[at] = value;
    if (reordered) reordered[row * dim + stored(column)] = value;
}

// The weights of a memory: both layers, one below the other. `of_first` applies to first queries and `of_refined` to
// refined ones, whose numbers are in the stored order; the results of both are. `of_rows` applies to rows of contexts. Every
// member has `2 dim` lines.
extern "C" __global__ void round_memory(
    f16* of_first, f16* of_refined, f16* of_rows, const float* linear, const float* gate, u32 dim) {
    u32 line = blockIdx.x % (2 * dim), own = line % dim, to = line - own + stored(own);
    size_t member = blockIdx.x / (2 * dim) * (2 * (size_t)dim * dim);
    const float* weights = (line < dim ? linear : gate) + member + (size_t)own * 2 * dim;
    // The layer of the gate is halved, which half precision does exactly.
    float share = line < dim ? 1.0f : 0.5f;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        f16 value = to_f16(share * weights[at]);
        of_first[member + (size_t)to * dim + at] = value;
        of_refined[member + (size_t)to * dim + stored(at)] = value;
        of_rows[member + (size_t)line * dim + at] = to_f16(share * weights[dim + at]);
    }
}
