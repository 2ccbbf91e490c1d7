// Bounds on the squared distances of items to their nearest centres. They are not negative, so that
// their bits compare as they do.

// Lowers the bounds of items by their distances to new centres. With norms `n` and `m` and the cosine
// between them, a squared distance is `(n - m)^2 + 2 n m (1 - cosine)`. `error` bounds that of a
// cosine beside the rounding of the product, `rounding`, relative to `(n + m)^2`, that of this sum. A
// thread looks at one item and eight centres; products of an item are `stride` numbers apart.
extern "C" __global__ void __launch_bounds__(256) approach(
    const uint4 *products, unsigned items, unsigned centres, unsigned stride, unsigned first_item,
    const float *norms, const float *norms_of_centres, float error, float rounding, int *bounds) {
    unsigned eighths = (centres + 7) / 8;
    unsigned at = blockIdx.x * 256 + threadIdx.x;
    if (at >= items * eighths) return;
    unsigned item = at / eighths, centre = at % eighths * 8;
    uint4 eight = products[((unsigned long long)item * stride + centre) / 8];
    unsigned twos[4] = {eight.x, eight.y, eight.z, eight.w};
    float n = norms[first_item + item];
    float before = __int_as_float(bounds[first_item + item]);
    float lowest = before;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) {
        if (centre + j >= centres) break;
        float m = norms_of_centres[centre + j];
        float product = to_single((unsigned short)(twos[j / 2] >> (j % 2 * 16)));
        float cosine = fmaf(-fabsf(product), ROUNDED, product) / (SCALE * SCALE) - error;
        float square = fmaf(n - m, n - m, 2.0f * n * m * (1.0f - cosine));
        square = fmaf(rounding * (n + m), n + m, square);
        // Not a number is not below anything, so that it lowers nothing.
        if (square < lowest) lowest = square;
    }
    if (lowest < 0.0f) lowest = 0.0f;
    if (lowest < before) atomicMin(bounds + first_item + item, __float_as_int(lowest));
}

// Copies every so manieth bound.
extern "C" __global__ void sample(const int *bounds, unsigned step, int *out, unsigned count) {
    unsigned at = blockIdx.x * 256 + threadIdx.x;
    if (at < count) out[at] = bounds[(unsigned long long)at * step];
}

// Lists the items whose bounds are at least `floor`. `found[0]` counts all, also those for which there
// is no room.
extern "C" __global__ void reach(
    const int *bounds, unsigned count, float floor, unsigned *found, unsigned capacity) {
    unsigned item = blockIdx.x * 256 + threadIdx.x;
    if (item >= count || bounds[item] < __float_as_int(floor)) return;
    unsigned at = atomicAdd(found, 1u);
    if (at < capacity) found[1 + at] = item;
}
