// Losses of predicted words and of sets of vectors, and the largest products of sets.

// `factor` times the sum of the parts of a loss; one block.
extern "C" __global__ void total(float* out, const double* parts, u32 count, double factor) {
    double sum = 0;
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) sum += parts[at];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) *out = (float)(factor * sum);
}

// The largest number of a row, and the sum of the exponentials of the distances to it, in every thread of its block.
__device__ float2 row_powers(const float* row, u32 columns) {
    float largest = row[0], sum = 0;
    for (u32 at = threadIdx.x; at < columns; at += blockDim.x) largest = fmaxf(largest, row[at]);
    largest = (float)block_max(largest);
    for (u32 at = threadIdx.x; at < columns; at += blockDim.x) sum += expf(row[at] - largest);
    return {largest, block_sum(sum)};
}

extern "C" __global__ void cross_entropy(double* parts, const float* rows, const u32* targets, u32 columns) {
    const float* row = rows + (size_t)blockIdx.x * columns;
    float2 powers = row_powers(row, columns);
    if (threadIdx.x == 0) parts[blockIdx.x] = log((double)powers.y) + powers.x - row[targets[blockIdx.x]];
}

extern "C" __global__ void cross_entropy_backward(
    float* out, const float* rows, const u32* targets, const float* upstream, u32 columns) {
    size_t first = (size_t)blockIdx.x * columns;
    float2 powers = row_powers(rows + first, columns);
    float slope = *upstream, scale = slope / powers.y;
    for (u32 at = threadIdx.x; at < columns; at += blockDim.x)
        out[first + at] = expf(rows[first + at] - powers.x) * scale - (at == targets[blockIdx.x] ? slope : 0.0f);
}

// The dot products of the rows of the item of a block, zeros on the diagonal, one warp each. Returns their norm.
__device__ float products_of_item(float* products, const float* item, u32 each, u32 dim) {
    for (u32 place = threadIdx.x / 32; place < each * each; place += blockDim.x / 32) {
        u32 one = place / each, other = place % each;
        float sum = 0;
        if (one != other)
            for (u32 at = threadIdx.x % 32; at < dim; at += 32)
                sum += item[(size_t)one * dim + at] * item[(size_t)other * dim + at];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) products[place] = sum;
    }
    __syncthreads();
    float squares = 0;
    for (u32 place = threadIdx.x; place < each * each; place += blockDim.x) squares += products[place] * products[place];
    return sqrtf(block_sum(squares));
}

extern "C" __global__ void overlap(double* parts, float* products, const float* rows, u32 each, u32 dim) {
    products += (size_t)blockIdx.x * each * each;
    float norm = products_of_item(products, rows + (size_t)blockIdx.x * each * dim, each, dim);
    if (threadIdx.x == 0) parts[blockIdx.x] = norm;
}

extern "C" __global__ void overlap_backward(
    float* out, float* products, const float* rows, const float* upstream, float scale, u32 each, u32 dim) {
    products += (size_t)blockIdx.x * each * each;
    size_t first = (size_t)blockIdx.x * each * dim;
    float norm = products_of_item(products, rows + first, each, dim);
    float slope = norm > 0 ? 2.0f * *upstream * scale / norm : 0.0f;
    for (u32 at = threadIdx.x; at < each * dim; at += blockDim.x) {
        float sum = 0;
        for (u32 other = 0; other < each; other++)
            sum += slope * products[at / dim * each + other] * rows[first + (size_t)other * dim + at % dim];
        out[first + at] = sum;
    }
}

// The rows of two sets of `count` each.
struct Sets {
    const float *a, *b;
    u32 count, dim;
    __device__ const float* row(u32 at) const {
        return at < count ? a + (size_t)at * dim : b + (size_t)(at - count) * dim;
    }
    __device__ float sign(u32 one, u32 other) const { return (one < count) == (other < count) ? 1.0f : -1.0f; }
};

