// Words that no region is above a threshold for, and those that some are. Names are those of `cross::thresholds`. The
// products of a pair, a row for every word, are `stride` numbers apart.

// Adds the third part of every word: the mean of its products by attention weights, which are left in `x`.
__device__ void add_regular(
    const Attending& how, float* parts, float* x, const float* raw, size_t stride, u32 words, u32 rows) {
    u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (u32 i = threadIdx.x; i < words * rows; i += blockDim.x) x[i] = raw[i / rows * stride + i % rows];
    __syncthreads();
    attend(how, x, words, rows);
    for (u32 w = threadIdx.x / 32; w < words; w += warps) {
        float sum = 0;
        for (u32 c = lane; c < rows; c += 32) sum += x[w * rows + c] * raw[w * stride + c];
        sum = warp_sum(sum);
        if (lane == 0) parts[w] += sum;
    }
    __syncthreads();
}

// The largest product of every word and, in `a`, the shares of the regions above the threshold.
__device__ void share_above(
    const Attending& how, float* tops, float* a, const float* raw, size_t stride, u32 words, u32 rows, float threshold) {
    u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (u32 w = threadIdx.x / 32; w < words; w += warps) {
        const float* row = raw + w * stride;
        float top = row[0], sum = 0;
        for (u32 c = lane; c < rows; c += 32) top = fmaxf(top, row[c]);
        top = warp_max(top);
        for (u32 c = lane; c < rows; c += 32)
            sum += a[w * rows + c] = row[c] > threshold ? expf(how.temperature * (row[c] - top)) : 0.0f;
        // The largest has weight 1 before, if any is above the threshold.
        float scale = 1.0f / fmaxf(warp_sum(sum), 1.17549435e-38f);
        for (u32 c = lane; c < rows; c += 32) a[w * rows + c] *= scale;
        if (lane == 0) tops[w] = top;
    }
    __syncthreads();
}

// Adds the second part of every word: its product with the mean of the regions above the threshold, over the norm of that.
__device__ void add_above(
    float* parts, const float* a, const float* raw, size_t stride, const float* gram, u32 gram_stride, u32 words, u32 rows,
    float* products, float* squares, double* overlaps) {
    cosine_parts(a, raw, (u32)stride, gram, gram_stride, words, rows, products, squares, overlaps);
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) parts[w] += products[w] / fmaxf(sqrtf(squares[w]), LEAST);
    __syncthreads();
}

// Whether a word is penalised: because no region is above the threshold or, with the likeness of words, because those like
// it are below.
__device__ bool is_penalised(const float* tops, const float* like, u32 like_stride, u32 words, u32 w, float threshold) {
    if (!like) return tops[w] < threshold;
    float smoothed = 0;
    for (u32 other = 0; other < words; other++) smoothed += like[(size_t)w * like_stride + other] * (tops[other] - threshold);
    return smoothed < 0;
}

// The score of a caption, in the first warp.
__device__ float penalised_mean(
    const float* parts, const float* tops, const float* like, u32 like_stride, u32 words, float threshold) {
    double sum = 0;
    if (threadIdx.x < 32)
        for (u32 w = threadIdx.x; w < words; w += 32) {
            bool penalised = is_penalised(tops, like, like_stride, words, w, threshold);
            sum += (double)(penalised ? tops[w] - threshold : 0.0f) + parts[w];
        }
    return (float)(warp_sum_double(sum) / words);
}

// How like the words of captions are, in place of their products, [caption][most][most]; one block a caption.
extern "C" __global__ void likeness(float* like, const u32* offsets, u32 most) {
    u32 words = offsets[blockIdx.x + 1] - offsets[blockIdx.x], lane = threadIdx.x % 32;
    like += (size_t)blockIdx.x * most * most;
    for (u32 w = threadIdx.x / 32; w < words; w += blockDim.x / 32) {
        float *row = like + (size_t)w * most, largest = row[0], sum = 0;
        for (u32 at = lane; at < words; at += 32) largest = fmaxf(largest, row[at]);
        largest = warp_max(largest);
        for (u32 at = lane; at < words; at += 32) sum += row[at] = expf(5.0f * (row[at] - largest));
        sum = warp_sum(sum);
        for (u32 at = lane; at < words; at += 32) row[at] /= sum;
    }
}

