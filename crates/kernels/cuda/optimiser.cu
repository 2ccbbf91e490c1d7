// Steps of optimisers.

// A weight of a member with its moments, as many as the method has, and its gradient; the size of its step, the share
// of the weight that stays, and the decay that is added to its gradient.
struct Descending {
    float *weight, *first, *second, *largest;
    const float* gradient;
    u64 count;
    float size, unroot, share, decay;
    u64 member;
};

// All weights are handled by one launch: entry `i` has the blocks from `firsts[i]` on, with 8192 numbers each.
#define OF_BLOCK 8192
__device__ Descending descending(const Descending* all, const u32* firsts, u32 entries, size_t& begin) {
    u32 low = 0, high = entries;
    while (low + 1 < high) {
        u32 middle = (low + high) / 2;
        if (firsts[middle] <= blockIdx.x) low = middle;
        else high = middle;
    }
    begin = (size_t)(blockIdx.x - firsts[low]) * OF_BLOCK;
    return all[low];
}

// The squares of gradients, one sum a block.
extern "C" __global__ void squares(double* out, const Descending* all, const u32* firsts, u32 entries) {
    size_t begin;
    Descending own = descending(all, firsts, entries, begin);
    double sum = 0;
    size_t end = begin + OF_BLOCK < own.count ? begin + OF_BLOCK : own.count;
    for (size_t at = begin + threadIdx.x; at < end; at += blockDim.x) sum += (double)own.gradient[at] * own.gradient[at];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// The root of the sum of those of a member, which has the blocks from `bounds[member]` to the next.
extern "C" __global__ void roots_of_sums(double* out, const double* parts, const u32* bounds) {
    double sum = 0;
    for (u32 at = bounds[blockIdx.x] + threadIdx.x; at < bounds[blockIdx.x + 1]; at += blockDim.x) sum += parts[at];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sqrt(sum);
}

// One step of Adam, AdamW or AMSGrad, with the gradients of each member scaled so that their norm is at most `clip`.
extern "C" __global__ void adam(const Descending* all, const u32* firsts, u32 entries, const double* norms, double clip) {
    size_t begin;
    Descending own = descending(all, firsts, entries, begin);
    float scale = (float)fmin(clip / (norms[own.member] + 1e-6), 1.0);
    size_t end = begin + OF_BLOCK < own.count ? begin + OF_BLOCK : own.count;
    for (size_t at = begin + threadIdx.x; at < end; at += blockDim.x) {
        float g = scale * own.gradient[at];
        float m = 0.9f * own.first[at] + (float)(1.0 - 0.9) * g;
        float v = 0.999f * own.second[at] + (float)(1.0 - 0.999) * g * g;
        own.first[at] = m;
        own.second[at] = v;
        if (own.largest) v = own.largest[at] = fmaxf(own.largest[at], v);
        own.weight[at] = own.weight[at] * own.share - own.size * m / (sqrtf(v) * own.unroot + 1e-8f);
    }
}

// One step of gradient descent with Nesterov's momentum, which is the first moment.
extern "C" __global__ void sgd(const Descending* all, const u32* firsts, u32 entries, const double* norms, double clip) {
    size_t begin;
    Descending own = descending(all, firsts, entries, begin);
    float scale = (float)fmin(clip / (norms[own.member] + 1e-6), 1.0);
    size_t end = begin + OF_BLOCK < own.count ? begin + OF_BLOCK : own.count;
    for (size_t at = begin + threadIdx.x; at < end; at += blockDim.x) {
        float g = scale * own.gradient[at] + own.decay * own.weight[at];
        float buffer = own.first[at] = 0.9f * own.first[at] + g;
        own.weight[at] -= own.size * (g + 0.9f * buffer);
    }
}
