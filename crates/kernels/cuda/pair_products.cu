// Small products of the queries of pairs with their contexts, which stand where a table has them, in single precision.

// Four numbers of a row that has `left` of them from here on, then zeros. Rows of a multiple of four numbers are read at
// once.
__device__ float4 four_of(const float* from, u32 left, bool at_once) {
    if (at_once) return *(const float4*)from;
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
}

// Four numbers of a row of `width`, from `at` on. Of a `WHOLE` row, a multiple of four, those beyond its end are others: no
// load waits for a branch.
template <bool WHOLE> __device__ float4 four_at(const float* row, u32 at, u32 width) {
    if (WHOLE) return *(const float4*)(row + min(at, width - 4));
    return at < width ? four_of(row + at, width - at, false) : make_float4(0, 0, 0, 0);
}

// Writes four numbers of a row of `width`, those before its end.
template <bool WHOLE> __device__ void write_four(float* row, u32 at, u32 width, float4 four) {
    if (WHOLE) {
        if (at < width) *(float4*)(row + at) = four;
        return;
    }
    float numbers[4] = {four.x, four.y, four.z, four.w};
    for (u32 i = 0; i < 4 && at + i < width; i++) row[at + i] = numbers[i];
}

// Products of rows of `dim` numbers: `out[query][row] = own[query] * table[row]`, with rows of `apart` numbers in `out`. A
// warp has 3 rows of the table, those from `row` on, and 12 queries at a time, and its threads share the numbers. A product
// has the same bits wherever its rows stand.
__device__ void multiply_rows(
    float* out, size_t apart, const float* __restrict__ own, u32 queries, const float* __restrict__ table, u32 row, u32 rows,
    u32 dim) {
    const u32 QUERIES = 12, ROWS = 3;
    u32 lane = threadIdx.x % 32;
    bool whole = dim % 4 == 0;
    const float* row_of[ROWS];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) row_of[r] = table + (size_t)min(row + r, rows - 1) * dim;
    for (u32 first = 0; first < queries; first += QUERIES) {
        float sums[QUERIES][ROWS] = {};
        for (u32 at = 4 * lane; at < dim; at += 128) {
            float4 b[ROWS];
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) b[r] = four_of(row_of[r] + at, dim - at, whole);
#pragma unroll
            for (u32 w = 0; w < QUERIES; w++) {
                float4 a = four_of(own + (size_t)min(first + w, queries - 1) * dim + at, dim - at, whole);
#pragma unroll
                for (u32 r = 0; r < ROWS; r++)
                    sums[w][r] += a.x * b[r].x + a.y * b[r].y + a.z * b[r].z + a.w * b[r].w;
            }
        }
#pragma unroll
        for (u32 w = 0; w < QUERIES; w++)
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                float sum = warp_sum(sums[w][r]);
                if (lane == (w * ROWS + r) % 32 && first + w < queries && row + r < rows)
                    out[(first + w) * apart + row + r] = sum;
            }
    }
}

// The first of the rows of a warp, where `y` counts blocks.
__device__ u32 first_row_of_warp() { return (blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32) * 3; }

// Products with the rows of contexts: `out[line][row] = left[line] * table[context][row]`; one pair a block (x).
extern "C" __global__ void __launch_bounds__(384) multiply_by_rows(
    float* out, const float* __restrict__ left, const float* __restrict__ table, const Pairs* pairs, u32 dim) {
    Pairs of = *pairs;
    u32 pair = blockIdx.x, row = first_row_of_warp(), line = of.firsts[pair], queries = of.ends[pair] - line;
    if (row >= of.rows) return;
    const float* rows = table + (size_t)of.contexts[pair] * of.rows * dim;
    multiply_rows(out + (size_t)line * of.rows, of.rows, left + (size_t)line * dim, queries, rows, row, of.rows, dim);
}

