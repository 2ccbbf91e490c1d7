// The kernels of `pair_products.cu` on matrix units, with factors rounded to 10 bits.

__device__ u32 to_tf32(float value) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// Adds the product of 16 by 8 and 8 by 8 numbers. A thread of group `g` with place `t` has the left numbers (g, t),
// (g + 8, t), (g, t + 4), (g + 8, t + 4), the right ones (t, g), (t + 4, g), and the sums (g, 2 t), (g, 2 t + 1),
// (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ void multiply_add_tf32(float* sums, const u32* left, u32 right0, u32 right1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

// Products with the rows of contexts. A block has a pair and 40 rows, and takes 16 queries at a time; each of its 8 warps has every eighth 16 of the
// numbers. Which four numbers meet in a product is free: a thread takes four that lie side by side.
template <bool WHOLE>
__device__ void multiply_by_rows_of(
    float parts[8][16][40], float* out, const float* __restrict__ left, const float* __restrict__ table, const Pairs& of, u32 dim) {
    const u32 QUERIES = 16, EIGHTS = 5, ROWS = 8 * EIGHTS, WARPS = 8;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, pair = blockIdx.x, row = blockIdx.y * ROWS;
    u32 line = of.firsts[pair], queries = of.ends[pair] - line;
    const float *row_of[EIGHTS], *own = left + (size_t)line * dim;
#pragma unroll
    for (u32 n = 0; n < EIGHTS; n++)
        row_of[n] = table + ((size_t)of.contexts[pair] * of.rows + min(row + 8 * n + g, of.rows - 1)) * dim;
    for (u32 first = 0; first < queries; first += QUERIES) {
        const float* low = own + (size_t)min(first + g, queries - 1) * dim;
        const float* high = own + (size_t)min(first + g + 8, queries - 1) * dim;
        float sums[EIGHTS][4] = {};
#pragma unroll 2
        for (u32 from = 16 * warp; from < dim; from += 16 * WARPS) {
            u32 at = from + 4 * t;
            float4 a = four_at<WHOLE>(low, at, dim), b = four_at<WHOLE>(high, at, dim), rows[EIGHTS];
#pragma unroll
            for (u32 n = 0; n < EIGHTS; n++) rows[n] = four_at<WHOLE>(row_of[n], at, dim);
            if (at >= dim) a = b = make_float4(0, 0, 0, 0);
            u32 one[4] = {to_tf32(a.x), to_tf32(b.x), to_tf32(a.y), to_tf32(b.y)};
            u32 other[4] = {to_tf32(a.z), to_tf32(b.z), to_tf32(a.w), to_tf32(b.w)};
#pragma unroll
            for (u32 n = 0; n < EIGHTS; n++) {
                multiply_add_tf32(sums[n], one, to_tf32(rows[n].x), to_tf32(rows[n].y));
                multiply_add_tf32(sums[n], other, to_tf32(rows[n].z), to_tf32(rows[n].w));
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 n = 0; n < EIGHTS; n++) {
            *(float2*)&parts[warp][g][8 * n + 2 * t] = make_float2(sums[n][0], sums[n][1]);
            *(float2*)&parts[warp][g + 8][8 * n + 2 * t] = make_float2(sums[n][2], sums[n][3]);
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < QUERIES * ROWS; at += blockDim.x) {
            u32 w = at / ROWS, r = at % ROWS;
            if (first + w >= queries || row + r >= of.rows) continue;
            float sum = 0;
#pragma unroll
            for (u32 part = 0; part < WARPS; part++) sum += parts[part][w][r];
            out[((size_t)line + first + w) * of.rows + row + r] = sum;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 2) multiply_by_rows_tf32(
    float* out, const float* left, const float* table, const Pairs* pairs, u32 dim) {
    __shared__ float parts[8][16][40];
    if (dim % 4 == 0) multiply_by_rows_of<true>(parts, out, left, table, *pairs, dim);
    else multiply_by_rows_of<false>(parts, out, left, table, *pairs, dim);
}

// Products on matrix units of the factors of 16 lines, from `first` on, with rows of 32 columns from `column` on, in each of
// two places of the rows. A thread reads four columns that lie side by side, of which each is in a product of its own, and so
// its sums are of eight columns that do: those of line `g + i / 2 * 8` from `8 t + i % 2 * 4` on are `sums[place][0..4][i]`.
template <bool WHOLE>
__device__ void add_32_columns(
    float sums[2][4][4], const float* __restrict__ left, u32 count, u32 first, const float* __restrict__ rows, u32 row_count,
    u32 columns, const u32 column[2]) {
    u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float* low = left + (size_t)min(first + g, count - 1) * row_count;
    const float* high = left + (size_t)min(first + g + 8, count - 1) * row_count;
    // Eight rows a product, and what five need is on its way at once.
    const u32 AT_ONCE = 5;
    for (u32 from = 0; from < row_count; from += 8 * AT_ONCE) {
        float4 b[AT_ONCE][2], c[AT_ONCE][2];
        float a[AT_ONCE][4];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            u32 row = from + 8 * k + t, one = min(row, row_count - 1), other = min(row + 4, row_count - 1);
#pragma unroll
            for (u32 place = 0; place < 2; place++) {
                b[k][place] = four_at<WHOLE>(rows + (size_t)one * columns, column[place] + 4 * g, columns);
                c[k][place] = four_at<WHOLE>(rows + (size_t)other * columns, column[place] + 4 * g, columns);
            }
            a[k][0] = low[one], a[k][1] = high[one], a[k][2] = low[other], a[k][3] = high[other];
            if (row >= row_count) a[k][0] = a[k][1] = 0;
            if (row + 4 >= row_count) a[k][2] = a[k][3] = 0;
        }
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            u32 factors[4] = {to_tf32(a[k][0]), to_tf32(a[k][1]), to_tf32(a[k][2]), to_tf32(a[k][3])};
#pragma unroll
            for (u32 place = 0; place < 2; place++) {
                float4 one = b[k][place], other = c[k][place];
                multiply_add_tf32(sums[place][0], factors, to_tf32(one.x), to_tf32(other.x));
                multiply_add_tf32(sums[place][1], factors, to_tf32(one.y), to_tf32(other.y));
                multiply_add_tf32(sums[place][2], factors, to_tf32(one.z), to_tf32(other.z));
                multiply_add_tf32(sums[place][3], factors, to_tf32(one.w), to_tf32(other.w));
            }
        }
    }
}

// Sums of the rows of contexts. A warp has 64 columns and takes 16 queries at a time.
template <bool WHOLE>
__device__ void add_rows_of(float* out, const float* left, const float* table, const Pairs& of, u32 columns, float keep) {
    u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, pair = blockIdx.y;
    u32 line = of.firsts[pair], queries = of.ends[pair] - line;
    u32 first_column = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 64;
    if (first_column >= columns) return;
    const u32 column[2] = {first_column, first_column + 32};
    const float* rows = table + (size_t)of.contexts[pair] * of.rows * columns;
    for (u32 first = 0; first < queries; first += 16) {
        float sums[2][4][4] = {};
        add_32_columns<WHOLE>(sums, left + (size_t)line * of.rows, queries, first, rows, of.rows, columns, column);
#pragma unroll
        for (u32 place = 0; place < 2; place++)
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                u32 w = first + g + i / 2 * 8, at = column[place] + 8 * t + i % 2 * 4;
                float *to = out + ((size_t)line + w) * columns, (*sum)[4] = sums[place];
                if (w >= queries) continue;
                float4 old = {};
                if (keep != 0) old = four_at<WHOLE>(to, at, columns);
                write_four<WHOLE>(to, at, columns, make_float4(
                    keep * old.x + sum[0][i], keep * old.y + sum[1][i], keep * old.z + sum[2][i], keep * old.w + sum[3][i]));
            }
    }
}
extern "C" __global__ void __launch_bounds__(128) add_rows_of_contexts_tf32(
    float* out, const float* left, const float* table, const Pairs* pairs, u32 columns, float keep) {
    if (columns % 4 == 0) add_rows_of<true>(out, left, table, *pairs, columns, keep);
    else add_rows_of<false>(out, left, table, *pairs, columns, keep);
}

