// Attention between the queries of an item and the rows of a context; one block a pair. Scores lie in shared memory,
// a row for every query.

// How raw scores become weights, and relevances one score.
struct Attending {
    u32 normaliser;  // 0: none, 1: l2, 2: l1, 3: softmax; over the queries
    u32 clips;
    float temperature;
    u32 aggregation;  // 0: mean, 1: sum, 2: max, 3: log-sum-exp
    float factor;
};

__device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

__device__ double warp_sum_double(double value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

__device__ float warp_max(float value) {
    for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

__device__ float leaky(float score) { return score > 0 ? score : 0.1f * score; }

// Normalises one column over the queries, in place; it is clipped already.
__device__ void normalise_column(const Attending& how, float* x, u32 queries, u32 stride) {
    if (how.normaliser == 0) return;
    float total = 0, most = 0;
    if (how.normaliser == 3) {
        most = x[0];
        for (u32 w = 1; w < queries; w++) most = fmaxf(most, x[w * stride]);
    }
    for (u32 w = 0; w < queries; w++) {
        float value = x[w * stride];
        if (how.normaliser == 1) total += value * value;
        if (how.normaliser == 2) total += fabsf(value);
        if (how.normaliser == 3) total += x[w * stride] = expf(value - most);
    }
    if (how.normaliser == 1) total = sqrtf(total) + 1e-8f;
    if (how.normaliser == 2) total += 1e-8f;
    float scale = 1.0f / total;
    for (u32 w = 0; w < queries; w++) x[w * stride] *= scale;
}

// Replaces raw scores by weights.
__device__ void attend(const Attending& how, float* x, u32 queries, u32 rows) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (u32 c = threadIdx.x; c < rows; c += blockDim.x) {
        if (how.clips)
            for (u32 w = 0; w < queries; w++) x[w * rows + c] = leaky(x[w * rows + c]);
        normalise_column(how, x + c, queries, rows);
    }
    __syncthreads();
    for (u32 w = warp; w < queries; w += warps) {
        float most = -1e30f, sum = 0;
        for (u32 c = lane; c < rows; c += 32) most = fmaxf(most, how.temperature * x[w * rows + c]);
        most = warp_max(most);
        for (u32 c = lane; c < rows; c += 32) sum += x[w * rows + c] = expf(how.temperature * x[w * rows + c] - most);
        float scale = 1.0f / warp_sum(sum);
        for (u32 c = lane; c < rows; c += 32) x[w * rows + c] *= scale;
    }
    __syncthreads();
}

// From the gradient `g` of the weights `a` to that of the raw scores, in place. Both and the scratch `x` lie in shared
// memory; raw scores have rows of `stride` numbers.
__device__ void attend_back(
    const Attending& how, float* g, const float* a, float* x, const float* raw, u32 stride, u32 queries, u32 rows) {
    // From weights to normalised scores.
    u32 lane = threadIdx.x % 32;
    for (u32 w = threadIdx.x / 32; w < queries; w += blockDim.x / 32) {
        double sum = 0;
        for (u32 c = lane; c < rows; c += 32) sum += (double)a[w * rows + c] * g[w * rows + c];
        float along = (float)warp_sum_double(sum);
        for (u32 c = lane; c < rows; c += 32)
            g[w * rows + c] = how.temperature * a[w * rows + c] * (g[w * rows + c] - along);
    }
    __syncthreads();
    // From normalised scores to raw ones, column by column.
    for (u32 c = threadIdx.x; c < rows; c += blockDim.x) {
        double along = 0, total = 0;
        for (u32 w = 0; w < queries; w++) {
            float score = raw[(size_t)w * stride + c];
            x[w * rows + c] = how.clips ? leaky(score) : score;
        }
        if (how.normaliser == 3) normalise_column(how, x + c, queries, rows);
        for (u32 w = 0; w < queries; w++) {
            float value = x[w * rows + c];
            along += (double)value * g[w * rows + c];
            total += how.normaliser == 1 ? (double)value * value : fabs((double)value);
        }
        float own = 1.0f, of_norm = 0;
        if (how.normaliser == 1) {
            double length = sqrt(total), scale = 1.0 / (length + 1e-8);
            own = (float)scale;
            of_norm = length > 0 ? (float)(along / length * scale * scale) : 0.0f;
        }
        if (how.normaliser == 2) own = (float)(1.0 / (total + 1e-8)), of_norm = (float)(along * own * own);
        for (u32 w = 0; w < queries; w++) {
            float value = x[w * rows + c], gradient = g[w * rows + c];
            if (how.normaliser == 1) gradient = gradient * own - value * of_norm;
            if (how.normaliser == 2)
                gradient = gradient * own - (value > 0 ? of_norm : value < 0 ? -of_norm : 0.0f);
            if (how.normaliser == 3) gradient = value * (gradient - (float)along);
            if (how.clips && !(raw[(size_t)w * stride + c] > 0)) gradient *= 0.1f;
            g[w * rows + c] = gradient;
        }
    }
    __syncthreads();
}

// The parts of the cosines of every query and its attended vector: products and squared norms. The weights `a` and the
// results lie in shared memory; sums are in double precision, because norms near zero are differences of large
// numbers. `overlaps` receives the products of the weights with the Gram matrix.
__device__ void cosine_parts(
    const float* a, const float* __restrict__ first, u32 first_stride, const float* __restrict__ gram, u32 gram_stride,
    u32 queries, u32 rows, float* products, float* squares, double* overlaps) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    // A thread has a row and four queries at a time.
    for (u32 at = threadIdx.x; at < (queries + 3) / 4 * rows; at += blockDim.x) {
        u32 w = at / rows * 4, c = at % rows;
        double sum[4] = {0, 0, 0, 0};
#pragma unroll 6
        for (u32 k = 0; k < rows; k++) {
            double g = gram[k * gram_stride + c];
#pragma unroll
            for (u32 i = 0; i < 4; i++) sum[i] += a[min(w + i, queries - 1) * rows + k] * g;
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            if (w + i < queries) overlaps[(w + i) * rows + c] = sum[i];
    }
    __syncthreads();
    for (u32 w = warp; w < queries; w += warps) {
        double product = 0, square = 0;
        for (u32 c = lane; c < rows; c += 32) {
            float weight = a[w * rows + c];
            square += weight * overlaps[w * rows + c];
            product += weight * first[(size_t)w * first_stride + c];
        }
        product = warp_sum_double(product), square = warp_sum_double(square);
        if (lane == 0) products[w] = (float)product, squares[w] = fmaxf((float)square, 0.0f);
    }
    __syncthreads();
}

// A cosine is never divided by less.
#define LEAST 1e-8f

// The score of relevances, which lie in shared memory.
__device__ float aggregate(const Attending& how, const float* relevances, u32 queries) {
    float sum = 0, most = relevances[0];
    if (how.aggregation < 2) {
        for (u32 w = 0; w < queries; w++) sum += relevances[w];
        return how.aggregation == 0 ? sum / queries : sum;
    }
    for (u32 w = 1; w < queries; w++) most = fmaxf(most, relevances[w]);
    if (how.aggregation == 2) return most;
    for (u32 w = 0; w < queries; w++) sum += expf(how.factor * (relevances[w] - most));
    return most + logf(sum) / how.factor;
}
