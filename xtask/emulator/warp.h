// What threads of a block and of a warp do together.
#pragma once

inline void __syncthreads() { emulated::block->wait(emulated::Over::NOTHING, 0); }
inline int __syncthreads_or(int value) { return emulated::block->wait(emulated::Over::OR, value); }
inline int __syncthreads_and(int value) { return emulated::block->wait(emulated::Over::AND, value); }
inline int __syncthreads_count(int value) { return emulated::block->wait(emulated::Over::COUNT, value); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

namespace emulated {

inline unsigned lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <typename T> T shuffle(unsigned mask, T value, int from) {
    static_assert(sizeof(T) <= sizeof(unsigned long long), "threads share 64 bits at most");
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = block->shuffle(mask, bits, (unsigned)from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The last of the lanes that share `width`, and the first.
inline int last_of(int width) { return (int)(lane() & ~(width - 1)) + width - 1; }
inline int first_of(int width) { return (int)(lane() & ~(width - 1)); }

struct Voted {
    unsigned value, result;
};
inline void vote_all(void* const* brought, unsigned lanes) {
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) votes |= (unsigned)(((Voted*)brought[lane])->value != 0) << lane;
    for (int lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) ((Voted*)brought[lane])->result = votes;
}
inline unsigned vote(unsigned mask, int value) {
    Voted own = {(unsigned)(value != 0), 0};
    block->meet(mask, &own, vote_all);
    return own.result;
}

inline void nothing(void* const*, unsigned) {}

}  // namespace emulated

inline void __syncwarp(unsigned mask = ~0u) { emulated::block->meet(mask, nullptr, emulated::nothing); }

template <typename T> T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return emulated::shuffle(mask, value, emulated::first_of(width) + (from & (width - 1)));
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
    int own = emulated::lane(), from = own ^ by;
    return emulated::shuffle(mask, value, from > emulated::last_of(width) ? own : from);
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    int own = emulated::lane(), from = own + (int)by;
    return emulated::shuffle(mask, value, from > emulated::last_of(width) ? own : from);
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    int own = emulated::lane(), from = own - (int)by;
    return emulated::shuffle(mask, value, from < emulated::first_of(width) ? own : from);
}

inline unsigned __ballot_sync(unsigned mask, int value) { return emulated::vote(mask, value); }
inline int __any_sync(unsigned mask, int value) { return emulated::vote(mask, value) != 0; }
inline int __all_sync(unsigned mask, int value) { return emulated::vote(mask, !value) == 0; }
