// Losses of squares of scores, one square for each member of an ensemble: `scores` is [member][image][caption], and
// the right pairs are on the diagonals. Blocks are (row, member); sums are in double precision and in a fixed order.

#define NONE 0xffffffffu

__device__ bool finite(float value) { return fabsf(value) <= 3.402823466e38f; }

// The smallest number of a block of up to 1024 threads, in every thread.
__device__ u32 block_min(u32 value) {
    __shared__ u32 of_warp[32];
    for (int step = 16; step > 0; step /= 2) value = min(value, __shfl_xor_sync(~0u, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    for (u32 warp = 0; warp < (blockDim.x + 31) / 32; warp++) value = min(value, of_warp[warp]);
    return value;
}

__device__ double block_max(double value) {
    __shared__ double of_warp[32];
    for (int step = 16; step > 0; step /= 2) value = fmax(value, __shfl_xor_sync(~0u, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    for (u32 warp = 0; warp < (blockDim.x + 31) / 32; warp++) value = fmax(value, of_warp[warp]);
    return value;
}

// The first column of a row whose score is NaN or infinite, or `NONE`.
__device__ u32 first_bad(const float* row, u32 batch) {
    u32 bad = NONE;
    for (u32 at = threadIdx.x; at < batch; at += blockDim.x)
        if (!finite(row[at])) bad = min(bad, at);
    return block_min(bad);
}

// For every pair of the batch: its hinges as image and as caption. With `hardest`, `picks` are the first of the
// largest ones that pass a gradient on, as [image][caption] of the pair; otherwise all count. `downs` says how often
// the score of the right pair is subtracted.
extern "C" __global__ void hinge_rows(
    double* values, u32* downs, u32* picks, u32* bads, const float* scores, u32 batch, double margin, u32 hardest) {
    u32 own = blockIdx.x;
    size_t pair = (size_t)blockIdx.y * batch + own;
    const float* square = scores + (size_t)blockIdx.y * batch * batch;
    double right = square[(size_t)own * batch + own], value = 0;
    double largest[2] = {-1, -1};
    u32 first[2] = {NONE, NONE}, count = 0;
    for (u32 other = threadIdx.x; other < batch; other += blockDim.x) {
        for (u32 side = 0; side < 2; side++) {
            size_t place = side == 0 ? (size_t)own * batch + other : (size_t)other * batch + own;
            double hinge = margin + square[place] - right;
            double violated = other == own ? 0.0 : fmax(hinge, 0.0);
            if (violated > largest[side]) largest[side] = violated, first[side] = other;
            if (other != own) value += violated, count += hinge >= 0;
        }
    }
    if (hardest) {
        value = 0, count = 0;
        for (u32 side = 0; side < 2; side++) {
            double most = block_max(largest[side]);
            u32 pick = block_min(largest[side] == most ? first[side] : NONE);
            size_t place = side == 0 ? (size_t)own * batch + pick : (size_t)pick * batch + own;
            bool counts = pick < batch && pick != own && margin + square[place] - right >= 0;
            if (threadIdx.x == 0) picks[2 * pair + side] = counts ? pick : NONE;
            if (counts) value += most, count++;
        }
    } else {
        value = block_sum_double(value);
        count = (u32)block_sum_double(count);
    }
    u32 bad = first_bad(square + (size_t)own * batch, batch);
    if (threadIdx.x == 0) values[pair] = value, downs[pair] = count, bads[pair] = bad;
}

// The derivatives of the hinges by the scores of a row, and how many are not zero.
extern "C" __global__ void hinge_slopes(
    float* slopes, u32* actives, const float* scores, const u32* downs, const u32* picks, u32 batch, double margin,
    u32 hardest) {
    u32 image = blockIdx.x;
    size_t first = (size_t)blockIdx.y * batch, square = first * batch;
    double right = scores[square + (size_t)image * batch + image];
    double active = 0;
    for (u32 caption = threadIdx.x; caption < batch; caption += blockDim.x) {
        size_t place = square + (size_t)image * batch + caption;
        int slope;
        if (caption == image) slope = -(int)downs[first + image];
        else if (hardest) slope = (picks[2 * (first + image)] == caption) + (picks[2 * (first + caption) + 1] == image);
        else slope = (margin + scores[place] - right >= 0)
            + (margin + scores[place] - (double)scores[square + (size_t)caption * batch + caption] >= 0);
        slopes[place] = (float)slope;
        active += slope != 0;
    }
    active = block_sum_double(active);
    if (threadIdx.x == 0) actives[first + image] = (u32)active;
}

// Whether the pairs `own` and `other` of a batch are the same, or share neither an image nor a caption.
__device__ bool counts(const u32* items, const u32* captions, u32 own, u32 other) {
    return other == own || (items[other] != items[own] && captions[other] != captions[own]);
}

// For every pair of the batch: the largest score and the sum of exponentials among the wrong ones and its own, as
// image and as caption (`stats` is [pair][4]), and its part of InfoNCE.
extern "C" __global__ void info_nce_rows(
    double* values, double* stats, u32* bads, const float* scores, const float* logs, const u32* items,
    const u32* captions, u32 batch) {
    u32 own = blockIdx.x;
    size_t begin = (size_t)blockIdx.y * batch, pair = begin + own;
    const float* square = scores + begin * batch;
    items += begin, captions += begin;
    double temperature = exp((double)logs[blockIdx.y]), right = square[(size_t)own * batch + own], value = 0;
    for (u32 side = 0; side < 2; side++) {
        double largest = -1.7976931348623157e308, sum = 0;
        for (u32 other = threadIdx.x; other < batch; other += blockDim.x)
            if (counts(items, captions, own, other))
                largest = fmax(largest, (double)square[side == 0 ? (size_t)own * batch + other : (size_t)other * batch + own]);
        largest = block_max(largest);
        for (u32 other = threadIdx.x; other < batch; other += blockDim.x)
            if (counts(items, captions, own, other)) {
                double score = square[side == 0 ? (size_t)own * batch + other : (size_t)other * batch + own];
                sum += exp((score - largest) / temperature);
            }
        sum = block_sum_double(sum);
        value += 0.5 * (log(sum) + (largest - right) / temperature);
        if (threadIdx.x == 0) stats[4 * pair + 2 * side] = largest, stats[4 * pair + 2 * side + 1] = sum;
    }
    u32 bad = first_bad(square + (size_t)own * batch, batch);
    if (threadIdx.x == 0) values[pair] = value, bads[pair] = bad;
}

// The derivatives of InfoNCE by the scores of a row, how many are not zero, and the part of the row in the derivative
// by the logarithm of the temperature.
extern "C" __global__ void info_nce_slopes(
    float* slopes, u32* actives, double* by_logs, const float* scores, const double* stats, const float* logs,
    const u32* items, const u32* captions, u32 batch) {
    u32 image = blockIdx.x;
    size_t begin = (size_t)blockIdx.y * batch, row = begin * batch + (size_t)image * batch;
    const double* own = stats + 4 * (begin + image);
    items += begin, captions += begin;
    double temperature = exp((double)logs[blockIdx.y]), active = 0, along = 0;
    for (u32 caption = threadIdx.x; caption < batch; caption += blockDim.x) {
        double slope = 0, score = scores[row + caption];
        if (counts(items, captions, image, caption)) {
            const double* other = stats + 4 * (begin + caption);
            slope = exp((score - own[0]) / temperature) / own[1] + exp((score - other[2]) / temperature) / other[3];
            if (caption == image) slope -= 2.0;
            slope *= 0.5 / temperature;
        }
        slopes[row + caption] = (float)slope;
        active += (float)slope != 0;
        along += slope * score;
    }
    active = block_sum_double(active), along = block_sum_double(along);
    if (threadIdx.x == 0) actives[begin + image] = (u32)active, by_logs[begin + image] = -along;
}

// What is known of each member: the loss, the number of scores with a derivative, the place of the first score that
// is not finite, and that score or 0. One block a member. With `by_logs`, the derivative by the logarithm of the temperature too.
extern "C" __global__ void tally(
    float* losses, double* out, float* of_logs, const double* values, const u32* actives, const u32* bads,
    const double* by_logs, const float* scores, u32 batch) {
    size_t begin = (size_t)blockIdx.x * batch;
    double value = 0, active = 0, by_log = 0;
    u32 row = NONE;
    for (u32 at = threadIdx.x; at < batch; at += blockDim.x) {
        value += values[begin + at], active += actives[begin + at];
        if (by_logs) by_log += by_logs[begin + at];
        if (bads[begin + at] != NONE) row = min(row, at);
    }
    value = block_sum_double(value), active = block_sum_double(active), by_log = block_sum_double(by_log);
    row = block_min(row);
    if (threadIdx.x > 0) return;
    size_t bad = row == NONE ? 0 : (size_t)row * batch + bads[begin + row];
    double* own = out + 4 * (size_t)blockIdx.x;
    own[0] = value, own[1] = active, own[2] = (double)bad;
    own[3] = row == NONE ? 0.0 : (double)scores[begin * batch + bad];
    losses[blockIdx.x] = (float)value;
    if (by_logs) of_logs[blockIdx.x] = (float)by_log;
}

// The numbers of each member times its factor.
extern "C" __global__ void scale_members(float* out, const float* in, const float* factors, u64 each, u64 count) {
    size_t at = thread_index();
    if (at < count) out[at] = in[at] * factors[at / each];
}
