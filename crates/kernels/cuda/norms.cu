// Batch norm, layer norm and columns of unit norm.

// Groups of a matrix that have a mean and a variance together: the columns, or the rows from each offset to the next,
// or every `each`-th row.
struct Groups {
    const u32* offsets;
    u32 each, rows, dim, count;
};

// The rows of a group, which has whole rows.
struct GroupRows { u32 first, step, count; };

__device__ GroupRows rows_of(const Groups& groups, u32 group) {
    if (!groups.offsets) return {group, groups.each, groups.rows / groups.each};
    return {groups.offsets[group], 1, groups.offsets[group + 1] - groups.offsets[group]};
}

__device__ u32 numbers_of(const Groups& groups, u32 group) {
    if (!groups.offsets) return groups.each ? groups.rows / groups.each * groups.dim : groups.rows;
    return (groups.offsets[group + 1] - groups.offsets[group]) * groups.dim;
}

// The group of a number.
__device__ u32 group_of(const Groups& groups, size_t at) {
    if (!groups.offsets) return groups.each ? at / groups.dim % groups.each : at % groups.dim;
    u32 row = at / groups.dim, low = 0, high = groups.count;
    while (low + 1 < high) {
        u32 middle = (low + high) / 2;
        if (groups.offsets[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

// The sum of a number of each of the 32 threads of a column, of which a block has 32, in all of them.
__device__ double column_sum(double value) {
    __shared__ double parts[32][33];
    u32 lane = threadIdx.x % 32;
    __syncthreads();
    parts[threadIdx.x / 32][lane] = value;
    __syncthreads();
    double sum = 0;
    for (int part = 0; part < 32; part++) sum += parts[part][lane];
    return sum;
}

// The sums of two numbers of each place of a group. Blocks have 1024 threads: for 32 columns, or for a group of rows.
// `add` gets a place and both sums.
template <typename Add> __device__ void group_sums(const Groups& groups, double& one, double& other, Add add) {
    one = 0, other = 0;
    if (!groups.offsets && !groups.each) {
        u32 column = blockIdx.x * 32 + threadIdx.x % 32;
        if (column < groups.dim)
            for (u32 row = threadIdx.x / 32; row < groups.rows; row += 32)
                add((size_t)row * groups.dim + column, one, other);
        one = column_sum(one), other = column_sum(other);
        return;
    }
    GroupRows own = rows_of(groups, blockIdx.x);
    size_t count = (size_t)own.count * groups.dim;
    for (size_t at = threadIdx.x; at < count; at += blockDim.x) {
        size_t row = own.first + at / groups.dim * own.step;
        add(row * groups.dim + at % groups.dim, one, other);
    }
    one = block_sum_double(one), other = block_sum_double(other);
}

// The group whose sums a thread has, and whether it writes them.
__device__ u32 own_group(const Groups& groups, bool& writes) {
    bool columns = !groups.offsets && !groups.each;
    u32 group = columns ? blockIdx.x * 32 + threadIdx.x % 32 : blockIdx.x;
    writes = group < groups.count && (columns ? threadIdx.x < 32 : threadIdx.x == 0);
    return group;
}

// Mean and biased variance of every group: [mean or variance][group].
extern "C" __global__ void group_moments(
    double* out, const float* in, const u32* offsets, u32 each, u32 rows, u32 dim, u32 count) {
    Groups groups = {offsets, each, rows, dim, count};
    bool writes;
    u32 group = own_group(groups, writes);
    double sum, none, squares, numbers = group < count ? max(numbers_of(groups, group), 1u) : 1;
    group_sums(groups, sum, none, [&](size_t at, double& sum, double&) { sum += in[at]; });
    double mean = sum / numbers;
    group_sums(groups, squares, none, [&](size_t at, double& sum, double&) { sum += (in[at] - mean) * (in[at] - mean); });
    if (writes) out[group] = mean, out[count + group] = squares / numbers;
}

// The same of given means and variances, one for each group or one for all.
extern "C" __global__ void given_moments(double* out, const float* means, const float* variances, u32 count, u32 channels) {
    size_t group = thread_index();
    if (group >= count) return;
    u32 channel = channels == 1 ? 0 : group;
    out[group] = means[channel], out[count + group] = variances[channel];
}

// Running means and variances: nine tenths of the old, a tenth of the new, unbiased. Where all groups share one number,
// they follow each other.
extern "C" __global__ void running_moments(
    float* means, float* variances, const float* old_means, const float* old_variances, const double* moments,
    const u32* offsets, u32 each, u32 rows, u32 dim, u32 count, u32 channels) {
    size_t channel = thread_index();
    if (channel >= channels) return;
    Groups groups = {offsets, each, rows, dim, count};
    double mean = old_means[channel], variance = old_variances[channel];
    u32 end = channels == 1 ? count : channel + 1;
    for (u32 group = channel; group < end; group++) {
        double numbers = numbers_of(groups, group);
        mean = (1.0 - 0.1) * mean + 0.1 * moments[group];
        variance = (1.0 - 0.1) * variance + 0.1 * (moments[count + group] * numbers / (fmax(numbers, 2.0) - 1.0));
    }
    means[channel] = (float)mean, variances[channel] = (float)variance;
}

__device__ float inverse_deviation(double variance) { return 1.0f / sqrtf((float)variance + 1e-5f); }

extern "C" __global__ void batch_norm(
    float* out, const float* in, const double* moments, const float* gain, const float* shift, const u32* offsets,
    u32 each, u32 rows, u32 dim, u32 count, u32 channels) {
    size_t at = thread_index();
    if (at >= (size_t)rows * dim) return;
    u32 group = group_of({offsets, each, rows, dim, count}, at), channel = channels == 1 ? 0 : group;
    float scale = inverse_deviation(moments[count + group]) * gain[channel];
    out[at] = (in[at] - (float)moments[group]) * scale + shift[channel];
}

// The sums of the gradients of every group, and of their products with the normalised numbers: [which][group].
extern "C" __global__ void batch_norm_sums(
    double* out, const float* in, const float* upstream, const double* moments, const u32* offsets, u32 each, u32 rows,
    u32 dim, u32 count) {
    Groups groups = {offsets, each, rows, dim, count};
    bool writes;
    u32 group = own_group(groups, writes), known = min(group, count - 1);
    float mean = (float)moments[known], inverse = inverse_deviation(moments[count + known]);
    double plain, along;
    group_sums(groups, plain, along, [&](size_t at, double& plain, double& along) {
        plain += upstream[at], along += upstream[at] * ((in[at] - mean) * inverse);
    });
    if (writes) out[group] = plain, out[count + group] = along;
}

// Without the sums, means and variances are constants.
extern "C" __global__ void batch_norm_backward(
    float* out, const float* in, const float* upstream, const double* moments, const double* sums, const float* gain,
    const u32* offsets, u32 each, u32 rows, u32 dim, u32 count, u32 channels) {
    size_t at = thread_index();
    if (at >= (size_t)rows * dim) return;
    Groups groups = {offsets, each, rows, dim, count};
    u32 group = group_of(groups, at);
    float inverse = inverse_deviation(moments[count + group]), slope = upstream[at];
    if (sums) {
        float numbers = numbers_of(groups, group), normal = (in[at] - (float)moments[group]) * inverse;
        slope -= (float)sums[group] / numbers + normal * ((float)sums[count + group] / numbers);
    }
    out[at] = inverse * gain[channels == 1 ? 0 : group] * slope;
}

// The gradients of gains and shifts.
extern "C" __global__ void batch_norm_channels(float* of_gain, float* of_shift, const double* sums, u32 count, u32 channels) {
    size_t channel = thread_index();
    if (channel >= channels) return;
    double plain = 0, along = 0;
    for (u32 group = channel; group < (channels == 1 ? count : channel + 1); group++)
        plain += sums[group], along += sums[count + group];
    of_gain[channel] = (float)along, of_shift[channel] = (float)plain;
}

// Mean and inverse deviation of a row, in every thread of its block.
__device__ float2 row_moments(const float* row, u32 dim) {
    float sum = 0, squares = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) sum += row[at];
    float mean = block_sum(sum) / dim;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) squares += (row[at] - mean) * (row[at] - mean);
    return {mean, inverse_deviation(block_sum(squares) / dim)};
}

extern "C" __global__ void layer_norm(float* out, const float* in, const float* gain, const float* shift, u32 dim) {
    size_t first = (size_t)blockIdx.x * dim;
    float2 moments = row_moments(in + first, dim);
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x)
        out[first + at] = gain[at] * ((in[first + at] - moments.x) * moments.y) + shift[at];
}

// The gradients of rows, and the products of gradients and normalised numbers.
extern "C" __global__ void layer_norm_backward(
    float* out, float* products, const float* in, const float* gain, const float* upstream, u32 dim) {
    size_t first = (size_t)blockIdx.x * dim;
    float2 moments = row_moments(in + first, dim);
    float plain = 0, along = 0;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float product = upstream[first + at] * ((in[first + at] - moments.x) * moments.y);
        products[first + at] = product;
        plain += gain[at] * upstream[first + at], along += gain[at] * product;
    }
    plain = block_sum(plain) / dim, along = block_sum(along) / dim;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float normal = (in[first + at] - moments.x) * moments.y;
        out[first + at] = (gain[at] * upstream[first + at] - plain - normal * along) * moments.y;
    }
}

