// CUDA C for a C++ compiler: what NVRTC knows without includes, as far as kernels need it. Every compiled file of kernels
// begins with this.
#pragma once
#include <math.h>
#include <stdint.h>
#include <utility>

#include "block.h"
#include "half.h"

#define __device__
#define __host__
#define __global__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __CUDA_ARCH__ 900

namespace emulated {
static Block* block;
alignas(PAGE) static char dynamic_memory[MOST_SHARED / PAGE * PAGE + 2 * PAGE];
static char* dynamic;
// What shared variables are counted from: their distance has 32 bits.
static char* const SHARED_BASE = dynamic_memory;

constexpr unsigned launch_bound(unsigned threads = 1024, unsigned = 0, unsigned = 0) { return threads; }

template <auto KERNEL> struct Entry;
template <typename... Arguments, void (*KERNEL)(Arguments...)> struct Entry<KERNEL> {
    template <size_t... I> static void call(void** arguments, std::index_sequence<I...>) {
        KERNEL(*(Arguments*)arguments[I]...);
    }
    static void enter(void** arguments) { call(arguments, std::index_sequence_for<Arguments...>()); }
};

template <typename T> inline void declare(T& variable) { block->declare((void*)&variable, sizeof variable); }
}  // namespace emulated

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
const int warpSize = 32;

#include "vectors.h"

#include "warp.h"

#include "atomics.h"

#include "intrinsics.h"

#include "ptx.h"