// The distances of all rows of both sets, 32 by 32 of them in a block of 1024 threads. They are sums of squares of
// differences, whatever the precision of products: those of near rows are small.
extern "C" __global__ void distances(float* out, const float* a, const float* b, u32 count, u32 dim) {
    __shared__ float left[32][33], right[32][33];
    Sets sets = {a, b, count, dim};
    u32 x = threadIdx.x % 32, y = threadIdx.x / 32, all = 2 * count;
    u32 one = blockIdx.y * 32 + y, other = blockIdx.x * 32 + x, beside = blockIdx.x * 32 + y;
    float squares = 0;
    for (u32 first = 0; first < dim; first += 32) {
        bool within = first + x < dim;
        left[y][x] = within && one < all ? sets.row(one)[first + x] : 0.0f;
        right[y][x] = within && beside < all ? sets.row(beside)[first + x] : 0.0f;
        __syncthreads();
        for (int at = 0; at < 32; at++) {
            float off = left[y][at] - right[x][at];
            squares += off * off;
        }
        __syncthreads();
    }
    if (one < all && other < all) out[(size_t)one * all + other] = sqrtf(squares);
}

// The kernels of every row of both sets, added up with their signs; one block a row.
extern "C" __global__ void discrepancy(double* parts, const float* far, u32 count) {
    Sets sets = {0, 0, count, 0};
    double sum = 0;
    for (u32 other = threadIdx.x; other < 2 * count; other += blockDim.x)
        sum += sets.sign(blockIdx.x, other) * exp(-0.5 * (double)far[(size_t)blockIdx.x * 2 * count + other]);
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// The factors of the differences of rows in the gradient, in place of their distances.
extern "C" __global__ void discrepancy_factors(float* far, const float* upstream, u32 count) {
    Sets sets = {0, 0, count, 0};
    u32 other = blockIdx.y * blockDim.x + threadIdx.x;
    if (other >= 2 * count) return;
    float* own = far + (size_t)blockIdx.x * 2 * count + other;
    float scale = *upstream / ((float)count * (float)count);
    *own = *own > 0 ? -sets.sign(blockIdx.x, other) * expf(-0.5f * *own) / *own * scale : 0.0f;
}

// `sum_j c_ij (z_i - z_j)` of eight rows, of both sets.
extern "C" __global__ void discrepancy_backward(
    float* of_a, float* of_b, const float* a, const float* b, const float* factors, u32 count, u32 dim) {
    Sets sets = {a, b, count, dim};
    u32 at = blockIdx.y * blockDim.x + threadIdx.x, first = blockIdx.x * 8, all = 2 * count;
    if (at >= dim) return;
    float own[8], sums[8];
    for (u32 row = 0; row < 8; row++) own[row] = first + row < all ? sets.row(first + row)[at] : 0.0f, sums[row] = 0;
    for (u32 other = 0; other < all; other++) {
        float number = sets.row(other)[at];
        for (u32 row = 0; row < 8; row++)
            if (first + row < all) sums[row] += factors[(size_t)(first + row) * all + other] * (own[row] - number);
    }
    for (u32 row = 0; row < 8 && first + row < all; row++) {
        u32 place = first + row;
        (place < count ? of_a + (size_t)place * dim : of_b + (size_t)(place - count) * dim)[at] = sums[row];
    }
}

// The place of the first largest of the products of two sets of `each` vectors; one that is NaN is larger than any.
__device__ u32 largest_of(const float* products, u32 each, u32 width) {
    float largest = products[0];
    u32 place = 0;
    for (u32 at = 1; at < each * each; at++) {
        float product = products[(size_t)(at / each) * width + at % each];
        if (largest == largest && !(product <= largest)) largest = product, place = at;
    }
    return place;
}

// The largest product of every two sets: `products` is [set][each][other set][each].
extern "C" __global__ void largest_products(float* out, const float* products, u32 columns, u32 each) {
    u32 row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x, width = columns * each;
    if (column >= columns) return;
    const float* own = products + (size_t)row * each * width + column * each;
    u32 place = largest_of(own, each, width);
    out[(size_t)row * columns + column] = own[(size_t)(place / each) * width + place % each];
}

extern "C" __global__ void largest_products_backward(
    float* out, const float* products, const float* upstream, u32 columns, u32 each) {
    u32 row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x, width = columns * each;
    if (column >= columns) return;
    size_t first = (size_t)row * each * width + column * each;
    u32 place = largest_of(products + first, each, width);
    for (u32 at = 0; at < each * each; at++)
        out[first + (size_t)(at / each) * width + at % each] =
            at == place ? upstream[(size_t)row * columns + column] : 0.0f;
}