// Scores of some pairs; one block a pair, with a threshold of its own. `like` is [caption][most][most], if given.
extern "C" __global__ void threshold_pairs(
    float* scores, const float* raw, const float* thresholds, const float* like, const u32* captions, const Pairs* pairs,
    const Attending* attending) {
    extern __shared__ float shared[];
    Pairs of = *pairs;
    Attending how = *attending;
    u32 pair = blockIdx.x, line = of.firsts[pair], words = of.ends[pair] - line, context = of.contexts[pair];
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context], size = of.most * of.rows;
    double* overlaps = (double*)shared;
    float *x = (float*)(overlaps + size), *products = x + size, *squares = products + of.most, *parts = squares + of.most;
    float *tops = parts + of.most, threshold = thresholds[pair];
    raw += (size_t)line * of.rows;
    const float* gram = of.grams + (size_t)context * of.rows * of.rows;
    if (like) like += (size_t)captions[pair] * of.most * of.most;
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) parts[w] = 0;
    __syncthreads();
    add_regular(how, parts, x, raw, of.rows, words, rows);
    share_above(how, tops, x, raw, of.rows, words, rows, threshold);
    add_above(parts, x, raw, of.rows, gram, of.rows, words, rows, products, squares, overlaps);
    float score = penalised_mean(parts, tops, like, of.most, words, threshold);
    if (threadIdx.x == 0) scores[pair] = score;
}

// The same, backwards: writes the gradients of the products, and of the Gram matrices of every pair.
extern "C" __global__ void threshold_pairs_back(
    float* of_raw, float* of_grams, const float* raw, const float* thresholds, const float* like, const u32* captions,
    const float* upstream, const Pairs* pairs, const Attending* attending) {
    extern __shared__ float shared[];
    Pairs of = *pairs;
    Attending how = *attending;
    u32 pair = blockIdx.x, line = of.firsts[pair], words = of.ends[pair] - line, context = of.contexts[pair];
    u32 rows = of.context_offsets[context + 1] - of.context_offsets[context], size = of.most * of.rows;
    u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double* overlaps = (double*)shared;
    float *a = (float*)(overlaps + size), *g = a + size, *x = g + size, *products = x + size, *squares = products + of.most;
    float *parts = squares + of.most, *tops = parts + of.most;
    float threshold = thresholds[pair], gain = upstream[pair] / words;
    raw += (size_t)line * of.rows, of_raw += (size_t)line * of.rows, of_grams += (size_t)pair * of.rows * of.rows;
    const float* gram = of.grams + (size_t)context * of.rows * of.rows;
    if (like) like += (size_t)captions[pair] * of.most * of.most;
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) parts[w] = 0;
    __syncthreads();
    // The third part: products by weights.
    add_regular(how, parts, a, raw, of.rows, words, rows);
    for (u32 i = threadIdx.x; i < words * rows; i += blockDim.x) g[i] = gain * raw[i / rows * of.rows + i % rows];
    __syncthreads();
    attend_back(how, g, a, x, raw, of.rows, words, rows);
    for (u32 i = threadIdx.x; i < words * of.rows; i += blockDim.x) {
        u32 w = i / of.rows, c = i % of.rows;
        of_raw[i] = c < rows ? g[w * rows + c] + gain * a[w * rows + c] : 0.0f;
    }
    __syncthreads();
    // The second part: products by shares, over a norm.
    share_above(how, tops, a, raw, of.rows, words, rows, threshold);
    add_above(parts, a, raw, of.rows, gram, of.rows, words, rows, products, squares, overlaps);
    for (u32 w = threadIdx.x / 32; w < words; w += warps) {
        float norm = sqrtf(squares[w]), share = gain / fmaxf(norm, LEAST);
        float radial = norm > LEAST ? share * products[w] / squares[w] : 0.0f, along = 0;
        for (u32 c = lane; c < rows; c += 32) {
            g[w * rows + c] = share * raw[w * of.rows + c] - radial * (float)overlaps[w * rows + c];
            along += a[w * rows + c] * g[w * rows + c];
        }
        along = warp_sum(along);
        // The first part: the first of the largest products.
        bool penalised = is_penalised(tops, like, of.most, words, w, threshold);
        u32 first = rows;
        for (u32 c = lane; c < rows; c += 32)
            if (raw[w * of.rows + c] == tops[w]) first = min(first, c);
        for (int step = 16; step > 0; step /= 2) first = min(first, __shfl_xor_sync(~0u, first, step));
        for (u32 c = lane; c < rows; c += 32) {
            float through = how.temperature * a[w * rows + c] * (g[w * rows + c] - along);
            of_raw[w * of.rows + c] += through + share * a[w * rows + c] + (penalised && c == first ? gain : 0.0f);
        }
        // Gram matrices are symmetric: their gradient counts twice.
        if (lane == 0) parts[w] = -radial;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < of.rows * of.rows; i += blockDim.x) {
        u32 k = i / of.rows, c = i % of.rows;
        float sum = 0;
        if (k < rows && c < rows)
            for (u32 w = 0; w < words; w++) sum += parts[w] * a[w * rows + c] * a[w * rows + k];
        of_grams[i] = sum;
    }
}

