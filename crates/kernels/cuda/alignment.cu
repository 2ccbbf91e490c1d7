// How the words of captions differ from what they attend to in images, and captions from images as a whole. Rows of pairs
// are their words, one pair after the other, and then a row for the whole of each pair.

// The weights of the words of some pairs; one block a pair.
extern "C" __global__ void align_pairs(float* weights, const float* raw, const Pairs* pairs, const Attending* attending) {
    extern __shared__ float shared[];
    Pairs of = *pairs;
    u32 pair = blockIdx.x, line = of.firsts[pair], queries = of.ends[pair] - line, context = of.contexts[pair];
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context];
    size_t at = (size_t)line * of.rows;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) shared[i] = raw[at + i / rows * of.rows + i % rows];
    __syncthreads();
    attend(*attending, shared, queries, rows);
    for (u32 i = threadIdx.x; i < queries * of.rows; i += blockDim.x) {
        u32 c = i % of.rows;
        weights[at + i] = c < rows ? shared[i / of.rows * rows + c] : 0.0f;
    }
}

// From the gradient of the weights to that of the raw scores, in place; one block a pair.
extern "C" __global__ void align_pairs_back(
    float* gradient, const float* weights, const float* raw, const Pairs* pairs, const Attending* attending) {
    extern __shared__ float shared[];
    Pairs of = *pairs;
    u32 pair = blockIdx.x, line = of.firsts[pair], queries = of.ends[pair] - line, context = of.contexts[pair];
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context], size = of.most * of.rows;
    float *g = shared, *a = g + size, *x = a + size;
    size_t at = (size_t)line * of.rows;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) {
        size_t place = at + i / rows * of.rows + i % rows;
        g[i] = gradient[place], a[i] = weights[place];
    }
    __syncthreads();
    attend_back(*attending, g, a, x, raw + at, of.rows, queries, rows);
    for (u32 i = threadIdx.x; i < queries * of.rows; i += blockDim.x) {
        u32 c = i % of.rows;
        gradient[at + i] = c < rows ? g[i / of.rows * rows + c] : 0.0f;
    }
}

// Replaces the products of some words and some images, [word][image][rows], by weights; one block an image (x) and a
// caption (y).
extern "C" __global__ void align_all(
    float* scores, const u32* word_offsets, const u32* image_offsets, u32 most, const Attending* attending) {
    extern __shared__ float shared[];
    u32 first = word_offsets[blockIdx.y] - word_offsets[0], queries = word_offsets[blockIdx.y + 1] - word_offsets[0] - first;
    u32 rows = image_offsets[blockIdx.x + 1] - image_offsets[blockIdx.x];
    size_t stride = (size_t)gridDim.x * most;
    scores += first * stride + (size_t)blockIdx.x * most;
    for (u32 i = threadIdx.x; i < queries * rows; i += blockDim.x) shared[i] = scores[i / rows * stride + i % rows];
    __syncthreads();
    attend(*attending, shared, queries, rows);
    for (u32 i = threadIdx.x; i < queries * most; i += blockDim.x) {
        u32 c = i % most;
        scores[i / most * stride + c] = c < rows ? shared[i / most * rows + c] : 0.0f;
    }
}

// The squares of `other - own`, where the other row is scaled to unit norm if it `scales`. Keeps differences and the norm
// where they are wanted.
__device__ void differ_rows(
    float* squares, float* differences, float* norm, const float* other, const float* own, u32 dim, bool scales) {
    float scale = 1.0f;
    if (scales) {
        float sum = 0;
        for (u32 at = threadIdx.x; at < dim; at += blockDim.x) sum += other[at] * other[at];
        float length = sqrtf(block_sum(sum));
        if (norm && threadIdx.x == 0) *norm = length;
        scale = 1.0f / (length + 1e-8f);
    }
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float difference = other[at] * scale - own[at];
        if (differences) differences[at] = difference;
        squares[at] = difference * difference;
    }
}

