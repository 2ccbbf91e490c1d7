// Scores of some pairs of a context and an item of queries, and their gradients, in single precision. Buffers of pairs
// are padded: [pair][queries at most][...], and contexts too: [context][rows at most][...].

// The rows of an item for every pair, then zeros. Without `items`, pair `p` is item `p`.
extern "C" __global__ void pad_items(
    float* out, const float* rows, const u32* offsets, const u32* items, u32 most, u32 dim) {
    u32 pair = blockIdx.x / most, w = blockIdx.x % most, item = items ? items[pair] : pair;
    u32 first = offsets[item], count = offsets[item + 1] - first;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
        out[(size_t)blockIdx.x * dim + at] = w < count ? rows[(size_t)(first + w) * dim + at] : 0.0f;
}

// The rows of items from a padded buffer.
extern "C" __global__ void unpad_rows(float* out, const float* padded, const u32* places, u32 dim) {
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
        out[(size_t)blockIdx.x * dim + at] = padded[(size_t)places[blockIdx.x] * dim + at];
}

extern "C" __global__ void row_norms(float* out, const float* rows, u32 dim) {
    float sum = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float value = rows[(size_t)blockIdx.x * dim + at];
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(sum);
}

// What describes the pairs.
struct Pairs {
    const u32* contexts;         // of each pair
    const u32* items;            // of each pair
    const u32* context_offsets;  // of all contexts
    const u32* query_offsets;    // of all items
    const float* grams;          // [context][rows][rows]
    const float* norms;          // of all queries
    u32 most;                    // queries of an item at most
    u32 rows;                    // rows of a context at most
};

// One step of attention; one block a pair. Writes weights, and adds to the scores.
extern "C" __global__ void attend_pairs(
    float* weights, float* scores, const float* raw, const float* first, Pairs* pairs, Attending* attending) {
    extern __shared__ float shared[];
    Pairs of = *pairs;
    Attending how = *attending;
    u32 pair = blockIdx.x, item = of.items[pair], context = of.contexts[pair];
    u32 begin = of.query_offsets[item], queries = of.query_offsets[item + 1] - begin;
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context];
    float *x = shared, *products = x + of.most * of.rows, *squares = products + of.most;
    size_t at = (size_t)pair * of.most * of.rows;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) x[i] = raw[at + i / rows * of.rows + i % rows];
    __syncthreads();
    attend(how, x, queries, rows);
    const float* gram = of.grams + (size_t)context * of.rows * of.rows;
    cosine_parts(x, first + at, of.rows, gram, of.rows, queries, rows, products, squares, 0);
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x)
        products[w] = products[w] / fmaxf(of.norms[begin + w] * sqrtf(squares[w]), LEAST);
    __syncthreads();
    float score = aggregate(how, products, queries);
    if (threadIdx.x == 0) scores[pair] += score;
    for (u32 i = threadIdx.x; i < of.most * of.rows; i += blockDim.x) {
        u32 w = i / of.rows, c = i % of.rows;
        weights[at + i] = w < queries && c < rows ? x[w * rows + c] : 0.0f;
    }
}

