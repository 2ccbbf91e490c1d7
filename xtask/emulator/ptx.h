// Instructions of PTX that kernels write as `asm`: each is a function of its name, with `_` for `.`, of its operands in
// their order. Layouts are those of the PTX ISA.
#pragma once

namespace ptx {

using emulated::block;
using emulated::from_bf16;
using emulated::from_half;
using emulated::to_bf16;
using emulated::to_half;

typedef uint16_t u16;
typedef uint32_t u32;

inline float low(u32 both) { return from_half((u16)both); }
inline float high(u32 both) { return from_half((u16)(both >> 16)); }
inline u32 pair(float low, float high) { return to_half(low) | (u32)to_half(high) << 16; }

// Conversions.
inline void cvt_rn_f16x2_f32(u32& to, float high, float low) { to = pair(low, high); }
inline void cvt_rn_bf16x2_f32(u32& to, float high, float low) { to = to_bf16(low) | (u32)to_bf16(high) << 16; }
inline void cvt_rn_f16_f32(u16& to, float value) { to = to_half(value); }
inline void cvt_f32_f16(float& to, u16 value) { to = from_half(value); }
inline void cvt_rna_tf32_f32(u32& to, float value) { to = emulated::bits_as<u32>(emulated::to_tf32(value)); }

// One number or two at once.
inline void add_f16x2(u32& to, u32 x, u32 y) { to = pair(low(x) + low(y), high(x) + high(y)); }
inline void sub_f16x2(u32& to, u32 x, u32 y) { to = pair(low(x) - low(y), high(x) - high(y)); }
inline void mul_f16x2(u32& to, u32 x, u32 y) { to = pair(low(x) * low(y), high(x) * high(y)); }
inline void fma_rn_f16x2(u32& to, u32 x, u32 y, u32 z) {
    to = pair(fmaf(low(x), low(y), low(z)), fmaf(high(x), high(y), high(z)));
}
inline void tanh_approx_f16x2(u32& to, u32 x) { to = pair(tanhf(low(x)), tanhf(high(x))); }

// Copies to shared memory.
inline void* in_shared(u32 at) { return emulated::SHARED_BASE + (int32_t)at; }
inline void cp_async_cg_shared_global(u32 to, const void* from, int bytes) { block->copy(in_shared(to), from, bytes); }
inline void cp_async_commit_group() { block->commit(); }
inline void cp_async_wait_group(unsigned left) { block->wait_for_copies(left); }

// Products of matrices: `out = left right + sums`, of 16 by DEPTH and DEPTH by 8 numbers. Lane 4 g + t has the sums
// (g, 2 t), (g, 2 t + 1), (g + 8, 2 t) and (g + 8, 2 t + 1).
struct Multiplied {
    u32 left[4], right[2];
    float sums[4];
};

struct Half {
    static const int PACKED = 2;
    static float number(u32 bits, int i) { return i ? high(bits) : low(bits); }
};
struct Bf16 {
    static const int PACKED = 2;
    static float number(u32 bits, int i) { return from_bf16((u16)(bits >> 16 * i)); }
};
// The other 13 bits do not count.
struct Tf32 {
    static const int PACKED = 1;
    static float number(u32 bits, int) { return emulated::bits_as<float>(bits & 0xffffe000); }
};

// A register of the left factor has the columns PACKED t, ... of row g or, if odd, of row g + 8; the last two are
// 4 PACKED columns further. So are the rows of the right factor, whose column is g.
template <typename Factor> void multiply_all(void* const* brought, unsigned lanes) {
    const int PACKED = Factor::PACKED, DEPTH = 8 * PACKED;
    if (lanes != ~0u) block->fail("a product of matrices without all threads of a warp");
    float left[16][DEPTH], right[DEPTH][8], sums[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const auto& own = *(const Multiplied*)brought[lane];
        int g = lane / 4, t = lane % 4;
        for (int at = 0; at < 2; at++)
            for (int i = 0; i < PACKED; i++) {
                int k = 4 * PACKED * at + PACKED * t + i;
                left[g][k] = Factor::number(own.left[2 * at], i);
                left[g + 8][k] = Factor::number(own.left[2 * at + 1], i);
                right[k][g] = Factor::number(own.right[at], i);
            }
        for (int i = 0; i < 4; i++) sums[g + i / 2 * 8][2 * t + i % 2] = own.sums[i];
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < DEPTH; k++)
            for (int column = 0; column < 8; column++) sums[row][column] += left[row][k] * right[k][column];
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            ((Multiplied*)brought[lane])->sums[i] = sums[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}

#define PRODUCT(name, factor)                                                                                        \
    inline void name(                                                                                                \
        float& d0, float& d1, float& d2, float& d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, float c0,        \
        float c1, float c2, float c3) {                                                                              \
        Multiplied own = {{a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3}};                                             \
        block->meet(~0u, &own, multiply_all<factor>);                                                                \
        d0 = own.sums[0], d1 = own.sums[1], d2 = own.sums[2], d3 = own.sums[3];                                      \
    }
PRODUCT(mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, Half)
PRODUCT(mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, Bf16)
PRODUCT(mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32, Tf32)
#undef PRODUCT

// Matrices of 8 by 8 numbers of 16 bits from shared memory: lane `8 i + row` has the address of a row of matrix `i`, and
// lane 4 g + t receives the numbers (g, 2 t) and (g, 2 t + 1) of each, or of the transposed.
struct LoadedMatrices {
    u32 at, results[4];
};
template <bool TRANSPOSED> void load_all(void* const* brought, unsigned lanes) {
    if (lanes != ~0u) block->fail("matrices are loaded without all threads of a warp");
    for (int matrix = 0; matrix < 4; matrix++)
        for (int lane = 0; lane < 32; lane++) {
            u32 both = 0;
            for (int i = 0; i < 2; i++) {
                int row = lane / 4, column = 2 * (lane % 4) + i;
                if (TRANSPOSED) std::swap(row, column);
                u32 at = ((LoadedMatrices*)brought[8 * matrix + row])->at;
                both |= (u32)((const u16*)in_shared(at))[column] << 16 * i;
            }
            ((LoadedMatrices*)brought[lane])->results[matrix] = both;
        }
}
template <bool TRANSPOSED> void load(u32& a, u32& b, u32& c, u32& d, u32 at) {
    LoadedMatrices own = {at, {}};
    block->meet(~0u, &own, load_all<TRANSPOSED>);
    a = own.results[0], b = own.results[1], c = own.results[2], d = own.results[3];
}
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(u32& a, u32& b, u32& c, u32& d, u32 at) { load<false>(a, b, c, d, at); }
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32& a, u32& b, u32& c, u32& d, u32 at) { load<true>(a, b, c, d, at); }

}  // namespace ptx