// The differences of some pairs; one block a row, of which the first `lines` are words. `texts_of` has the row of a caption
// for each, and `images_of` that of an image for each pair.
extern "C" __global__ void differ_pairs(
    float* squares, float* differences, float* norms, const float* attended, const float* images, const float* texts,
    const u32* texts_of, const u32* images_of, u32 lines, u32 dim) {
    size_t row = blockIdx.x;
    bool word = row < lines;
    const float* other = word ? attended + row * dim : images + (size_t)images_of[row - lines] * dim;
    differ_rows(
        squares + row * dim, differences ? differences + row * dim : 0, norms && word ? norms + row : 0, other,
        texts + (size_t)texts_of[row] * dim, dim, word);
}

// Replaces the gradients of squares, `slopes`, by those of what words attend to and of the wholes of images; writes those of
// the rows of captions.
extern "C" __global__ void differ_pairs_back(
    float* of_texts, float* slopes, const float* differences, const float* norms, const float* texts, const u32* texts_of,
    u32 lines, u32 dim) {
    size_t row = blockIdx.x, first = row * dim;
    const float* own = texts + (size_t)texts_of[row] * dim;
    float norm = 0, scale = 1.0f, along = 0;
    if (row < lines) {
        for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
            along += (differences[first + at] + own[at]) * 2.0f * differences[first + at] * slopes[first + at];
        norm = norms[row], scale = 1.0f / (norm + 1e-8f);
        along = block_sum(along);
        along = norm > 0 ? along / norm : 0.0f;
    }
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float slope = 2.0f * differences[first + at] * slopes[first + at];
        of_texts[first + at] = -slope;
        slopes[first + at] = slope * scale - (differences[first + at] + own[at]) * along;
    }
}

// Vectors with their biases, each in its place; one block a row, of which the first `lines` are words.
extern "C" __global__ void place_vectors(
    float* out, const float* vectors, const float* of_words, const float* of_wholes, const u32* places, u32 lines, u32 size) {
    size_t row = blockIdx.x;
    const float* bias = row < lines ? of_words : of_wholes;
    for (u32 at = threadIdx.x; at < size; at += blockDim.x)
        out[(size_t)places[row] * size + at] = vectors[row * size + at] + bias[at];
}

// Replaces what some words attend to in some images, [image][word], by the squares of the differences; one block a row.
extern "C" __global__ void differ_all(float* attended, const float* texts, u32 words, u32 dim) {
    float* row = attended + (size_t)blockIdx.x * dim;
    differ_rows(row, 0, 0, row, texts + (size_t)(blockIdx.x % words) * dim, dim, true);
}

// The squares of the differences of wholes, [image][caption]; one block a row.
extern "C" __global__ void differ_wholes(float* squares, const float* images, const float* texts, u32 captions, u32 dim) {
    const float *image = images + (size_t)(blockIdx.x / captions) * dim, *text = texts + (size_t)(blockIdx.x % captions) * dim;
    differ_rows(squares + (size_t)blockIdx.x * dim, 0, 0, image, text, dim, false);
}

// Vectors of words, [image][word], and of wholes, [image][caption], with their biases and at unit norm: of every image and
// caption the whole, then the words. `sources` has the word of each vector of an image or, from `words` on, the caption.
extern "C" __global__ void place_all(
    float* out, const float* words_of, const float* wholes_of, const float* word_bias, const float* whole_bias,
    const u32* sources, u32 words, u32 captions, u32 size) {
    u32 nodes = words + captions, image = blockIdx.x / nodes, source = sources[blockIdx.x % nodes];
    bool word = source < words;
    const float *bias = word ? word_bias : whole_bias, *from;
    from = word ? words_of + ((size_t)image * words + source) * size
                : wholes_of + ((size_t)image * captions + source - words) * size;
    float sum = 0;
    for (u32 at = threadIdx.x; at < size; at += blockDim.x) sum += (from[at] + bias[at]) * (from[at] + bias[at]);
    float scale = 1.0f / (sqrtf(block_sum(sum)) + 1e-8f);
    for (u32 at = threadIdx.x; at < size; at += blockDim.x)
        out[(size_t)blockIdx.x * size + at] = (from[at] + bias[at]) * scale;
}

// Writes a tile of scores, one row a block (x), to its place among rows of `columns`.
extern "C" __global__ void place_tile(float* out, const float* tile, u32 columns, u32 width) {
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at < width) out[(size_t)blockIdx.x * columns + at] = tile[(size_t)blockIdx.x * width + at];
}
