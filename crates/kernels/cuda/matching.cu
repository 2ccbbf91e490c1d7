// Scores of some pairs of a context and an item of queries, and their gradients. Buffers of pairs have a line for each
// query, one pair after the other. Contexts are padded: [context][rows at most][...].

// The rows of every item but for the first ones that are `skipped`, then zeros.
extern "C" __global__ void pad_items(float* out, const float* rows, const u32* offsets, u32 skipped, u32 most, u32 dim) {
    u32 item = blockIdx.x / most, w = blockIdx.x % most, first = offsets[item] + skipped, count = offsets[item + 1] - first;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
        out[(size_t)blockIdx.x * dim + at] = w < count ? rows[(size_t)(first + w) * dim + at] : 0.0f;
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
    const u32* firsts;           // line of each pair
    const u32* ends;             // of the lines of each pair
    const u32* words;            // query of each line
    const u32* context_offsets;  // of all contexts
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
    u32 pair = blockIdx.x, line = of.firsts[pair], queries = of.ends[pair] - line, context = of.contexts[pair];
    const float* norms = of.norms + of.words[line];
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context];
    double* overlaps = (double*)shared;
    float *x = (float*)(overlaps + of.most * of.rows), *products = x + of.most * of.rows, *squares = products + of.most;
    size_t at = (size_t)line * of.rows;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) x[i] = raw[at + i / rows * of.rows + i % rows];
    __syncthreads();
    attend(how, x, queries, rows);
    const float* gram = of.grams + (size_t)context * of.rows * of.rows;
    cosine_parts(x, first + at, of.rows, gram, of.rows, queries, rows, products, squares, overlaps);
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x)
        products[w] = products[w] / fmaxf(norms[w] * sqrtf(squares[w]), LEAST);
    __syncthreads();
    float score = aggregate(how, products, queries);
    if (threadIdx.x == 0) scores[pair] += score;
    for (u32 i = threadIdx.x; i < queries * of.rows; i += blockDim.x) {
        u32 c = i % of.rows;
        weights[at + i] = c < rows ? x[i / of.rows * rows + c] : 0.0f;
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
    u32 pair = blockIdx.x, line = of.firsts[pair], queries = of.ends[pair] - line, context = of.contexts[pair];
    const float* norms = of.norms + of.words[line];
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context];
    u32 size = of.most * of.rows;
    double* overlaps = (double*)shared;
    float *a = (float*)(overlaps + size), *g = a + size, *x = g + size, *products = x + size, *squares = products + of.most;
    float *relevances = squares + of.most, *gains = relevances + of.most;
    size_t at = (size_t)line * of.rows;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) a[i] = weights[at + i / rows * of.rows + i % rows];
    __syncthreads();
    const float* gram = of.grams + (size_t)context * of.rows * of.rows;
    cosine_parts(a, first + at, of.rows, gram, of.rows, queries, rows, products, squares, overlaps);
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x)
        relevances[w] = products[w] / fmaxf(norms[w] * sqrtf(squares[w]), LEAST);
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
        float length = norms[w] * sqrtf(squares[w]);
        float share = gains[w] / fmaxf(length, LEAST), gained = share * products[w];
        float by_context = length > LEAST ? gained / squares[w] : 0.0f;
        size_t place = at + w * of.rows + i % rows;
        float value = share * first[place] - by_context * (float)overlaps[i];
        if (of_weights) value += of_weights[place];
        g[i] = value;
        of_first[place] += share * a[i];
    }
    __syncthreads();
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x) {
        float norm = norms[w], length = norm * sqrtf(squares[w]);
        float gained = gains[w] / fmaxf(length, LEAST) * products[w];
        radial[line + w] -= length > LEAST ? gained / (norm * norm) : 0.0f;
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
    attend_back(how, g, a, x, raw + at, of.rows, queries, rows);
    for (u32 i = threadIdx.x; i < queries * of.rows; i += blockDim.x) {
        u32 c = i % of.rows;
        of_raw[at + i] = c < rows ? g[i / of.rows * rows + c] : 0.0f;
    }
}

// Refines queries: `layers` is [row][2 dim], the proposal and the gate before biases and functions, and keeps their values.
// With `norms`, queries are scaled to unit norm, and the norms kept. One block a row, and `each` rows have the biases of one
// member.
extern "C" __global__ void refine(
    float* refined, float* layers, const float* bias, const float* queries, float* norms, u32 each, u32 dim) {
    size_t row = blockIdx.x;
    bias += (size_t)(blockIdx.x / each) * 2 * dim;
    float squares = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float proposal = tanhf(layers[row * 2 * dim + at] + bias[at]);
        float gate = 1.0f / (1.0f + expf(-(layers[row * 2 * dim + dim + at] + bias[dim + at])));
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

// Adds every query times its factor, for the lines of pairs.
extern "C" __global__ void add_radial(float* gradient, const float* queries, const float* radial, u32 dim) {
    size_t row = blockIdx.x;
    float factor = radial[row];
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) gradient[row * dim + at] += factor * queries[row * dim + at];
}

// Sets some rows to zero.
extern "C" __global__ void clear_rows(float* out, const u32* rows, u32 dim) {
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) out[(size_t)rows[blockIdx.x] * dim + at] = 0.0f;
}

// Adds numbers that stand elsewhere.
extern "C" __global__ void add_picked(float* out, const float* in, const u32* places, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] += in[places[at]];
}
