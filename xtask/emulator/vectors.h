// Vector types, aligned as CUDA aligns them.
#pragma once

#define VECTORS(name, type, two, four)                                                                               \
    struct name##1 { type x; };                                                                                      \
    struct alignas(two) name##2 { type x, y; };                                                                      \
    struct alignas(four) name##4 { type x, y, z, w; };                                                               \
    inline name##1 make_##name##1(type x) { return {x}; }                                                            \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                                 \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define VECTORS_OF_3(name, type)                                                                                     \
    struct name##3 { type x, y, z; };                                                                                \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }

VECTORS(char, signed char, 2, 4)
VECTORS(uchar, unsigned char, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(ushort, unsigned short, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(uint, unsigned, 8, 16)
VECTORS(longlong, long long, 16, 16)
VECTORS(ulonglong, unsigned long long, 16, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)
VECTORS_OF_3(int, int)
VECTORS_OF_3(float, float)
VECTORS_OF_3(double, double)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

#undef VECTORS
#undef VECTORS_OF_3
