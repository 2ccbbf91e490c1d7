// Tables of pairs of items: a row for every row of the first item, a column for every row of the second.

// A pair: its first number, the numbers from one own row to the next and from one other row to the next, and the rows.
struct Table {
    u32 first, down, across, own, owns, other, others;
};

// Products of own and other rows; a line a block. `firsts` has the first line of every pair.
extern "C" __global__ void table_products(
    float* out, const float* own, const float* others, const Table* pairs, const u32* owners, const u32* firsts, u32 dim) {
    u32 pair = owners[blockIdx.x], line = blockIdx.x - firsts[pair];
    Table of = pairs[pair];
    const float* row = own + ((size_t)of.own + line) * dim;
    float* to = out + of.first + (size_t)line * of.down;
    for (u32 other = threadIdx.x / 32; other < of.others; other += blockDim.x / 32) {
        float sum = 0;
        for (u32 at = threadIdx.x % 32; at < dim; at += 32) sum += row[at] * others[((size_t)of.other + other) * dim + at];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) to[(size_t)other * of.across] = sum;
    }
}

// For every own row the sum of other rows by the tables of its item's pairs, `order[firsts[item]..firsts[item + 1]]`.
extern "C" __global__ void table_sums(
    float* out, const float* tables, const float* others, const Table* pairs, const u32* order, const u32* firsts,
    const u32* owners, u32 dim) {
    u32 at = blockIdx.y * blockDim.x + threadIdx.x, item = owners[blockIdx.x];
    if (at >= dim) return;
    float sum = 0;
    for (u32 place = firsts[item]; place < firsts[item + 1]; place++) {
        Table of = pairs[order[place]];
        const float* from = tables + of.first + (size_t)(blockIdx.x - of.own) * of.down;
        for (u32 other = 0; other < of.others; other++)
            sum += from[(size_t)other * of.across] * others[((size_t)of.other + other) * dim + at];
    }
    out[(size_t)blockIdx.x * dim + at] = sum;
}

// The dot product of every row with the same row of another matrix; one block a row.
extern "C" __global__ void row_dots(float* out, const float* a, const float* b, u32 dim) {
    size_t first = (size_t)blockIdx.x * dim;
    float sum = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) sum += a[first + at] * b[first + at];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Every row times its factor; one block a row.
extern "C" __global__ void scale_rows(float* out, const float* rows, const float* factors, u32 dim) {
    size_t first = (size_t)blockIdx.x * dim;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) out[first + at] = rows[first + at] * factors[blockIdx.x];
}
