// Items of several rows. Without offsets every item has `each` rows.

struct Span { u32 first, count; };

__device__ Span span_of(const u32* offsets, u32 each, u32 item) {
    u32 first = offsets ? offsets[item] : item * each;
    return {first, offsets ? offsets[item + 1] - first : each};
}

// The largest of some numbers and the inverse of the sum of their exponentials, over the lanes of a warp.
struct Soft { float largest, scale; };

__device__ Soft soft(const float* in, u32 count, u32 apart, float temperature) {
    u32 lane = threadIdx.x % 32;
    float largest = in[0], sum = 0;
    for (u32 row = lane; row < count; row += 32) largest = fmaxf(largest, in[(size_t)row * apart]);
    largest = warp_max(largest);
    for (u32 row = lane; row < count; row += 32) sum += expf((in[(size_t)row * apart] - largest) * temperature);
    return {largest, 1.0f / warp_sum(sum)};
}

// Softmax of every column of an item; one warp a column.
extern "C" __global__ void softmax_spans(float* out, const float* in, const u32* offsets, u32 each, u32 items, u32 columns) {
    u32 at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (at >= items * columns) return;
    Span own = span_of(offsets, each, at / columns);
    size_t first = (size_t)own.first * columns + at % columns;
    Soft of = soft(in + first, own.count, columns, 1.0f);
    for (u32 row = threadIdx.x % 32; row < own.count; row += 32)
        out[first + (size_t)row * columns] = expf(in[first + (size_t)row * columns] - of.largest) * of.scale;
}

extern "C" __global__ void softmax_spans_backward(
    float* out, const float* in, const float* upstream, const u32* offsets, u32 each, u32 items, u32 columns) {
    u32 at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (at >= items * columns) return;
    Span own = span_of(offsets, each, at / columns);
    size_t first = (size_t)own.first * columns + at % columns;
    Soft of = soft(in + first, own.count, columns, 1.0f);
    float along = 0;
    for (u32 row = lane; row < own.count; row += 32) {
        size_t place = first + (size_t)row * columns;
        along += expf(in[place] - of.largest) * of.scale * upstream[place];
    }
    along = warp_sum(along);
    for (u32 row = lane; row < own.count; row += 32) {
        size_t place = first + (size_t)row * columns;
        out[place] = expf(in[place] - of.largest) * of.scale * (upstream[place] - along);
    }
}

// Numbers over the sum of their column of an item; one warp a column.
__device__ float sum_of_column(const float* in, u32 count, u32 apart) {
    float sum = 0;
    for (u32 row = threadIdx.x % 32; row < count; row += 32) sum += in[(size_t)row * apart];
    return warp_sum(sum) + 1e-8f;
}

extern "C" __global__ void share_spans(float* out, const float* in, const u32* offsets, u32 each, u32 items, u32 columns) {
    u32 at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (at >= items * columns) return;
    Span own = span_of(offsets, each, at / columns);
    size_t first = (size_t)own.first * columns + at % columns;
    float sum = sum_of_column(in + first, own.count, columns);
    for (u32 row = threadIdx.x % 32; row < own.count; row += 32)
        out[first + (size_t)row * columns] = in[first + (size_t)row * columns] / sum;
}

extern "C" __global__ void share_spans_backward(
    float* out, const float* in, const float* upstream, const u32* offsets, u32 each, u32 items, u32 columns) {
    u32 at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (at >= items * columns) return;
    Span own = span_of(offsets, each, at / columns);
    size_t first = (size_t)own.first * columns + at % columns;
    float sum = sum_of_column(in + first, own.count, columns), along = 0;
    for (u32 row = lane; row < own.count; row += 32)
        along += in[first + (size_t)row * columns] / sum * upstream[first + (size_t)row * columns];
    along = warp_sum(along);
    for (u32 row = lane; row < own.count; row += 32)
        out[first + (size_t)row * columns] = (upstream[first + (size_t)row * columns] - along) / sum;
}

// The sum of the rows of an item with the weights of a head: [item][head][dim].
extern "C" __global__ void attend_items(
    float* out, const float* weights, const float* rows, const u32* offsets, u32 each, u32 heads, u32 dim) {
    u32 head = blockIdx.x % heads, at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= dim) return;
    Span own = span_of(offsets, each, blockIdx.x / heads);
    float sum = 0;
    for (u32 row = own.first; row < own.first + own.count; row++)
        sum += weights[(size_t)row * heads + head] * rows[(size_t)row * dim + at];
    out[(size_t)blockIdx.x * dim + at] = sum;
}

