// What regions and words make of the messages of `messages.cu`, for all pairs of some images and some captions, and pools
// of them.

// The rows of one side in all pairs: those of regions are [image][caption][rows], those of words [image][word].
struct Sent {
    u32 count;     // rows of a pair
    u32 width;     // rows of the other side
    size_t own;    // the first of them among the rows of their own side
    size_t other;  // the first of the other side's
    size_t out;    // the first of them among those of all pairs
    const float* weights;
    size_t row_apart, column_apart;

    __device__ Sent(const Exchange& of, u32 image, u32 caption, bool words) {
        Exchanged pair(of, image, caption);
        count = words ? pair.words : pair.regions, width = words ? pair.regions : pair.words;
        size_t regions = (size_t)image * of.rows;
        own = words ? pair.first : regions, other = words ? regions : pair.first;
        out = words ? (size_t)image * of.words + pair.first : ((size_t)image * of.captions + caption) * of.rows;
        weights = (words ? of.of_words : of.of_regions) + pair.place;
        row_apart = words ? pair.stride : 1, column_apart = words ? 1 : pair.stride;
    }
};

// What rows make of their messages. With gates: `relu(gate (own + weights sent) + bias)`; else `weights sent`. A block has
// 512 columns of an image (x, columns first) and a caption (y), and a thread four of them and 12 rows at a time.
extern "C" __global__ void __launch_bounds__(128) fuse_rows(
    float* out, const Exchange* exchange, u32 words, const float* __restrict__ sent, const float* own, const float* gates,
    const float* bias, u32 dim) {
    const u32 ROWS = 12;
    extern __shared__ float shared[];
    Exchange of = *exchange;
    u32 parts = (dim + 4 * blockDim.x - 1) / (4 * blockDim.x);
    Sent pair(of, blockIdx.x / parts, blockIdx.y, words);
    u32 column = 4 * (blockIdx.x % parts * blockDim.x + threadIdx.x), left = column < dim ? dim - column : 0;
    bool whole = dim % 4 == 0;
    sent += pair.other * dim + column;
    float4 shift = make_float4(0, 0, 0, 0);
    if (bias && left) shift = four_of(bias + column, left, false);
    for (u32 first = 0; first < pair.count; first += ROWS) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < pair.width * ROWS; i += blockDim.x) {
            u32 row = min(first + i % ROWS, pair.count - 1);
            shared[i] = pair.weights[row * pair.row_apart + i / ROWS * pair.column_apart];
        }
        __syncthreads();
        if (!left) continue;
        float sums[ROWS][4] = {};
#pragma unroll 4
        for (u32 at = 0; at < pair.width; at++) {
            float4 four = four_of(sent + (size_t)at * dim, left, whole);
#pragma unroll
            for (u32 i = 0; i < ROWS; i++) {
                float weight = shared[at * ROWS + i];
                sums[i][0] += weight * four.x, sums[i][1] += weight * four.y;
                sums[i][2] += weight * four.z, sums[i][3] += weight * four.w;
            }
        }
#pragma unroll
        for (u32 i = 0; i < ROWS; i++) {
            u32 row = first + i;
            if (row >= pair.count) continue;
            float4 four = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
            if (gates) {
                float gate = gates[pair.out + row];
                float4 base = four_of(own + (pair.own + row) * dim + column, left, whole);
                four = make_float4(
                    fmaxf(gate * (base.x + four.x) + shift.x, 0.0f), fmaxf(gate * (base.y + four.y) + shift.y, 0.0f),
                    fmaxf(gate * (base.z + four.z) + shift.z, 0.0f), fmaxf(gate * (base.w + four.w) + shift.w, 0.0f));
            }
            float* to = out + (pair.out + row) * dim;
            if (whole) write_four<true>(to, column, dim, four);
            else write_four<false>(to, column, dim, four);
        }
    }
}