// Products of some words and some images, [word][image][rows], and what describes them.
struct Tile {
    const float* products;
    const u32* word_offsets;   // of captions
    const u32* image_offsets;  // of the regions of images
    const float* grams;        // of images, [image][rows][rows]
    u32 images;
    u32 rows;  // of an image at most
};

// Scores of all pairs, images by captions in rows of `columns`; one block an image (x) and a caption (y).
extern "C" __global__ void threshold_all(
    float* scores, const Tile* tile, const float* like, float threshold, u32 most, u32 columns, const Attending* attending) {
    extern __shared__ float shared[];
    Tile of = *tile;
    Attending how = *attending;
    u32 image = blockIdx.x, caption = blockIdx.y, first = of.word_offsets[caption] - of.word_offsets[0];
    u32 words = of.word_offsets[caption + 1] - of.word_offsets[0] - first;
    u32 rows = of.image_offsets[image + 1] - of.image_offsets[image], size = most * of.rows;
    size_t stride = (size_t)of.images * of.rows;
    const float* raw = of.products + first * stride + (size_t)image * of.rows;
    double* overlaps = (double*)shared;
    float *x = (float*)(overlaps + size), *products = x + size, *squares = products + most, *parts = squares + most;
    float* tops = parts + most;
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) parts[w] = 0;
    __syncthreads();
    add_regular(how, parts, x, raw, stride, words, rows);
    share_above(how, tops, x, raw, stride, words, rows, threshold);
    const float* gram = of.grams + (size_t)image * of.rows * of.rows;
    add_above(parts, x, raw, stride, gram, of.rows, words, rows, products, squares, overlaps);
    float score = penalised_mean(parts, tops, like + (size_t)caption * most * most, most, words, threshold);
    if (threadIdx.x == 0) scores[(size_t)image * columns + caption] = score;
}

// The third part and the largest product of every word, [image][word]; one block an image (x) and a caption (y).
extern "C" __global__ void regular_all(float* parts, float* tops, const Tile* tile, u32 all_words, const Attending* attending) {
    extern __shared__ float shared[];
    Tile of = *tile;
    u32 image = blockIdx.x, first = of.word_offsets[blockIdx.y], words = of.word_offsets[blockIdx.y + 1] - first;
    u32 rows = of.image_offsets[image + 1] - of.image_offsets[image];
    size_t stride = (size_t)of.images * of.rows, place = (size_t)image * all_words + first;
    const float* raw = of.products + first * stride + (size_t)image * of.rows;
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) parts[place + w] = 0;
    __syncthreads();
    add_regular(*attending, parts + place, shared, raw, stride, words, rows);
    share_above(*attending, tops + place, shared, raw, stride, words, rows, 0.0f);
}

// What is known of a batch on the way through its captions.
struct Mining {
    double thresholds[2];  // of training and of evaluation
    u64 count;             // words of correctly ranked captions
};

// The scores of all images with a caption in training, where the threshold stands now; one block an image.
extern "C" __global__ void threshold_column(
    float* scores, float* thresholds, const float* parts, const Tile* tile, const Mining* mining, u32 caption, u32 captions,
    u32 all_words, u32 most, const Attending* attending) {
    extern __shared__ float shared[];
    Tile of = *tile;
    u32 image = blockIdx.x, first = of.word_offsets[caption], words = of.word_offsets[caption + 1] - first;
    u32 rows = of.image_offsets[image + 1] - of.image_offsets[image], size = most * of.rows;
    size_t stride = (size_t)of.images * of.rows;
    const float* raw = of.products + first * stride + (size_t)image * of.rows;
    double* overlaps = (double*)shared;
    float *x = (float*)(overlaps + size), *products = x + size, *squares = products + most, *own = squares + most;
    float *tops = own + most, threshold = (float)mining->thresholds[0];
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) own[w] = parts[(size_t)image * all_words + first + w];
    __syncthreads();
    share_above(*attending, tops, x, raw, stride, words, rows, threshold);
    const float* gram = of.grams + (size_t)image * of.rows * of.rows;
    add_above(own, x, raw, stride, gram, of.rows, words, rows, products, squares, overlaps);
    float score = penalised_mean(own, tops, 0, 0, words, threshold);
    if (threadIdx.x == 0) scores[(size_t)image * captions + caption] = score;
    if (threadIdx.x == 0 && image == 0) thresholds[caption] = threshold;
}

