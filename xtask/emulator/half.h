// Numbers of fewer bits, as bits.
#pragma once
#include <stdint.h>
#include <string.h>

namespace emulated {

template <typename To, typename From> inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline float from_half(uint16_t half) {
#ifdef __F16C__
    typedef short Eight __attribute__((vector_size(16)));
    typedef float Four __attribute__((vector_size(16)));
    Four four = __builtin_ia32_vcvtph2ps(Eight{(short)half});
    return four[0];
#else
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    // The exponent is that of a number 2^-112 times as large, except for infinity and what is no number.
    float value = bits_as<float>(rest << 13) * bits_as<float>(0x77800000u);
    uint32_t bits = rest >= 0x7c00 ? 0x7f800000u | rest << 13 : bits_as<uint32_t>(value);
    return bits_as<float>(bits | sign);
#endif
}

// To the nearest, the even one of two.
inline uint16_t to_half(float value) {
#ifdef __F16C__
    typedef short Eight __attribute__((vector_size(16)));
    typedef float Four __attribute__((vector_size(16)));
    Eight eight = __builtin_ia32_vcvtps2ph(Four{value, 0, 0, 0}, 0);
    return (uint16_t)eight[0];
#else
    uint32_t bits = bits_as<uint32_t>(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return sign | 0x7fff;
    if (rest >= 0x477ff000) return sign | 0x7c00;
    if (rest < 0x38800000) {
        // Below the normal range the sum has the spacing of the result.
        float sum = bits_as<float>(rest) + 0.5f;
        return sign | (bits_as<uint32_t>(sum) - bits_as<uint32_t>(0.5f));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return sign | ((rest >> 13) - (112 << 10));
#endif
}

inline float from_bf16(uint16_t value) { return bits_as<float>((uint32_t)value << 16); }

inline uint16_t to_bf16(float value) {
    uint32_t bits = bits_as<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// To 10 bits, away from zero if in the middle.
inline float to_tf32(float value) {
    uint32_t bits = bits_as<uint32_t>(value);
    if ((bits & 0x7f800000) == 0x7f800000) return value;
    return bits_as<float>((bits + 0x1000) & 0xffffe000);
}

}  // namespace emulated
