// Numbers and rows, one at a time. Every sum has a fixed order, so that results have the same bits every time.

extern "C" __global__ void add(float* sum, const float* part, u32 count) {
    size_t at = thread_index();
    if (at < count) sum[at] += part[at];
}

extern "C" __global__ void divide(float* out, const float* in, double divisor, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = (float)(in[at] / divisor);
}

extern "C" __global__ void bound(float* values, float low, float high, u32 count) {
    size_t at = thread_index();
    if (at < count) values[at] = values[at] < low ? low : values[at] > high ? high : values[at];
}

extern "C" __global__ void relu(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = fmaxf(in[at], 0.0f);
}

extern "C" __global__ void relu_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = in[at] >= 0 ? upstream[at] : 0.0f;
}

extern "C" __global__ void leaky_relu(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = fmaxf(in[at], 0.1f * in[at]);
}

extern "C" __global__ void leaky_relu_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = in[at] >= 0 ? upstream[at] : 0.1f * upstream[at];
}

extern "C" __global__ void absolute(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = fabsf(in[at]);
}

extern "C" __global__ void absolute_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = in[at] > 0 ? upstream[at] : in[at] < 0 ? -upstream[at] : 0.0f;
}

extern "C" __global__ void tanh_each(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = tanhf(in[at]);
}

extern "C" __global__ void tanh_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    float y = tanhf(in[at]);
    out[at] = upstream[at] * (1.0f - y * y);
}

extern "C" __global__ void sigmoid_each(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = 1.0f / (1.0f + expf(-in[at]));
}

extern "C" __global__ void sigmoid_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    float y = 1.0f / (1.0f + expf(-in[at]));
    out[at] = upstream[at] * y * (1.0f - y);
}

extern "C" __global__ void square_each(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = in[at] * in[at];
}

extern "C" __global__ void square_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = 2.0f * in[at] * upstream[at];
}

// `1 / sqrt(x + 1e-16)`.
extern "C" __global__ void inverse_root(float* out, const float* in, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = 1.0f / sqrtf(in[at] + 1e-16f);
}

extern "C" __global__ void inverse_root_backward(float* out, const float* in, const float* upstream, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    float root = 1.0f / sqrtf(in[at] + 1e-16f);
    out[at] = -0.5f * root * root * root * upstream[at];
}

extern "C" __global__ void sum_each(float* out, const float* a, const float* b, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = a[at] + b[at];
}

extern "C" __global__ void difference_each(float* out, const float* a, const float* b, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = a[at] - b[at];
}

extern "C" __global__ void product_each(float* out, const float* a, const float* b, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = a[at] * b[at];
}

extern "C" __global__ void times(float* out, const float* in, float factor, u32 count) {
    size_t at = thread_index();
    if (at < count) out[at] = in[at] * factor;
}

// Some columns of a matrix, written as columns of another; one thread for each of `count` numbers.
extern "C" __global__ void copy_columns(
    float* out, const float* in, u32 to_width, u32 to, u32 from_width, u32 from, u32 width, u64 count) {
    size_t at = thread_index();
    if (at < count) out[at / width * to_width + to + at % width] = in[at / width * from_width + from + at % width];
}

// The number that a stream of draws gives `count` draws after a state: SplitMix64 (Steele, Lea and Flood, 2014).
__device__ u64 drawn(u64 state, u64 count) {
    u64 z = state + count * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Drops the numbers of a row whose draws are below a number; one block a row. A row of which all are dropped keeps
// the number with the largest draw, the last of equal ones.
extern "C" __global__ void dropout(float* out, const float* in, const u64* streams, u64 below, float kept, u32 dim) {
    __shared__ u64 of_thread[128];
    __shared__ u32 at_thread[128];
    size_t first = (size_t)blockIdx.x * dim;
    u64 stream = streams[blockIdx.x], largest = 0;
    u32 place = 0;
    int keeps = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        u64 draw = drawn(stream, (u64)at + 1);
        if (draw >= largest) largest = draw, place = at;
        if (draw >= below) keeps = 1;
        out[first + at] = in[first + at] * (draw < below ? 0.0f : kept);
    }
    if (__syncthreads_or(keeps)) return;
    of_thread[threadIdx.x] = largest, at_thread[threadIdx.x] = place;
    __syncthreads();
    if (threadIdx.x == 0 && dim > 0) {
        u32 threads = min(blockDim.x, dim);
        for (u32 thread = 1; thread < threads; thread++) {
            bool later = of_thread[thread] == largest && at_thread[thread] > place;
            if (of_thread[thread] > largest || later) largest = of_thread[thread], place = at_thread[thread];
        }
        out[first + place] = in[first + place] * kept;
    }
}

