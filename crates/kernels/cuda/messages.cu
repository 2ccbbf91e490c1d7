// Messages that the regions of images and the words of captions send each other, for all pairs of some images and some
// captions. Names are those of `cross::messages`. Matrices of a pair are words by regions.

// The images and captions.
struct Exchange {
    const float* products;    // of words and regions, [word][image][rows]
    const float* to_words;    // what regions ask words, laid out as products, and words regions
    const float* to_regions;
    float* of_regions;        // the weights of words for every region, laid out as products, and of regions for every word
    float* of_words;
    const u32* word_offsets;  // of captions
    const u32* image_offsets; // of the regions of images
    const float* text_grams;  // [caption][most][most]
    const float* image_grams; // [image][rows][rows]
    const float* text_affinities;
    const float* image_affinities;
    u32 images, rows;    // rows of an image at most
    u32 captions, most;  // words of a caption at most
    u32 words;           // of all captions
    u32 padded;          // words of a caption that take part in its mean
};

// One pair of them.
struct Exchanged {
    u32 first, words, regions, rows;
    size_t stride, place;

    __device__ Exchanged(const Exchange& of, u32 image, u32 caption) {
        first = of.word_offsets[caption] - of.word_offsets[0];
        words = of.word_offsets[caption + 1] - of.word_offsets[0] - first;
        regions = of.image_offsets[image + 1] - of.image_offsets[image];
        rows = of.rows, stride = (size_t)of.images * of.rows;
        place = first * stride + (size_t)image * of.rows;
    }

    // Where the number of a word and a region is.
    __device__ size_t at(u32 word, u32 region) const { return place + word * stride + region; }
};

// A matrix of `rows` by `columns` numbers in shared memory, possibly turned.
struct Small {
    float* numbers;
    u32 rows, columns, row_apart, column_apart;

    __device__ float& at(u32 row, u32 column) const { return numbers[row * row_apart + column * column_apart]; }
};

// Softmax of every row; one warp a row.
__device__ void softmax_rows(const Small& x) {
    u32 lane = threadIdx.x % 32;
    for (u32 row = threadIdx.x / 32; row < x.rows; row += blockDim.x / 32) {
        float most = x.at(row, 0), sum = 0;
        for (u32 at = lane; at < x.columns; at += 32) most = fmaxf(most, x.at(row, at));
        most = warp_max(most);
        for (u32 at = lane; at < x.columns; at += 32) sum += x.at(row, at) = expf(x.at(row, at) - most);
        float scale = 1.0f / warp_sum(sum);
        for (u32 at = lane; at < x.columns; at += 32) x.at(row, at) *= scale;
    }
    __syncthreads();
}

// The product of a row with a matrix of rows of `apart` numbers, by the threads of a warp.
__device__ void row_product(float* out, const Small& x, u32 row, const float* matrix, u32 apart) {
    for (u32 at = threadIdx.x % 32; at < x.columns; at += 32) {
        float sum = 0;
        for (u32 k = 0; k < x.columns; k++) sum += x.at(row, k) * matrix[(size_t)k * apart + at];
        out[at] = sum;
    }
    __syncwarp();
}

// With `X` the weights and `H` the affinities of what they are of: `softmax(scale X H Xᵀ) X`. A warp has a row, and a
// buffer for as many numbers as rows and columns.
__device__ void mix(const Small& out, const Small& x, const float* affinity, u32 apart, float scale, float* buffers, u32 buffer) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *asked = buffers + warp * buffer, *found = asked + x.columns;
    for (u32 row = warp; row < x.rows; row += blockDim.x / 32) {
        row_product(asked, x, row, affinity, apart);
        float most = -1e30f, sum = 0;
        for (u32 other = lane; other < x.rows; other += 32) {
            float along = 0;
            for (u32 at = 0; at < x.columns; at++) along += asked[at] * x.at(other, at);
            found[other] = along * scale;
            most = fmaxf(most, found[other]);
        }
        most = warp_max(most);
        for (u32 other = lane; other < x.rows; other += 32) sum += found[other] = expf(found[other] - most);
        float share = 1.0f / warp_sum(sum);
        __syncwarp();
        for (u32 at = lane; at < x.columns; at += 32) {
            float mixed = 0;
            for (u32 other = 0; other < x.rows; other++) mixed += found[other] * x.at(other, at);
            out.at(row, at) = mixed * share;
        }
        __syncwarp();
    }
    __syncthreads();
}

// How far each row lets its message in. With a Gram matrix, weights become those of messages at unit norm. Products begin
// at `products`, and those of a row and of a column are so far apart.
__device__ void open_gates(
    float* gates, const Small& x, const float* gram, u32 apart, const float* products, size_t row_apart, size_t column_apart,
    float* buffers, u32 buffer) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float* overlaps = buffers + warp * buffer;
    for (u32 row = warp; row < x.rows; row += blockDim.x / 32) {
        float square = 0, agreed = 0;
        if (gram) row_product(overlaps, x, row, gram, apart);
        for (u32 at = lane; at < x.columns; at += 32) {
            float weight = x.at(row, at);
            if (gram) square += weight * overlaps[at];
            agreed += weight * products[row * row_apart + at * column_apart];
        }
        float scale = gram ? 1.0f / (sqrtf(fmaxf(warp_sum(square), 0.0f)) + 1e-8f) : 1.0f;
        agreed = warp_sum(agreed) * scale;
        if (lane == 0) gates[row] = 1.0f / (1.0f + expf(-agreed));
        if (gram)
            for (u32 at = lane; at < x.columns; at += 32) x.at(row, at) *= scale;
        __syncwarp();
    }
    __syncthreads();
}