// Sums of the rows of contexts as above, and what they are for at once: `refine` without norms. With `words`, the layers
// of line `i` begin with row `words[i]` of `base`, else with its row `i`. Pairs of `each` contexts have the biases of one
// member. A warp has 32 columns of either layer.
template <bool WHOLE>
__device__ void refine_by_rows_of(
    float* refined, float* layers, const float* base, const u32* words, const float* bias, const float* left, const float* table,
    const float* queries_before, const Pairs& of, u32 each, u32 dim) {
    u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, pair = blockIdx.y;
    u32 line = of.firsts[pair], queries = of.ends[pair] - line;
    u32 own = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 32;
    if (own >= dim) return;
    const u32 column[2] = {own, dim + own};
    bias += (size_t)(of.contexts[pair] / each) * 2 * dim;
    const float* rows = table + (size_t)of.contexts[pair] * of.rows * 2 * dim;
    for (u32 first = 0; first < queries; first += 16) {
        float sums[2][4][4] = {};
        add_32_columns<WHOLE>(sums, left + (size_t)line * of.rows, queries, first, rows, of.rows, 2 * dim, column);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 w = first + g + i / 2 * 8, at = own + 8 * t + i % 2 * 4;
            if (w >= queries || at >= dim) continue;
            size_t to = line + w;
            const float* from = base + (size_t)(words ? words[to] : to) * 2 * dim;
            float4 of_proposal = four_at<WHOLE>(from, at, dim), of_gate = four_at<WHOLE>(from + dim, at, dim);
            float4 query = four_at<WHOLE>(queries_before + to * dim, at, dim);
            float4 bias_0 = four_at<WHOLE>(bias, at, dim), bias_1 = four_at<WHOLE>(bias + dim, at, dim), mixed;
            auto mix = [&](float& proposal, float& gate, float old, float of_0, float of_1, u32 j) {
                proposal = tanhf(proposal + sums[0][j][i] + of_0);
                gate = 1.0f / (1.0f + expf(-(gate + sums[1][j][i] + of_1)));
                return gate * old + (1.0f - gate) * proposal;
            };
            mixed.x = mix(of_proposal.x, of_gate.x, query.x, bias_0.x, bias_1.x, 0);
            mixed.y = mix(of_proposal.y, of_gate.y, query.y, bias_0.y, bias_1.y, 1);
            mixed.z = mix(of_proposal.z, of_gate.z, query.z, bias_0.z, bias_1.z, 2);
            mixed.w = mix(of_proposal.w, of_gate.w, query.w, bias_0.w, bias_1.w, 3);
            write_four<WHOLE>(layers + to * 2 * dim, at, dim, of_proposal);
            write_four<WHOLE>(layers + to * 2 * dim + dim, at, dim, of_gate);
            write_four<WHOLE>(refined + to * dim, at, dim, mixed);
        }
    }
}
extern "C" __global__ void __launch_bounds__(128) refine_by_rows_tf32(
    float* refined, float* layers, const float* base, const u32* words, const float* bias, const float* left, const float* table,
    const float* queries, const Pairs* pairs, u32 each, u32 dim) {
    if (dim % 4 == 0) refine_by_rows_of<true>(refined, layers, base, words, bias, left, table, queries, *pairs, each, dim);
    else refine_by_rows_of<false>(refined, layers, base, words, bias, left, table, queries, *pairs, each, dim);
}