// One step of attention, backwards; one block a pair. `of_weights`, if given, is the gradient of the weights from the
// memory. Writes the gradient of the raw scores, and adds to those of the first scores, of the Gram matrices, and to
// the factors of the queries in their own gradients.
extern "C" __global__ void attend_pairs_back(
    float* of_raw, float* of_first, float* of_grams, float* radial, const float* weights, const float* raw,
    const float* first, const float* of_weights, const float* upstream, Pairs* pairs, Attending* attending) {
    extern __shared__ float shared[];
    Pairs of = *pairs;
    Attending how = *attending;
    u32 pair = blockIdx.x, item = of.items[pair], context = of.contexts[pair];
    u32 begin = of.query_offsets[item], queries = of.query_offsets[item + 1] - begin;
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context];
    u32 size = of.most * of.rows;
    float *a = shared, *g = a + size, *x = g + size, *products = x + size, *squares = products + of.most;
    float *relevances = squares + of.most, *gains = relevances + of.most;
    size_t at = (size_t)pair * size;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) a[i] = weights[at + i / rows * of.rows + i % rows];
    __syncthreads();
    const float* gram = of.grams + (size_t)context * of.rows * of.rows;
    cosine_parts(a, first + at, of.rows, gram, of.rows, queries, rows, products, squares, g);
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x)
        relevances[w] = products[w] / fmaxf(of.norms[begin + w] * sqrtf(squares[w]), LEAST);
    __syncthreads();
    // Gains of the relevances.
    float up = upstream[pair], score = aggregate(how, relevances, queries);
    u32 largest = queries;
    for (u32 w = queries; w-- > 0;)
        if (relevances[w] == score) largest = w;
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x)
        gains[w] = how.aggregation == 0   ? up / queries
                   : how.aggregation == 1 ? up
                   : how.aggregation == 2 ? (w == largest ? up : 0.0f)
                                          : up * expf(how.factor * (relevances[w] - score));
    __syncthreads();
    // From cosines to weights, first scores, Gram matrices and norms.
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) {
        u32 w = i / rows;
        float length = of.norms[begin + w] * sqrtf(squares[w]);
        float share = gains[w] / fmaxf(length, LEAST), gained = share * products[w];
        float by_context = length > LEAST ? gained / squares[w] : 0.0f;
        size_t place = at + w * of.rows + i % rows;
        float value = share * first[place] - by_context * g[i];
        if (of_weights) value += of_weights[place];
        g[i] = value;
        of_first[place] += share * a[i];
    }
    __syncthreads();
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x) {
        float norm = of.norms[begin + w], length = norm * sqrtf(squares[w]);
        float gained = gains[w] / fmaxf(length, LEAST) * products[w];
        radial[(size_t)pair * of.most + w] -= length > LEAST ? gained / (norm * norm) : 0.0f;
        // Gram matrices are symmetric: their gradient counts twice.
        products[w] = length > LEAST ? -gained / squares[w] : 0.0f;
    }
    __syncthreads();
    float* of_gram = of_grams + (size_t)pair * of.rows * of.rows;
    for (u32 i = threadIdx.x; i < rows * rows; i += blockDim.x) {
        u32 k = i / rows, c = i % rows;
        float sum = 0;
        for (u32 w = 0; w < queries; w++) sum += products[w] * a[w * rows + c] * a[w * rows + k];
        of_gram[k * of.rows + c] += sum;
    }
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
            float score = raw[at + w * of.rows + c];
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
            if (how.clips && !(raw[at + w * of.rows + c] > 0)) gradient *= 0.1f;
            g[w * rows + c] = gradient;
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < of.most * of.rows; i += blockDim.x) {
        u32 w = i / of.rows, c = i % of.rows;
        of_raw[at + i] = w < queries && c < rows ? g[w * rows + c] : 0.0f;
    }
}

// Refines queries: `layers` is [row][2 dim], the proposal and the gate before their functions, and keeps their values.
// With `norms`, queries are scaled to unit norm, and the norms kept. One block a row.
extern "C" __global__ void refine(float* refined, float* layers, const float* queries, float* norms, u32 dim) {
    size_t row = blockIdx.x;
    float squares = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float proposal = tanhf(layers[row * 2 * dim + at]);
        float gate = 1.0f / (1.0f + expf(-layers[row * 2 * dim + dim + at]));
        layers[row * 2 * dim + at] = proposal;
        layers[row * 2 * dim + dim + at] = gate;
        float value = gate * queries[row * dim + at] + (1.0f - gate) * proposal;
        refined[row * dim + at] = value;
        squares += value * value;
    }
    if (!norms) return;
    float norm = sqrtf(block_sum(squares)), scale = 1.0f / (norm + 1e-8f);
    if (threadIdx.x == 0) norms[row] = norm;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) refined[row * dim + at] *= scale;
}