// Where the numbers of a matrix begin, and its size.
struct Columns {
    u32 first, rows, columns;
};

// The norm of a column of a matrix.
__device__ float column_norm(const float* column, Columns of) {
    float squares = 0;
    for (u32 row = 0; row < of.rows; row++) squares += column[(size_t)row * of.columns] * column[(size_t)row * of.columns];
    return sqrtf(squares);
}

// A column of a matrix over its norm and epsilon; zeros stay zeros.
extern "C" __global__ void unit_columns(float* out, const float* in, const Columns* matrices, float epsilon) {
    Columns of = matrices[blockIdx.x];
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= of.columns) return;
    size_t first = (size_t)of.first + at;
    float norm = column_norm(in + first, of), scale = norm > 0 ? 1.0f / (norm + epsilon) : 1.0f;
    for (u32 row = 0; row < of.rows; row++) {
        size_t place = first + (size_t)row * of.columns;
        out[place] = in[place] * scale;
    }
}

extern "C" __global__ void unit_columns_backward(
    float* out, const float* in, const float* upstream, const Columns* matrices, float epsilon) {
    Columns of = matrices[blockIdx.x];
    u32 at = blockIdx.y * blockDim.x + threadIdx.x;
    if (at >= of.columns) return;
    size_t first = (size_t)of.first + at;
    float norm = column_norm(in + first, of), scale = norm > 0 ? 1.0f / (norm + epsilon) : 1.0f, along = 0;
    for (u32 row = 0; row < of.rows; row++) {
        size_t place = first + (size_t)row * of.columns;
        along += in[place] * upstream[place];
    }
    along *= norm > 0 ? scale / norm : 0.0f;
    for (u32 row = 0; row < of.rows; row++) {
        size_t place = first + (size_t)row * of.columns;
        out[place] = (upstream[place] - in[place] * along) * scale;
    }
}