// Each of several rows, again and again, to `each` numbers.
extern "C" __global__ void repeat_rows(float* out, const float* rows, u32 columns, u64 each, u64 count) {
    size_t at = thread_index();
    if (at < count) out[at] = rows[at / each * columns + at % columns];
}

// The sum of every column, 32 columns a block, each in 32 parts; of several matrices, one `y` each.
extern "C" __global__ void column_sums(float* out, const float* in, u32 rows, u32 columns, float keep) {
    __shared__ double parts[32][33];
    out += (size_t)blockIdx.y * columns, in += (size_t)blockIdx.y * rows * columns;
    u32 lane = threadIdx.x % 32, part = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    double sum = 0;
    if (column < columns)
        for (u32 row = part; row < rows; row += 32) sum += in[(size_t)row * columns + column];
    parts[part][lane] = sum;
    __syncthreads();
    if (part == 0 && column < columns) {
        double total = keep != 0 ? keep * out[column] : 0.0;
        for (int each = 0; each < 32; each++) total += parts[each][lane];
        out[column] = (float)total;
    }
}

extern "C" __global__ void unit_rows(float* out, const float* in, float epsilon, u32 dim) {
    const float* row = in + (size_t)blockIdx.x * dim;
    float squares = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) squares += row[at] * row[at];
    float scale = 1.0f / (sqrtf(block_sum(squares)) + epsilon);
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) out[(size_t)blockIdx.x * dim + at] = row[at] * scale;
}

extern "C" __global__ void unit_rows_backward(float* out, const float* in, const float* upstream, float epsilon, u32 dim) {
    size_t first = (size_t)blockIdx.x * dim;
    float squares = 0, along = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        squares += in[first + at] * in[first + at];
        along += in[first + at] * upstream[first + at];
    }
    float norm = sqrtf(block_sum(squares)), scale = 1.0f / (norm + epsilon);
    along = block_sum(along);
    float radial = norm > 0 ? along * scale / norm : 0.0f;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
        out[first + at] = (upstream[first + at] - in[first + at] * radial) * scale;
}

// One number for each part of `count` numbers: the squares or products of two arrays, added up by one block.
extern "C" __global__ void dot_all(float* out, const float* a, const float* b, u32 count) {
    a += (size_t)blockIdx.x * count, b += (size_t)blockIdx.x * count;
    double sum = 0;
    for (size_t at = threadIdx.x; at < count; at += blockDim.x) sum += (double)a[at] * b[at];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = (float)sum;
}

// A weight of `count` numbers from its direction and its scale, for the member `blockIdx.y`.
extern "C" __global__ void weight_norm(float* out, const float* direction, const float* scale, const float* squares, u32 count) {
    size_t at = thread_index(), member = blockIdx.y, place = member * count + at;
    if (at < count) out[place] = direction[place] * (scale[member] / sqrtf(squares[member]));
}

extern "C" __global__ void weight_norm_backward(
    float* of_direction, float* of_scale, const float* direction, const float* scale, const float* upstream,
    const float* squares, const float* along, u32 count) {
    size_t at = thread_index(), member = blockIdx.y, place = member * count + at;
    float norm = sqrtf(squares[member]);
    if (at == 0) of_scale[member] = along[member] / norm;
    if (at < count) {
        float of_squares = -(along[member] * scale[member]) / (norm * norm) / norm * 0.5f;
        of_direction[place] = direction[place] * of_squares * 2.0f + upstream[place] * (scale[member] / norm);
    }
}

// Means of the rows of every item; one block an item. Without offsets every item has `each` rows.
extern "C" __global__ void mean_rows(float* out, const float* in, const u32* offsets, u32 each, u32 dim) {
    u32 first = offsets ? offsets[blockIdx.x] : blockIdx.x * each;
    u32 count = offsets ? offsets[blockIdx.x + 1] - first : each;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float sum = 0;
        for (u32 row = first; row < first + count; row++) sum += in[(size_t)row * dim + at];
        out[(size_t)blockIdx.x * dim + at] = sum / count;
    }
}

