// Bounds on what items add to a cover of points.

// The directions of vectors, less the shift, in single precision. A warp for each vector; `size` is the
// bytes of a number, `width` the length of a direction, `dim` or a little more.
extern "C" __global__ void direct(
    const unsigned char *vectors, unsigned size, const double *inverse_norms, const double *shift,
    float *directions, unsigned count, unsigned dim, unsigned width) {
    unsigned vector = blockIdx.x * 8 + threadIdx.x / 32;
    if (vector >= count) return;
    unsigned long long first = (unsigned long long)vector * dim;
    for (unsigned k = threadIdx.x % 32; k < width; k += 32) {
        float direction = 0.0f;
        if (k < dim) {
            double value = number(vectors, size, first + k);
            if (shift) value -= shift[k];
            direction = (float)(value * inverse_norms[vector]);
        }
        directions[(unsigned long long)vector * width + k] = direction;
    }
}

// Adds, for every item, at least the sum over points of `weight * (of_item * exp(...) - level)` where
// that is positive. The exponent is `(cosine + error - 1) * slope`. A warp for each item, whose
// cosines are `stride` numbers apart; what its threads add up is in no order, which the caller allows
// for.
extern "C" __global__ void __launch_bounds__(256) gain(
    const float *cosines, const float *of_items, const float *levels, const float *weights,
    unsigned items, unsigned points, unsigned stride, float error, float slope, float *gains) {
    unsigned item = blockIdx.x * 8 + threadIdx.x / 32;
    if (item >= items) return;
    const float *own = cosines + (unsigned long long)item * stride;
    float of_item = of_items[item];
    double sum = 0.0;
    for (unsigned point = threadIdx.x % 32; point < points; point += 32) {
        float exponent = fminf(fmaxf((own[point] + error - 1.0f) * slope, -80.0f), 0.0f);
        // The rounding of the exponential and of its argument is within 1e-5.
        float covered = of_item * (expf(exponent) * 1.00001f);
        sum += weights[point] * fmaxf(covered - levels[point], 0.0f);
    }
    if (sum > 0.0) atomicAdd(gains + item, (float)sum);
}