// The same backwards: from the gradient of refined queries to those of the layers, which replace their values, and of
// the queries before, which replace `gradient`.
extern "C" __global__ void refine_back(
    float* gradient, float* layers, const float* refined, const float* queries, const float* norms, u32 dim) {
    size_t row = blockIdx.x;
    float along = 0, scale = 1.0f;
    if (norms) {
        for (u32 at = threadIdx.x; at < dim; at += blockDim.x) along += refined[row * dim + at] * gradient[row * dim + at];
        scale = 1.0f / (norms[row] + 1e-8f);
        along = block_sum(along);
        along = norms[row] > 0 ? along / (scale * norms[row]) : 0.0f;
    }
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float up = gradient[row * dim + at];
        if (norms) up = (up - refined[row * dim + at] * along) * scale;
        float proposal = layers[row * 2 * dim + at], gate = layers[row * 2 * dim + dim + at];
        float query = queries[row * dim + at];
        layers[row * 2 * dim + at] = up * (1.0f - gate) * (1.0f - proposal * proposal);
        layers[row * 2 * dim + dim + at] = up * (query - proposal) * gate * (1.0f - gate);
        gradient[row * dim + at] = up * gate;
    }
}

// Adds every query times its factor, for the queries of pairs: rows of `gradient` and `queries` are padded.
extern "C" __global__ void add_radial(float* gradient, const float* queries, const float* radial, u32 dim) {
    size_t row = blockIdx.x;
    float factor = radial[row];
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) gradient[row * dim + at] += factor * queries[row * dim + at];
}

// Four numbers of a row that has `left` of them from here on, then zeros. Rows of a multiple of four numbers are read at
// once.
__device__ float4 four_of(const float* from, u32 left, bool at_once) {
    if (at_once) return *(const float4*)from;
    return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
}

// Products with the rows of contexts: `out[pair][query][row] = left[pair][query] * table[context][row]`, of `dim` numbers
// each. A warp has 3 rows and 12 queries at a time, and its threads share the numbers.
extern "C" __global__ void __launch_bounds__(384) multiply_by_rows(
    float* out, const float* __restrict__ left, const float* __restrict__ table, const Pairs* pairs, u32 dim) {
    const u32 QUERIES = 12, ROWS = 3;
    Pairs of = *pairs;
    u32 lane = threadIdx.x % 32, pair = blockIdx.x, row = (blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32) * ROWS;
    if (row >= of.rows) return;
    bool whole = dim % 4 == 0;
    const float *row_of[ROWS], *own = left + (size_t)pair * of.most * dim;
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) row_of[r] = table + ((size_t)of.contexts[pair] * of.rows + min(row + r, of.rows - 1)) * dim;
    for (u32 first = 0; first < of.most; first += QUERIES) {
        float sums[QUERIES][ROWS] = {};
        for (u32 at = 4 * lane; at < dim; at += 128) {
            float4 b[ROWS];
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) b[r] = four_of(row_of[r] + at, dim - at, whole);
#pragma unroll
            for (u32 w = 0; w < QUERIES; w++) {
                float4 a = four_of(own + (size_t)min(first + w, of.most - 1) * dim + at, dim - at, whole);
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
                if (lane == (w * ROWS + r) % 32 && first + w < of.most && row + r < of.rows)
                    out[((size_t)pair * of.most + first + w) * of.rows + row + r] = sum;
            }
    }
}