// Adds products of pairs to what their contexts have. A block has a piece and 48 rows, and each of its warps 32 columns.
template <bool WHOLE>
__device__ void add_to_contexts_of(
    float* out, float* places, const float* __restrict__ left, const float* __restrict__ right, const Piece& piece,
    const u32* __restrict__ lines, const Pairs& of, u32 columns) {
    // Lines of `shared` are 24 banks apart, so that the threads of a warp read from different ones.
    const u32 TILES = 3, ROWS = 16 * TILES, STRIDE = ROWS + 8;
    extern __shared__ float shared[];
    u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = blockIdx.y * ROWS;
    u32 column = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 32;
    u32 count = piece.to - piece.from;
    lines += piece.from;
#pragma unroll 8
    for (u32 at = threadIdx.x; at < count * ROWS; at += blockDim.x) {
        u32 r = row + at % ROWS;
        float factor = left[(size_t)lines[at / ROWS] * of.rows + min(r, of.rows - 1)];
        shared[at / ROWS * STRIDE + at % ROWS] = r < of.rows ? factor : 0.0f;
    }
    __syncthreads();
    if (column >= columns) return;
    float sums[TILES][4][4] = {};
    // Eight lines a product, and what five need is on its way at once.
    const u32 AT_ONCE = 5;
    for (u32 begin = 0; begin < count; begin += 8 * AT_ONCE) {
        float4 b[AT_ONCE], c[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            u32 w = begin + 8 * k + t;
            b[k] = four_at<WHOLE>(right + (size_t)lines[min(w, count - 1)] * columns, column + 4 * g, columns);
            c[k] = four_at<WHOLE>(right + (size_t)lines[min(w + 4, count - 1)] * columns, column + 4 * g, columns);
        }
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) {
            u32 w = begin + 8 * k + t;
            u32 low[4] = {to_tf32(b[k].x), to_tf32(b[k].y), to_tf32(b[k].z), to_tf32(b[k].w)};
            u32 high[4] = {to_tf32(c[k].x), to_tf32(c[k].y), to_tf32(c[k].z), to_tf32(c[k].w)};
            const float* first = shared + min(w, count - 1) * STRIDE + g;
            const float* second = shared + min(w + 4, count - 1) * STRIDE + g;
#pragma unroll
            for (u32 m = 0; m < TILES; m++) {
                u32 a[4] = {to_tf32(first[16 * m]), to_tf32(first[16 * m + 8]), to_tf32(second[16 * m]), to_tf32(second[16 * m + 8])};
                if (w >= count) a[0] = a[1] = 0;
                if (w + 4 >= count) a[2] = a[3] = 0;
#pragma unroll
                for (u32 j = 0; j < 4; j++) multiply_add_tf32(sums[m][j], a, low[j], high[j]);
            }
        }
    }
#pragma unroll
    for (u32 m = 0; m < TILES; m++)
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 r = row + 16 * m + g + i / 2 * 8, at = column + 8 * t + i % 2 * 4;
            if (r >= of.rows) continue;
            float* to = piece.row(out, places, of.rows, r, columns);
            float4 old = {};
            if (!piece.place) old = four_at<WHOLE>(to, at, columns);
            write_four<WHOLE>(to, at, columns, make_float4(
                old.x + sums[m][0][i], old.y + sums[m][1][i], old.z + sums[m][2][i], old.w + sums[m][3][i]));
        }
}
extern "C" __global__ void __launch_bounds__(128) add_to_contexts_tf32(
    float* out, float* places, const float* left, const float* right, const Piece* pieces, const u32* lines,
    const Pairs* pairs, u32 columns) {
    if (columns % 4 == 0) add_to_contexts_of<true>(out, places, left, right, pieces[blockIdx.z], lines, *pairs, columns);
    else add_to_contexts_of<false>(out, places, left, right, pieces[blockIdx.z], lines, *pairs, columns);
}
