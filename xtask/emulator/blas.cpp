// Products of matrices, column by column as cuBLAS has them, with sums in single precision.
#include <stddef.h>

#include <vector>

#include "half.h"

using namespace emulated;

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum Type { R_32F = 0, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77 };

float number(const void* from, Type type, size_t at) {
    if (type == R_16F) return from_half(((const uint16_t*)from)[at]);
    if (type == R_16BF) return from_bf16(((const uint16_t*)from)[at]);
    return ((const float*)from)[at];
}

void put(void* to, Type type, size_t at, float value) {
    if (type == R_16F) ((uint16_t*)to)[at] = to_half(value);
    else if (type == R_16BF) ((uint16_t*)to)[at] = to_bf16(value);
    else ((float*)to)[at] = value;
}

struct Matrix {
    const void* numbers;
    Type type;
    bool turned;
    size_t stride;

    float operator()(size_t row, size_t column) const {
        return number(numbers, type, turned ? row * stride + column : column * stride + row);
    }
};

// Rows and columns that are summed at once, in registers.
const size_t ROWS = 32, COLUMNS = 3;

// The factor as panels: for each of its lines from `first` on, WIDE numbers of every place of the depth, then zeros.
template <size_t WIDE, typename At> std::vector<float> packed(size_t lines, size_t depth, bool rounds, At at) {
    std::vector<float> out((lines + WIDE - 1) / WIDE * WIDE * depth);
    for (size_t line = 0; line < lines; line++)
        for (size_t k = 0; k < depth; k++) {
            float value = at(line, k);
            out[line / WIDE * WIDE * depth + k * WIDE + line % WIDE] = rounds ? to_tf32(value) : value;
        }
    return out;
}

void add_tile(float sums[COLUMNS][ROWS], const float* left, const float* right, size_t depth) {
    typedef float Eight __attribute__((vector_size(32), aligned(4)));
    Eight total[COLUMNS][ROWS / 8] = {};
    for (size_t k = 0; k < depth; k++)
        for (size_t j = 0; j < COLUMNS; j++)
            for (size_t i = 0; i < ROWS / 8; i++)
                total[j][i] += ((const Eight*)(left + k * ROWS))[i] * right[k * COLUMNS + j];
    memcpy(sums, total, sizeof total);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cublasCreate_v2(void** handle) { return *handle = handle, SUCCESS; }
int cublasDestroy_v2(void*) { return SUCCESS; }
int cublasSetStream_v2(void*, void*) { return SUCCESS; }
int cublasSetMathMode(void*, int) { return SUCCESS; }

int cublasGemmStridedBatchedEx(
    void*, int a_turned, int b_turned, int m, int n, int k, const void* alpha, const void* a, Type a_type, int a_stride,
    long long a_apart, const void* b, Type b_type, int b_stride, long long b_apart, const void* beta, void* c, Type c_type,
    int c_stride, long long c_apart, int count, int compute, int) {
    bool known = a_type == b_type && (a_type == R_32F || a_type == R_16F || a_type == R_16BF);
    known &= c_type == R_32F || (c_type == a_type && a_type != R_32F);
    if (!known || (compute != COMPUTE_32F && compute != COMPUTE_32F_FAST_TF32)) return NOT_SUPPORTED;
    if (m < 0 || n < 0 || k < 0 || count < 0 || a_stride < (a_turned ? k : m) || b_stride < (b_turned ? n : k) || c_stride < m)
        return INVALID_VALUE;
    float scale = *(const float*)alpha, keep = *(const float*)beta;
    size_t a_size = a_type == R_32F ? 4 : 2, b_size = b_type == R_32F ? 4 : 2, c_size = c_type == R_32F ? 4 : 2;
    bool rounds = compute == COMPUTE_32F_FAST_TF32;
    std::vector<float> left, right;
    for (int each = 0; each < count; each++) {
        Matrix of_a = {(const char*)a + each * a_apart * (long long)a_size, a_type, a_turned != 0, (size_t)a_stride};
        Matrix of_b = {(const char*)b + each * b_apart * (long long)b_size, b_type, b_turned != 0, (size_t)b_stride};
        void* of_c = (char*)c + each * c_apart * (long long)c_size;
        if (each == 0 || a_apart) left = packed<ROWS>(m, k, rounds, [&](size_t row, size_t at) { return of_a(row, at); });
        if (each == 0 || b_apart) right = packed<COLUMNS>(n, k, rounds, [&](size_t column, size_t at) { return of_b(at, column); });
        for (size_t column = 0; column < (size_t)n; column += COLUMNS)
            for (size_t row = 0; row < (size_t)m; row += ROWS) {
                float sums[COLUMNS][ROWS];
                add_tile(sums, left.data() + row * k, right.data() + column * k, k);
                for (size_t j = 0; j < COLUMNS && column + j < (size_t)n; j++)
                    for (size_t i = 0; i < ROWS && row + i < (size_t)m; i++) {
                        size_t at = (column + j) * c_stride + row + i;
                        // Without `keep`, what was there does not count, whatever it is.
                        float old = keep != 0 ? keep * number(of_c, c_type, at) : 0.0f;
                        put(of_c, c_type, at, scale * sums[j][i] + old);
                    }
            }
    }
    return SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