// Sums of the rows of contexts: `out[pair][query] = keep * out[pair][query] + sum of left[pair][query][row] *
// table[context][row]`, of `columns` numbers each. A thread has four columns, and 12 queries at a time.
extern "C" __global__ void __launch_bounds__(128) add_rows_of_contexts(
    float* out, const float* __restrict__ left, const float* __restrict__ table, const Pairs* pairs, u32 columns, float keep) {
    const u32 QUERIES = 12;
    extern __shared__ float shared[];
    Pairs of = *pairs;
    u32 column = 4 * (blockIdx.x * blockDim.x + threadIdx.x), pair = blockIdx.y;
    bool whole = columns % 4 == 0;
    const float* rows = table + (size_t)of.contexts[pair] * of.rows * columns + column;
    for (u32 first = 0; first < of.most; first += QUERIES) {
        __syncthreads();
        for (u32 at = threadIdx.x; at < of.rows * QUERIES; at += blockDim.x) {
            u32 w = first + at % QUERIES;
            shared[at] = w < of.most ? left[((size_t)pair * of.most + w) * of.rows + at / QUERIES] : 0.0f;
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
            if (first + w >= of.most) continue;
            float* to = out + ((size_t)pair * of.most + first + w) * columns + column;
            if (whole) {
                float4 old = keep == 0 ? make_float4(0, 0, 0, 0) : *(const float4*)to;
                *(float4*)to = make_float4(
                    keep * old.x + sums[w][0], keep * old.y + sums[w][1], keep * old.z + sums[w][2], keep * old.w + sums[w][3]);
            } else {
                for (u32 i = 0; i < 4 && column + i < columns; i++) to[i] = (keep == 0 ? 0.0f : keep * to[i]) + sums[w][i];
            }
        }
    }
}

// Some pairs of a context, `members[from..to]`. The first of a context's pieces is added to what the context has, and others
// have places of their own.
struct Piece {
    u32 context, from, to;
    u32 place;  // 0: the context, else the number of a place, from 1
};

// Adds products of pairs to what their contexts have: `out[context][row][column]` gets the sum of
// `left[pair][query][row] * right[pair][query][column]` over the pairs of the context, in their order, and their queries.
// A block has a piece, 12 rows and 128 columns, and a thread four of these; every warp has some of the queries.
extern "C" __global__ void __launch_bounds__(128) add_to_contexts(
    float* out, float* places, const float* __restrict__ left, const float* __restrict__ right, const Piece* pieces,
    const u32* members, const Pairs* pairs, u32 columns) {
    const u32 ROWS = 12, WARPS = 4, COLUMNS = 128;
    extern __shared__ float shared[];
    __shared__ u32 pair_of[32], ends[32];
    __shared__ float parts[WARPS][ROWS][COLUMNS];
    Pairs of = *pairs;
    Piece piece = pieces[blockIdx.z];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, some = piece.to - piece.from;
    u32 column = blockIdx.x * COLUMNS + 4 * lane, row = blockIdx.y * ROWS;
    bool whole = columns % 4 == 0;
    // The place of each query among those of all pairs.
    u32* lines = (u32*)(shared + ROWS * some * of.most);
    if (warp == 0) {
        u32 pair = lane < some ? members[piece.from + lane] : 0, item = of.items[pair];
        u32 end = lane < some ? of.query_offsets[item + 1] - of.query_offsets[item] : 0;
        for (u32 step = 1; step < 32; step *= 2) {
            u32 before = __shfl_up_sync(~0u, end, step);
            if (lane >= step) end += before;
        }
        pair_of[lane] = pair, ends[lane] = end;
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < some * of.most; at += blockDim.x) {
        u32 member = at / of.most, query = at % of.most, first = member ? ends[member - 1] : 0;
        if (first + query < ends[member]) lines[first + query] = pair_of[member] * of.most + query;
    }
    __syncthreads();
    u32 queries = ends[some - 1];
#pragma unroll 4
    for (u32 at = threadIdx.x; at < queries * ROWS; at += blockDim.x) {
        u32 r = row + at % ROWS;
        shared[at] = r < of.rows ? left[(size_t)lines[at / ROWS] * of.rows + r] : 0.0f;
    }
    __syncthreads();
    float sums[ROWS][4] = {};
    if (column < columns) {
#pragma unroll 4
        for (u32 w = warp; w < queries; w += WARPS) {
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
    float* to = piece.place ? places : out;
    size_t place = piece.place ? piece.place - 1 : piece.context;
    for (u32 i = 0; i < ROWS && row + i < of.rows; i++) {
        float sum = 0;
#pragma unroll
        for (u32 part = 0; part < WARPS; part++) sum += parts[part][i][threadIdx.x];
        float* at = to + (place * of.rows + row + i) * columns + column;
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