// The gradients of the weights of an item; one warp a weight.
extern "C" __global__ void attend_items_weights(
    float* out, const float* rows, const float* upstream, const u32* offsets, u32 each, u32 heads, u32 dim) {
    Span own = span_of(offsets, each, blockIdx.x);
    for (u32 place = threadIdx.x / 32; place < own.count * heads; place += blockDim.x / 32) {
        const float* row = rows + ((size_t)own.first + place / heads) * dim;
        const float* up = upstream + ((size_t)blockIdx.x * heads + place % heads) * dim;
        float sum = 0;
        for (u32 at = threadIdx.x % 32; at < dim; at += 32) sum += row[at] * up[at];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) out[(size_t)own.first * heads + place] = sum;
    }
}

// The gradients of the rows of an item.
extern "C" __global__ void attend_items_rows(
    float* out, const float* weights, const float* upstream, const u32* offsets, u32 each, u32 heads, u32 dim) {
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= dim) return;
    Span own = span_of(offsets, each, blockIdx.x);
    for (u32 row = own.first; row < own.first + own.count; row++) {
        float sum = 0;
        for (u32 head = 0; head < heads; head++)
            sum += weights[(size_t)row * heads + head] * upstream[((size_t)blockIdx.x * heads + head) * dim + at];
        out[(size_t)row * dim + at] = sum;
    }
}

// Weighted sums by rank, [item][dim]. The rank of a number of a column of an item is how many are larger, or equal and
// before it.
extern "C" __global__ void ranked_sums(
    float* out, u32* ranks, const float* rows, const float* weights, const u32* offsets, u32 each, const u32* firsts,
    u32 dim) {
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= dim) return;
    Span own = span_of(offsets, each, blockIdx.x);
    const float* column = rows + (size_t)own.first * dim + at;
    float sum = 0;
    for (u32 row = 0; row < own.count; row++) {
        float x = column[(size_t)row * dim];
        u32 rank = 0;
        for (u32 other = 0; other < own.count; other++) {
            float y = column[(size_t)other * dim];
            rank += other < row ? !(x > y) : y > x;
        }
        ranks[((size_t)own.first + row) * dim + at] = rank;
        sum += weights[firsts[blockIdx.x] + rank] * x;
    }
    out[(size_t)blockIdx.x * dim + at] = sum;
}

// The gradients of the rows of an item, and the products of numbers and gradients in the order of their ranks.
extern "C" __global__ void ranked_sums_backward(
    float* out, float* products, const u32* ranks, const float* rows, const float* weights, const float* upstream,
    const u32* offsets, u32 each, const u32* firsts, u32 dim) {
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= dim) return;
    Span own = span_of(offsets, each, blockIdx.x);
    float up = upstream[(size_t)blockIdx.x * dim + at];
    for (u32 row = own.first; row < own.first + own.count; row++) {
        size_t place = (size_t)row * dim + at;
        u32 rank = ranks[place];
        out[place] = weights[firsts[blockIdx.x] + rank] * up;
        products[((size_t)own.first + rank) * dim + at] = rows[place] * up;
    }
}

// The sum of every row; one block a row.
extern "C" __global__ void row_sums(float* out, const float* rows, u32 dim) {
    float sum = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) sum += rows[(size_t)blockIdx.x * dim + at];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// The gradient of every weight of ranks: the sum over the items that use it, in their order.
extern "C" __global__ void ranked_weights(
    float* out, const float* parts, const u32* offsets, u32 each, const u32* firsts, u32 items, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    float sum = 0;
    for (u32 item = 0; item < items; item++) {
        Span own = span_of(offsets, each, item);
        u32 rank = (u32)at - firsts[item];
        if (at >= firsts[item] && rank < own.count) sum += parts[own.first + rank];
    }
    out[at] = sum;
}

// How many numbers of every row come before the zeros at its end; one block a row.
extern "C" __global__ void filled(u32* out, const float* rows, u32 width) {
    u32 last = 0;
    for (u32 at = threadIdx.x; at < width; at += blockDim.x)
        if (rows[(size_t)blockIdx.x * width + at] != 0) last = at + 1;
    last = NONE - block_min(NONE - last);
    if (threadIdx.x == 0) out[blockIdx.x] = last;
}