extern "C" __global__ void mean_rows_backward(float* out, const float* upstream, const u32* offsets, u32 each, u32 dim) {
    u32 first = offsets ? offsets[blockIdx.x] : blockIdx.x * each;
    u32 count = offsets ? offsets[blockIdx.x + 1] - first : each;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float share = upstream[(size_t)blockIdx.x * dim + at] / count;
        for (u32 row = first; row < first + count; row++) out[(size_t)row * dim + at] = share;
    }
}

extern "C" __global__ void gather(float* out, const float* table, const u32* rows, u32 dim) {
    const float* from = table + (size_t)rows[blockIdx.x] * dim;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) out[(size_t)blockIdx.x * dim + at] = from[at];
}

// The sum of some rows, for each of several places: place `b` gets the rows `members[firsts[b]..firsts[b + 1]]`.
extern "C" __global__ void add_rows(float* out, const float* in, const u32* places, const u32* firsts, const u32* members, u32 dim) {
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= dim) return;
    float sum = 0;
    for (u32 member = firsts[blockIdx.x]; member < firsts[blockIdx.x + 1]; member++)
        sum += in[(size_t)members[member] * dim + at];
    out[(size_t)places[blockIdx.x] * dim + at] = sum;
}

// Scores of pairs of vectors; one warp a pair. With `order`, minus the norm of what the text is above the image.
__device__ float pair_score(const float* image, const float* text, u32 dim, u32 order) {
    float sum = 0;
    for (u32 at = threadIdx.x % 32; at < dim; at += 32) {
        float above = fmaxf(text[at] - image[at], 0.0f);
        sum += order ? above * above : image[at] * text[at];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    return order ? -sqrtf(fmaxf(sum, 1e-30f)) : sum;
}

extern "C" __global__ void pair_scores(float* out, const float* images, const float* texts, const u32* pairs, u32 count, u32 dim, u32 order) {
    u32 pair = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (pair >= count) return;
    float score = pair_score(images + (size_t)pairs[2 * pair] * dim, texts + (size_t)pairs[2 * pair + 1] * dim, dim, order);
    if (threadIdx.x % 32 == 0) out[pair] = score;
}

// The derivatives of all pairs as a matrix of images by texts.
extern "C" __global__ void spread_pairs(float* matrix, const float* upstream, const u32* pairs, u32 count, u32 columns) {
    size_t pair = thread_index();
    if (pair < count) atomicAdd(matrix + (size_t)pairs[2 * pair] * columns + pairs[2 * pair + 1], upstream[pair]);
}

// Gradients of order embeddings; one block for each image (`side` 0) or text (1), which looks at all pairs.
extern "C" __global__ void order_backward(
    float* out, const float* images, const float* texts, const float* scores, const float* upstream, const u32* pairs,
    u32 count, u32 dim, u32 side) {
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float sum = 0;
        for (u32 pair = 0; pair < count; pair++) {
            if (pairs[2 * pair + side] != blockIdx.x) continue;
            float above = texts[(size_t)pairs[2 * pair + 1] * dim + at] - images[(size_t)pairs[2 * pair] * dim + at];
            // The score is minus the norm.
            float slope = upstream[pair] / scores[pair] * fmaxf(above, 0.0f);
            sum += side ? slope : -slope;
        }
        out[(size_t)blockIdx.x * dim + at] = sum;
    }
}

// Wide rows of a table: 1024 numbers a block.
extern "C" __global__ void gather_wide(float* out, const float* table, const u32* rows, u32 dim) {
    const float* from = table + (size_t)rows[blockIdx.x] * dim;
    for (u32 at = blockIdx.y * 1024 + threadIdx.x; at < min(dim, (blockIdx.y + 1) * 1024); at += blockDim.x)
        out[(size_t)blockIdx.x * dim + at] = from[at];
}

// Some numbers of each of several parts, which are `from_apart` and `to_apart` numbers apart: 1024 numbers a block.
extern "C" __global__ void copy_parts(float* to, const float* from, u64 to_apart, u64 from_apart, u32 length) {
    to += blockIdx.x * to_apart, from += blockIdx.x * from_apart;
    for (u32 at = blockIdx.y * 1024 + threadIdx.x; at < min(length, (blockIdx.y + 1) * 1024); at += blockDim.x) to[at] = from[at];
}
