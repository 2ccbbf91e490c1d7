// The loop of a greedy V-optimal design. Numbers are those of the CPU to the bit: sums ascend from zero, and every product
// is rounded before it is added.

// An item with what it is compared by (the gain for its cost, or by how much its variance falls), and with its gain, or the
// share by which its variance falls.
struct Found {
    double by, is;
    unsigned long long item;
};

#define NOBODY 0xffffffffull
#define THREADS 256

// Whether one comes before another, ties to the lower item. What is not a number comes before nothing.
__device__ bool before(const Found &one, const Found &other) {
    return one.by > other.by || (one.by == other.by && one.item < other.item);
}

// The first of what the threads of a block have, for all of them.
__device__ Found first_of_block(const Found &own, Found *all) {
    unsigned thread = threadIdx.x;
    __syncthreads();
    all[thread] = own;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half && before(all[thread + half], all[thread])) all[thread] = all[thread + half];
        __syncthreads();
    }
    return all[0];
}

__device__ Found nobody() {
    Found none;
    none.by = -1.0 / 0.0;
    none.is = 0.0;
    none.item = NOBODY;
    return none;
}

// Where the number of an item in a dimension is: items lie side by side in groups of 16, dimension by dimension.
__device__ unsigned long long place(unsigned item, unsigned k, unsigned dim) {
    return ((unsigned long long)(item / 16) * dim + k) * 16 + item % 16;
}

// Takes the best of what blocks found, writes it to `pick`, pays for it and reads its direction. One block.
extern "C" __global__ void __launch_bounds__(THREADS) take(
    const Found *bests, unsigned blocks, const float *directions, unsigned dim, const double *costs, unsigned char *gone,
    double *money, double *x, Found *pick) {
    __shared__ Found all[THREADS];
    Found own = nobody();
    for (unsigned block = threadIdx.x; block < blocks; block += THREADS)
        if (before(bests[block], own)) own = bests[block];
    Found best = first_of_block(own, all);
    if (threadIdx.x == 0) *pick = best;
    if (best.item == NOBODY) return;
    if (threadIdx.x == 0) {
        gone[best.item] = 1;
        *money = __dadd_rn(*money, -costs[best.item]);
    }
    for (unsigned k = threadIdx.x; k < dim; k += THREADS) x[k] = directions[place((unsigned)best.item, k, dim)];
}

// A symmetric matrix times a vector. A thread for each number of the product.
extern "C" __global__ void times(const double *matrix, const double *vector, unsigned dim, double *product) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= dim) return;
    double sum = 0.0;
#pragma unroll 8
    for (unsigned k = 0; k < dim; k++)
        sum = __dadd_rn(sum, __dmul_rn(vector[k], matrix[(unsigned long long)k * dim + at]));
    *(product + at) = sum;
}

// The factors `s = 1 / (1/w + x' u)` and `k = u' A u` of a pick, zeros if nothing was picked. One thread for each.
extern "C" __global__ void factor(
    const Found *pick, const double *weights, const double *x, const double *u, const double *weighted, unsigned dim,
    double *factors) {
    const double *one = threadIdx.x == 0 ? x : u, *other = threadIdx.x == 0 ? u : weighted;
    double sum = 0.0;
#pragma unroll 8
    for (unsigned k = 0; k < dim; k++) sum = __dadd_rn(sum, __dmul_rn(one[k], other[k]));
    if (pick->item == NOBODY) sum = 0.0;
    else if (threadIdx.x == 0) sum = 1.0 / __dadd_rn(1.0 / weights[pick->item], sum);
    factors[threadIdx.x] = sum;
}

// `M^-1 -= s u u'`. A thread for each number of the matrix.
extern "C" __global__ void observe(double *inverse, const double *u, const double *factors, unsigned dim) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
    if (at >= dim * dim) return;
    inverse[at] = __dadd_rn(inverse[at], __dmul_rn(-__dmul_rn(factors[0], u[at / dim]), u[at % dim]));
}

// Updates `a` and `b` of items: `a -= s c^2` and `b += -2 s c e + s^2 k c^2`, with `c = u' x` and `e = h' x`. Writes the
// best item of every block, and the `most` whose variance falls most. A thread for each item.
extern "C" __global__ void __launch_bounds__(THREADS) lower(
    const float *directions, unsigned items, unsigned dim, const double *u, const double *h, const double *factors,
    double *a, double *b, const double *weights, const double *costs, const unsigned char *gone, const double *money,
    unsigned most, Found *bests, Found *learners) {
    __shared__ double us[THREADS], hs[THREADS];
    __shared__ Found all[THREADS];
    unsigned item = blockIdx.x * THREADS + threadIdx.x;
    bool is_one = item < items;
    const float *own = directions + place(is_one ? item : 0, 0, dim);
    double c = 0.0, e = 0.0;
    for (unsigned first = 0; first < dim; first += THREADS) {
        unsigned count = min(dim - first, (unsigned)THREADS);
        __syncthreads();
        if (threadIdx.x < count) {
            us[threadIdx.x] = u[first + threadIdx.x];
            hs[threadIdx.x] = h[first + threadIdx.x];
        }
        __syncthreads();
#pragma unroll 16
        for (unsigned k = 0; k < count; k++) {
            double x = own[(unsigned long long)(first + k) * 16];
            c = __dadd_rn(c, __dmul_rn(us[k], x));
            e = __dadd_rn(e, __dmul_rn(hs[k], x));
        }
    }
    Found best = nobody(), learner = nobody();
    if (is_one) {
        double s = factors[0], k = factors[1];
        double square = __dmul_rn(c, c), lowered = __dmul_rn(s, square);
        double of_a = __dadd_rn(a[item], -lowered);
        double change = __dmul_rn(__dmul_rn(__dmul_rn(-2.0, s), c), e);
        double of_b = __dadd_rn(b[item], __dadd_rn(change, __dmul_rn(__dmul_rn(__dmul_rn(s, s), k), square)));
        a[item] = of_a;
        b[item] = of_b;
        if (!gone[item]) {
            double weight = weights[item], cost = costs[item];
            double gain = __dmul_rn(weight, of_b > 0.0 ? of_b : 0.0) / __dadd_rn(1.0, __dmul_rn(weight, of_a));
            double worth = gain / cost;
            if (cost <= *money && worth > best.by) {
                best.by = worth;
                best.is = gain;
                best.item = item;
            }
            if (lowered > 0.0) {
                learner.by = lowered;
                learner.is = lowered / __dadd_rn(lowered, of_a > 0.0 ? of_a : 0.0);
                learner.item = item;
            }
        }
    }
    best = first_of_block(best, all);
    if (threadIdx.x == 0) bests[blockIdx.x] = best;
    for (unsigned at = 0; at < most; at++) {
        Found first = first_of_block(learner, all);
        if (threadIdx.x == 0) learners[blockIdx.x * most + at] = first;
        if (learner.item == first.item) learner = nobody();
    }
}

// The `most` items of all blocks whose variance falls most. One block.
extern "C" __global__ void __launch_bounds__(THREADS) learn(
    const Found *of_blocks, unsigned blocks, unsigned most, Found *learners) {
    __shared__ Found all[THREADS];
    Found last = nobody();
    for (unsigned at = 0; at < most; at++) {
        Found own = nobody();
        for (unsigned place = threadIdx.x; place < blocks * most; place += THREADS) {
            const Found &other = of_blocks[place];
            if ((at == 0 || before(last, other)) && before(other, own)) own = other;
        }
        last = first_of_block(own, all);
        if (threadIdx.x == 0) learners[at] = last;
    }
}