// The logits of rows in a pool: `second relu(hidden + table + bias)`, heads by dimensions; a block has an image (x) and a
// caption (y), and a warp a row. The table has a row for each of its own side, if given.
extern "C" __global__ void pool_logits(
    float* logits, const Exchange* exchange, u32 words, const float* hidden, const float* table, const float* bias,
    const float* second, u32 heads, u32 dim) {
    Exchange of = *exchange;
    Sent pair(of, blockIdx.x, blockIdx.y, words);
    u32 lane = threadIdx.x % 32;
    for (u32 row = threadIdx.x / 32; row < pair.count; row += blockDim.x / 32) {
        const float *own = hidden + (pair.out + row) * dim, *base = table ? table + (pair.own + row) * dim : 0;
        // Four heads at a time.
        for (u32 head = 0; head < heads; head += 4) {
            float sums[4] = {};
            for (u32 at = lane; at < dim; at += 32) {
                float value = fmaxf(own[at] + (base ? base[at] : 0.0f) + bias[at], 0.0f);
#pragma unroll
                for (u32 i = 0; i < 4; i++)
                    if (head + i < heads) sums[i] += value * second[(size_t)(head + i) * dim + at];
            }
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                float sum = warp_sum(sums[i]);
                if (lane == 0 && head + i < heads) logits[(pair.out + row) * heads + head + i] = sum;
            }
        }
    }
}

// The mean share of every row of a pair: each head has a softmax over the rows. Logits are replaced by shares in `x`.
__device__ void mean_shares(float* shares, float* x, const float* logits, u32 count, u32 heads) {
    for (u32 i = threadIdx.x; i < count * heads; i += blockDim.x) x[i] = logits[i];
    __syncthreads();
    softmax_rows({x, heads, count, 1, heads});
    for (u32 row = threadIdx.x; row < count; row += blockDim.x) {
        float sum = 0;
        for (u32 head = 0; head < heads; head++) sum += x[row * heads + head];
        shares[row] = sum / heads;
    }
    __syncthreads();
}

// Pools the fused rows of a pair, with what they are added to: a row of `apart` numbers for every image (x) and caption (y),
// which `scales` to unit norm.
extern "C" __global__ void pool_rows(
    float* out, const Exchange* exchange, u32 words, const float* logits, const float* rows, const float* values, u32 heads,
    u32 dim, u32 apart, u32 scales) {
    extern __shared__ float shared[];
    Exchange of = *exchange;
    Sent pair(of, blockIdx.x, blockIdx.y, words);
    float *shares = shared, *x = shares + pair.count, squares = 0;
    mean_shares(shares, x, logits + pair.out * heads, pair.count, heads);
    out += ((size_t)blockIdx.x * of.captions + blockIdx.y) * apart;
    rows += pair.out * dim, values += pair.own * dim;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float sum = 0;
        for (u32 row = 0; row < pair.count; row++)
            sum += shares[row] * (rows[(size_t)row * dim + at] + values[(size_t)row * dim + at]);
        out[at] = sum, squares += sum * sum;
    }
    if (!scales) return;
    float scale = 1.0f / (sqrtf(block_sum(squares)) + 1e-8f);
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) out[at] *= scale;
}

// The cosine of pooled messages; one block an image (x) and a caption (y).
extern "C" __global__ void pooled_cosines(
    float* scores, const Exchange* exchange, const float* of_regions, const float* of_words, u32 region_heads, u32 word_heads,
    u32 columns) {
    extern __shared__ float shared[];
    Exchange of = *exchange;
    u32 image = blockIdx.x, caption = blockIdx.y;
    Exchanged pair(of, image, caption);
    float *from_words = shared, *from_regions = from_words + of.most, *x = from_regions + of.rows;
    for (u32 words = 0; words < 2; words++) {
        Sent sent(of, image, caption, words);
        u32 heads = words ? word_heads : region_heads;
        float *shares = x, *mean = words ? from_regions : from_words;
        mean_shares(shares, x + sent.count, (words ? of_words : of_regions) + sent.out * heads, sent.count, heads);
        for (u32 at = threadIdx.x; at < sent.width; at += blockDim.x) {
            float sum = 0;
            for (u32 row = 0; row < sent.count; row++)
                sum += shares[row] * sent.weights[row * sent.row_apart + at * sent.column_apart];
            mean[at] = sum;
        }
        __syncthreads();
    }
    float score = mean_cosine(of, pair, image, caption, from_words, from_regions);
    if (threadIdx.x == 0) scores[(size_t)image * columns + caption] = score;
}