// Sums of the rows of contexts: `out[line] = keep * out[line] + sum of left[line][row] * table[context][row]`, of `columns`
// numbers each. A thread has four columns, and 12 queries at a time.
extern "C" __global__ void __launch_bounds__(128) add_rows_of_contexts(
    float* out, const float* __restrict__ left, const float* __restrict__ table, const Pairs* pairs, u32 columns, float keep) {
    const u32 QUERIES = 12;
    extern __shared__ float shared[];
    Pairs of = *pairs;
    u32 column = 4 * (blockIdx.x * blockDim.x + threadIdx.x), pair = blockIdx.y;
    u32 line = of.firsts[pair], queries = of.ends[pair] - line;
    bool whole = columns % 4 == 0;
    const float* rows = table + (size_t)of.contexts[pair] * of.rows * columns + column;
    for (u32 first = 0; first < queries; first += QUERIES) {
        __syncthreads();
        for (u32 at = threadIdx.x; at < of.rows * QUERIES; at += blockDim.x) {
            u32 w = first + at % QUERIES;
            shared[at] = w < queries ? left[((size_t)line + w) * of.rows + at / QUERIES] : 0.0f;
        }
        __syncthreads();
        if (column >= columns) continue;
        float sums[QUERIES][4] = {};
#pragma unroll 6
        for (u32 row = 0; row < of.rows; row++) {
            float4 b = four_of(rows + (size_t)row * columns, columns - column, whole);
#pragma unroll
            for (u32 w = 0; w < QUERIES; w++) {
                float a = shared[row * QUERIES + w];
                sums[w][0] += a * b.x, sums[w][1] += a * b.y, sums[w][2] += a * b.z, sums[w][3] += a * b.w;
            }
        }
#pragma unroll
        for (u32 w = 0; w < QUERIES; w++) {
            if (first + w >= queries) continue;
            float* to = out + ((size_t)line + first + w) * columns;
            float4 old = {};
            if (keep != 0) old = four_of(to + column, columns - column, whole);
            float4 sum = make_float4(
                keep * old.x + sums[w][0], keep * old.y + sums[w][1], keep * old.z + sums[w][2], keep * old.w + sums[w][3]);
            if (whole) write_four<true>(to, column, columns, sum);
            else write_four<false>(to, column, columns, sum);
        }
    }
}

// Some lines of a context, `lines[from..to]`. The first of a context's pieces is added to what the context has, and others
// have places of their own.
struct Piece {
    u32 context, from, to;
    u32 place;  // 0: the context, else the number of a place, from 1

    // Where the sums of a row go.
    __device__ float* row(float* out, float* places, u32 rows, u32 row, u32 columns) const {
        return place ? places + ((size_t)(place - 1) * rows + row) * columns : out + ((size_t)context * rows + row) * columns;
    }
};

// Adds products of pairs to what their contexts have: `out[context][row][column]` gets the sum of
// `left[line][row] * right[line][column]` over the context's lines, in their order. A block has a piece, 12 rows and 128
// columns, and a thread four of these; every warp has some of the lines.
extern "C" __global__ void __launch_bounds__(128) add_to_contexts(
    float* out, float* places, const float* __restrict__ left, const float* __restrict__ right, const Piece* pieces,
    const u32* __restrict__ lines, const Pairs* pairs, u32 columns) {
    const u32 ROWS = 12, WARPS = 4, COLUMNS = 128;
    extern __shared__ float shared[];
    __shared__ float parts[WARPS][ROWS][COLUMNS];
    Pairs of = *pairs;
    Piece piece = pieces[blockIdx.z];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 column = blockIdx.x * COLUMNS + 4 * lane, row = blockIdx.y * ROWS;
    bool whole = columns % 4 == 0;
    u32 count = piece.to - piece.from;
    lines += piece.from;
#pragma unroll 4
    for (u32 at = threadIdx.x; at < count * ROWS; at += blockDim.x) {
        u32 r = row + at % ROWS;
        shared[at] = r < of.rows ? left[(size_t)lines[at / ROWS] * of.rows + r] : 0.0f;
    }
    __syncthreads();
    float sums[ROWS][4] = {};
    if (column < columns) {
#pragma unroll 4
        for (u32 w = warp; w < count; w += WARPS) {
            float4 b = four_of(right + (size_t)lines[w] * columns + column, columns - column, whole);
#pragma unroll
            for (u32 i = 0; i < ROWS; i++) {
                float a = shared[w * ROWS + i];
                sums[i][0] += a * b.x, sums[i][1] += a * b.y, sums[i][2] += a * b.z, sums[i][3] += a * b.w;
            }
        }
    }
#pragma unroll
    for (u32 i = 0; i < ROWS; i++)
        *(float4*)&parts[warp][i][4 * lane] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    __syncthreads();
    column = blockIdx.x * COLUMNS + threadIdx.x;
    if (column >= columns) return;
    for (u32 i = 0; i < ROWS && row + i < of.rows; i++) {
        float sum = 0;
#pragma unroll
        for (u32 part = 0; part < WARPS; part++) sum += parts[part][i][threadIdx.x];
        float* at = piece.row(out, places, of.rows, row + i, columns) + column;
        *at = piece.place ? sum : *at + sum;
    }
}

// Adds the other pieces of contexts to what these have. `pieces` are those with a place, by context.
extern "C" __global__ void add_places(float* out, const float* places, const Piece* pieces, u32 count, u32 size) {
    u32 first = blockIdx.y, context = pieces[first].context, at = blockIdx.x * blockDim.x + threadIdx.x;
    // The first piece of a context adds those after it as well.
    if (at >= size || (first > 0 && pieces[first - 1].context == context)) return;
    float sum = out[(size_t)context * size + at];
    for (u32 piece = first; piece < count && pieces[piece].context == context; piece++)
        sum += places[(size_t)(pieces[piece].place - 1) * size + at];
    out[(size_t)context * size + at] = sum;
}
