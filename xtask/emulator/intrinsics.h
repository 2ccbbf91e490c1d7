// Functions of one thread that C does not have.
#pragma once

#define LEAST_AND_MOST(a, b, of)                                                                                     \
    inline of min(a x, b y) { return (of)y < (of)x ? (of)y : (of)x; }                                                \
    inline of max(a x, b y) { return (of)x < (of)y ? (of)y : (of)x; }
LEAST_AND_MOST(int, int, int)
LEAST_AND_MOST(unsigned, unsigned, unsigned)
LEAST_AND_MOST(int, unsigned, unsigned)
LEAST_AND_MOST(unsigned, int, unsigned)
LEAST_AND_MOST(long, long, long)
LEAST_AND_MOST(unsigned long, unsigned long, unsigned long)
LEAST_AND_MOST(long, unsigned long, unsigned long)
LEAST_AND_MOST(unsigned long, long, unsigned long)
LEAST_AND_MOST(long long, long long, long long)
LEAST_AND_MOST(unsigned long long, unsigned long long, unsigned long long)
LEAST_AND_MOST(long long, unsigned long long, unsigned long long)
LEAST_AND_MOST(unsigned long long, long long, unsigned long long)
#undef LEAST_AND_MOST

// What is no number gives way, as in C, whose own functions are never inlined.
#define NUMBERS(type, least, most)                                                                                   \
    inline type least(type x, type y) { return x < y || y != y ? x : y; }                                            \
    inline type most(type x, type y) { return y < x || y != y ? x : y; }
namespace kernels {
NUMBERS(float, fminf, fmaxf)
NUMBERS(double, fmin, fmax)
}
NUMBERS(float, min, max)
NUMBERS(double, min, max)
#undef NUMBERS
inline double min(float x, double y) { return min((double)x, y); }
inline double max(float x, double y) { return max((double)x, y); }
inline double min(double x, float y) { return min(x, (double)y); }
inline double max(double x, float y) { return max(x, (double)y); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline double __dadd_rn(double x, double y) { return x + y; }
// Never part of a multiply-add.
inline double __dmul_rn(double x, double y) {
    volatile double product = x * y;
    return product;
}
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }

inline int __float_as_int(float x) { return emulated::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return emulated::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return emulated::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return emulated::bits_as<float>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

template <typename T> T __ldg(const T* from) { return *from; }

// Addresses in shared memory, as kernels hand them to instructions.
inline size_t __cvta_generic_to_shared(const void* at) {
    return (unsigned)((const char*)at - emulated::SHARED_BASE);
}