// Mean and unbiased standard deviation, in every thread.
__device__ double2 normal_of(const double* numbers, u32 count) {
    double sum = 0, squares = 0;
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) sum += numbers[at];
    double mean = block_sum_double(sum) / count;
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) squares += (numbers[at] - mean) * (numbers[at] - mean);
    return make_double2(mean, sqrt(block_sum_double(squares) / (count - 1.0)));
}

// Moves the thresholds on after a caption, as `ops::thresholds::mining` does; one block. `matched` and `mismatched` keep the
// largest products of the words of correctly ranked captions.
extern "C" __global__ void move_thresholds(
    Mining* mining, double* matched, double* mismatched, const float* scores, const float* tops, const Tile* tile, u32 caption,
    u32 captions, u32 all_words, double penalty) {
    __shared__ float of_thread[2][128];
    __shared__ u32 at_thread[2][128];
    __shared__ u32 found[2];
    u32 images = tile->images, first = tile->word_offsets[caption], words = tile->word_offsets[caption + 1] - first;
    // The highest and the lowest score; of equal ones the first image counts.
    for (u32 which = 0; which < 2; which++) {
        float sign = which ? -1.0f : 1.0f, most = 0;
        u32 place = ~0u;
        for (u32 image = threadIdx.x; image < images; image += blockDim.x) {
            float score = sign * scores[(size_t)image * captions + caption];
            if (place == ~0u || score > most) most = score, place = image;
        }
        of_thread[which][threadIdx.x] = most, at_thread[which][threadIdx.x] = place;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        float most = of_thread[threadIdx.x][0];
        u32 place = at_thread[threadIdx.x][0];
        for (u32 thread = 1; thread < min(blockDim.x, images); thread++) {
            float score = of_thread[threadIdx.x][thread];
            u32 image = at_thread[threadIdx.x][thread];
            if (score > most || (score == most && image < place)) most = score, place = image;
        }
        found[threadIdx.x] = place;
    }
    __syncthreads();
    u32 count = (u32)mining->count;
    double old[2] = {mining->thresholds[0], mining->thresholds[1]}, next[2] = {old[0], old[1]};
    __syncthreads();
    if (found[0] == caption) {
        for (u32 w = threadIdx.x; w < words; w += blockDim.x) {
            matched[count + w] = tops[(size_t)found[0] * all_words + first + w];
            mismatched[count + w] = tops[(size_t)found[1] * all_words + first + w];
        }
        count += words;
        __syncthreads();
        if (count > 200) {
            double2 up = normal_of(matched, count), down = normal_of(mismatched, count);
            double of_up = up.y * up.y, of_down = down.y * down.y, a = of_up - of_down;
            double b = 2.0 * (up.x * of_down - down.x * of_up);
            double c = down.x * down.x * of_up - up.x * up.x * of_down
                       + 2.0 * of_up * of_down * log(down.y / (penalty * up.y) + 1e-8);
            double discriminant = b * b - 4.0 * a * c;
            double both[2] = {old[0], old[1]};
            if (discriminant > 0) both[0] = (-b + sqrt(discriminant)) / (2.0 * a + 1e-10), both[1] = up.x - 3.0 * up.y;
            for (int at = 0; at < 2; at++) {
                double within = both[at] >= 0.0 && both[at] <= 1.0 ? both[at] : 0.0;
                next[at] = 0.7 * within + (1.0 - 0.7) * old[at];
            }
        }
    }
    if (threadIdx.x == 0) {
        bool few = count < 200;
        mining->thresholds[0] = few ? 0.0 : next[0];
        mining->thresholds[1] = few ? 0.0 : next[1];
        mining->count = count;
    }
}