// The norm of a mean with these weights, from the Gram matrix; in every thread.
__device__ float mean_norm(const float* weights, u32 count, const float* gram, u32 apart) {
    double sum = 0;
    for (u32 i = threadIdx.x; i < count * count; i += blockDim.x)
        sum += (double)weights[i / count] * weights[i % count] * gram[(size_t)(i / count) * apart + i % count];
    return sqrtf(fmaxf((float)block_sum_double(sum), 0.0f)) + 1e-8f;
}

// The cosine of a mean of words and a mean of regions; in every thread.
__device__ float mean_cosine(
    const Exchange& of, const Exchanged& pair, u32 image, u32 caption, const float* of_words, const float* of_regions) {
    double sum = 0;
    for (u32 i = threadIdx.x; i < pair.words * pair.regions; i += blockDim.x) {
        u32 word = i / pair.regions, region = i % pair.regions;
        sum += (double)of_words[word] * of_regions[region] * of.products[pair.at(word, region)];
    }
    float product = (float)block_sum_double(sum);
    float of_text = mean_norm(of_words, pair.words, of.text_grams + (size_t)caption * of.most * of.most, of.most);
    float of_image = mean_norm(of_regions, pair.regions, of.image_grams + (size_t)image * of.rows * of.rows, of.rows);
    return product / of_text / of_image;
}

// The weights of messages; one block an image (x) and a caption (y). Where messages attend to each other, there are
// affinities. With `gates`, [image][caption][rows] and then [image][word], these are opened; with `scores`, of images by
// captions in rows of `columns`, mean messages are compared, and nothing else is written.
extern "C" __global__ void exchange_messages(const Exchange* exchange, float* gates, float* scores, u32 columns, float scale) {
    extern __shared__ float shared[];
    Exchange of = *exchange;
    u32 image = blockIdx.x, caption = blockIdx.y, size = of.most * of.rows, buffer = of.most + of.rows;
    Exchanged pair(of, image, caption);
    u32 words = pair.words, regions = pair.regions;
    float *a = shared, *b = a + size, *c = b + size, *buffers = c + size;
    for (u32 i = threadIdx.x; i < words * regions; i += blockDim.x) {
        size_t place = pair.at(i / regions, i % regions);
        a[i] = scale * of.to_words[place], b[i] = scale * of.to_regions[place];
    }
    __syncthreads();
    Small of_regions = {a, regions, words, 1, regions}, of_words = {b, words, regions, regions, 1};
    softmax_rows(of_regions);
    softmax_rows(of_words);
    const float *of_text = of.text_affinities + (size_t)caption * of.most * of.most, *of_image;
    of_image = of.image_affinities + (size_t)image * of.rows * of.rows;
    if (of.text_affinities) {
        Small mixed = {c, regions, words, 1, regions};
        mix(mixed, of_regions, of_text, of.most, scale, buffers, buffer);
        of_regions = mixed;
        mixed = {a, words, regions, regions, 1};
        mix(mixed, of_words, of_image, of.rows, scale, buffers, buffer);
        of_words = mixed;
    }
    if (scores) {
        // A padded word asks nothing, so its message is the mean of the regions; messages of words are all that it
        // attends to.
        float *from_words = buffers, *from_regions = from_words + of.most, length = max(of.padded, words);
        float *asked = from_regions + of.rows, *padding = asked + of.rows;
        for (u32 at = threadIdx.x; at < words; at += blockDim.x) {
            float sum = 0;
            for (u32 region = 0; region < regions; region++) sum += of_regions.at(region, at);
            from_words[at] = sum / regions;
        }
        for (u32 at = threadIdx.x; at < regions; at += blockDim.x) {
            float sum = 0;
            for (u32 region = 0; region < regions; region++) sum += of_image[(size_t)region * of.rows + at];
            asked[at] = sum / regions;
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < words; at += blockDim.x) {
            float sum = 0;
            for (u32 region = 0; region < regions; region++) sum += asked[region] * b[at * regions + region];
            padding[at] = scale * sum;
        }
        __syncthreads();
        softmax_rows({padding, 1, words, words, 1});
        for (u32 at = threadIdx.x; at < regions; at += blockDim.x) {
            float sum = 0, row = 0;
            for (u32 word = 0; word < words; word++) {
                sum += of_words.at(word, at);
                row += padding[word] * b[word * regions + at];
            }
            from_regions[at] = sum / length + (length - words) / length * row;
        }
        __syncthreads();
        float score = mean_cosine(of, pair, image, caption, from_words, from_regions);
        if (threadIdx.x == 0) scores[(size_t)image * columns + caption] = score;
        return;
    }
    if (gates) {
        const float* products = of.products + pair.place;
        const float* text_gram = of.text_grams ? of.text_grams + (size_t)caption * of.most * of.most : 0;
        const float* image_gram = of.image_grams ? of.image_grams + (size_t)image * of.rows * of.rows : 0;
        float* of_image = gates + ((size_t)image * of.captions + caption) * of.rows;
        float* of_text = gates + (size_t)of.images * of.captions * of.rows + (size_t)image * of.words + pair.first;
        open_gates(of_image, of_regions, text_gram, of.most, products, 1, pair.stride, buffers, buffer);
        open_gates(of_text, of_words, image_gram, of.rows, products, pair.stride, 1, buffers, buffer);
    }
    for (u32 i = threadIdx.x; i < words * regions; i += blockDim.x) {
        u32 word = i / regions, region = i % regions;
        of.of_regions[pair.at(word, region)] = of_regions.at(region, word);
        of.of_words[pair.at(word, region)] = of_words.at(word, region);
    }
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
