// Vectors as codes in half precision, and the search for high products of codes.

__device__ float to_single(unsigned short half) {
    float single;
    asm("cvt.f32.f16 %0, %1;" : "=f"(single) : "h"(half));
    return single;
}

__device__ unsigned short to_half(float single) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(single));
    return half;
}

// A number as it is stored, in `size` bytes.
__device__ double number(const unsigned char *numbers, unsigned size, unsigned long long at) {
    if (size == 2) return to_single(((const unsigned short *)numbers)[at]);
    if (size == 4) return ((const float *)numbers)[at];
    return ((const double *)numbers)[at];
}

// Units are multiplied by this, a power of two, so that hardly any is below the normal range.
#define SCALE 64.0f
// The smallest normal number. Smaller codes are zero, whatever the hardware does with them.
#define SMALLEST 6.103515625e-5f
// Nothing compares with it.
#define NOT_A_NUMBER 0x7fff

// Codes vectors: the direction of each, less the shift, times SCALE. A warp for each vector; `size` is
// the bytes of a number, `width` the length of a code, `dim` or a little more.
extern "C" __global__ void code(
    const unsigned char *vectors, unsigned size, const double *inverse_norms, const double *shift,
    unsigned short *codes, unsigned count, unsigned dim, unsigned width) {
    unsigned vector = blockIdx.x * 8 + threadIdx.x / 32;
    if (vector >= count) return;
    double inverse = inverse_norms[vector];
    unsigned long long first = (unsigned long long)vector * dim;
    for (unsigned k = threadIdx.x % 32; k < width; k += 32) {
        unsigned short bits = 0;
        if (k < dim) {
            double value = number(vectors, size, first + k);
            if (shift) value -= shift[k];
            float scaled = (float)(value * inverse) * SCALE;
            // What is no direction, because its norm lost digits, rules nothing out.
            if (!(fabsf(scaled) <= 2.0f * SCALE)) bits = NOT_A_NUMBER;
            else if (fabsf(scaled) >= SMALLEST) bits = to_half(scaled);
        }
        codes[(unsigned long long)vector * width + k] = bits;
    }
}

// Copies codes of some vectors, eight numbers at a time. A warp for each vector.
extern "C" __global__ void gather(
    const uint4 *codes, const unsigned *vectors, uint4 *out, unsigned count, unsigned eighths) {
    unsigned at = blockIdx.x * 8 + threadIdx.x / 32;
    if (at >= count) return;
    const uint4 *from = codes + (unsigned long long)vectors[at] * eighths;
    uint4 *to = out + (unsigned long long)at * eighths;
    for (unsigned k = threadIdx.x % 32; k < eighths; k += 32) to[k] = from[k];
}

// Half precision rounds a product by at most this share of it, and half of that if to the nearest.
#define ROUNDED 9.765625e-4f
// Rows of a block.
#define ROWS 64u

__device__ bool stands(unsigned short product, float factor, float tilted, float limit) {
    float value = to_single(product);
    float bound = fmaf(fmaf(fabsf(value), ROUNDED, value), factor, tilted);
    // Not a number is not below anything, so that such a pair stands.
    return !(bound <= limit);
}

// Lists the pairs whose `factor * product + offset * tilt` may be above the limit of the column.
// `found[0]` counts all, also those for which there is no room. A thread looks at eight columns of
// every eighth row of the block; products of a row are `stride` numbers apart, a multiple of eight.
extern "C" __global__ void __launch_bounds__(256) sift(
    const uint4 *products, unsigned rows, unsigned columns, unsigned stride,
    unsigned first_row, unsigned first_column, const float *factors, const float *offsets,
    const float *limits, const float *tilts, unsigned long long *found, unsigned capacity) {
    unsigned column = blockIdx.x * 256 + threadIdx.x % 32 * 8;
    if (column >= columns) return;
    unsigned inside = columns - column < 8 ? columns - column : 8;
    unsigned valid = (1u << inside) - 1;
    float limit[8], tilt[8];
#pragma unroll
    for (unsigned j = 0; j < 8; j++) {
        limit[j] = j < inside ? limits[first_column + column + j] : 0.0f;
        tilt[j] = tilts && j < inside ? tilts[first_column + column + j] : 0.0f;
    }
    unsigned end = blockIdx.y * ROWS + ROWS < rows ? blockIdx.y * ROWS + ROWS : rows;
#pragma unroll 4
    for (unsigned row = blockIdx.y * ROWS + threadIdx.x / 32; row < end; row += 8) {
        uint4 eight = products[((unsigned long long)row * stride + column) / 8];
        float factor = factors[first_row + row];
        float offset = offsets ? offsets[first_row + row] : 0.0f;
        unsigned twos[4] = {eight.x, eight.y, eight.z, eight.w};
        unsigned standing = 0;
#pragma unroll
        for (unsigned j = 0; j < 8; j++) {
            unsigned short product = (unsigned short)(twos[j / 2] >> (j % 2 * 16));
            if (stands(product, factor, offset * tilt[j], limit[j])) standing |= 1u << j;
        }
        standing &= valid;
        if (standing) {
            unsigned long long at = atomicAdd(found, (unsigned long long)__popc(standing));
            for (; standing; standing &= standing - 1, at++) {
                if (at >= capacity) break;
                unsigned long long pair = first_row + row;
                found[1 + at] = pair << 32 | (first_column + column + __ffs(standing) - 1);
            }
        }
    }
}
