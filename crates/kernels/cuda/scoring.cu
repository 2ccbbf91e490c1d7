// Scores of all pairs of some contexts and some items of queries without gradients, on the matrix units: factors have half
// precision, sums single precision. Rows of (context, query) lie context by context, and queries in the order
// of `rounding.cu`.
//
// Compiled for contexts of at most WIDTH rows, a multiple of 4, which are padded to TILES times 16, and for memories
// that are NORMALISED or not.

// One step of attention of some items and a context: a block has a group of items, and a thread each query of theirs.
// The raw scores of a context and a query are at `raw + context * raw_context + query * raw_query`, and so are the
// first ones. Writes weights, [context][query][rows], and adds to the scores, [context][item].
extern "C" __global__ void __launch_bounds__(128) attend_all(
    f16* weights, float* scores, const float* raw, const float* first, const float* grams, const float* norms,
    const u32* context_offsets, const u32* query_offsets, const u32* groups, const Attending* attending,
    u32 queries_of_all, u64 raw_context, u64 raw_query, u64 first_context, u64 first_query, u64 score_context, u32 adds) {
    const u32 ROWS = 16 * TILES, STRIDE = WIDTH + 1;
    extern __shared__ float shared[];
    Attending how = *attending;
    u32 context = blockIdx.y, item = groups[blockIdx.x], items = groups[blockIdx.x + 1] - item;
    u32 rows = context_offsets[context + 1] - context_offsets[context];
    u32 begin = query_offsets[item], queries = query_offsets[item + items] - begin;
    float *gram = shared, *x = gram + WIDTH * WIDTH, *relevances = x + queries * STRIDE;
    raw += context * raw_context + begin * raw_query;
    for (u32 at = threadIdx.x; at < queries * WIDTH; at += blockDim.x) {
        u32 w = at / WIDTH, c = at % WIDTH;
        float score = c < rows ? raw[w * raw_query + c] : 0.0f;
        x[w * STRIDE + c] = how.clips ? leaky(score) : score;
    }
    // The upper half of the Gram matrix, which counts twice.
    for (u32 at = threadIdx.x; at < WIDTH * WIDTH; at += blockDim.x) {
        u32 k = at / WIDTH, c = at % WIDTH;
        float value = grams[((size_t)context * ROWS + k) * ROWS + c];
        gram[at] = c > k ? 2 * value : c == k ? value : 0.0f;
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < items * rows; at += blockDim.x) {
        u32 own = item + at / rows, from = query_offsets[own] - begin, count = query_offsets[own + 1] - begin - from;
        normalise_column(how, x + from * STRIDE + at % rows, count, STRIDE);
    }
    __syncthreads();
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x) {
        float a[WIDTH], most = -1e30f, sum = 0, product = 0, square = 0;
#pragma unroll
        for (u32 c = 0; c < WIDTH; c++) {
            a[c] = c < rows ? how.temperature * x[w * STRIDE + c] : -1e30f;
            most = fmaxf(most, a[c]);
        }
#pragma unroll
        for (u32 c = 0; c < WIDTH; c++) sum += a[c] = c < rows ? __expf(a[c] - most) : 0.0f;
        float scale = 1.0f / sum;
        const float4* of_first = (const float4*)(first + context * first_context + (begin + w) * first_query);
#pragma unroll
        for (u32 c = 0; c < WIDTH; c += 4) {
            float4 score = of_first[c / 4];
            a[c] *= scale, a[c + 1] *= scale, a[c + 2] *= scale, a[c + 3] *= scale;
            product += a[c] * score.x + a[c + 1] * score.y + a[c + 2] * score.z + a[c + 3] * score.w;
        }
#pragma unroll
        for (u32 k = 0; k < WIDTH; k++) {
            float of_row = 0;
#pragma unroll
            for (u32 c = k & ~3u; c < WIDTH; c += 4) {
                float4 g = *(const float4*)(gram + k * WIDTH + c);
                of_row += g.x * a[c] + g.y * a[c + 1] + g.z * a[c + 2] + g.w * a[c + 3];
            }
            square += a[k] * of_row;
        }
        relevances[w] = product / fmaxf(norms[begin + w] * sqrtf(fmaxf(square, 0.0f)), LEAST);
        if (!weights) continue;
        uint4* to = (uint4*)(weights + ((size_t)context * queries_of_all + begin + w) * ROWS);
#pragma unroll
        for (u32 c = 0; c < ROWS; c += 8) {
            u32 both[4];
#pragma unroll
            for (u32 part = 0; part < 4; part++) {
                u32 at = c + 2 * part;
                both[part] = at < WIDTH ? pack(a[at < WIDTH ? at : 0], a[at < WIDTH ? at + 1 : 0]) : 0;
            }
            to[c / 8] = make_uint4(both[0], both[1], both[2], both[3]);
        }
    }
    __syncthreads();
    for (u32 at = threadIdx.x; at < items; at += blockDim.x) {
        u32 from = query_offsets[item + at] - begin, count = query_offsets[item + at + 1] - begin - from;
        float score = aggregate(how, relevances + from, count);
        float* to = scores + context * score_context + item + at;
        *to = adds ? *to + score : score;
    }
}

// The tables of contexts in the order in which the threads of a matrix product read them: for every 32 columns, what
// both layers make of the rows, then the rows themselves, in pieces of 16 by 16 numbers, four registers a thread.
#define PIECES (6 * TILES)
extern "C" __global__ void order_tables(uint4* out, const f16* projected, const f16* contexts, u32 dim) {
    const u32 ROWS = 16 * TILES;
    u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, column = 32 * blockIdx.x, context = blockIdx.y;
    projected += (size_t)context * ROWS * 2 * dim;
    contexts += (size_t)context * ROWS * dim;
    for (u32 piece = threadIdx.x / 32; piece < PIECES; piece += blockDim.x / 32) {
        u32 four[4];
        for (u32 part = 0; part < 4; part++) {
            if (piece < 4 * TILES) {
                u32 layer = piece / 2 / TILES, row = 16 * (piece / 2 % TILES) + 8 * (part % 2) + 2 * t;
                const f16* from = projected + (size_t)row * 2 * dim + layer * dim + column + 16 * (piece % 2) + 8 * (part / 2) + g;
                four[part] = from[0] | (u32)from[2 * dim] << 16;
            } else {
                u32 rest = piece - 4 * TILES, row = 16 * (rest % TILES) + 8 * (part / 2) + g;
                four[part] = *(const u32*)(contexts + (size_t)row * dim + column + 16 * (rest / TILES) + 8 * (part % 2) + 2 * t);
            }
        }
        out[(((size_t)context * gridDim.x + blockIdx.x) * PIECES + piece) * 32 + lane] = make_uint4(four[0], four[1], four[2], four[3]);
    }
}

__device__ void multiply_add(float* out, const u32* a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(out[0]), "+f"(out[1]), "+f"(out[2]), "+f"(out[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ void multiply(float* out, const u32* a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}
// On two numbers at once.
__device__ u32 tanh_of(u32 x) { u32 y; asm("tanh.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x)); return y; }
__device__ u32 sum_of(u32 x, u32 y) { u32 z; asm("add.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y)); return z; }
__device__ u32 difference(u32 x, u32 y) { u32 z; asm("sub.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y)); return z; }
__device__ u32 product_of(u32 x, u32 y) { u32 z; asm("mul.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y)); return z; }
__device__ u32 product_and_sum(u32 x, u32 y, u32 z) {
    u32 out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(x), "r"(y), "r"(z));
    return out;
}

// Refines the queries of a context and scores them: with `a` the weights and P, V the tables of the context,
// `layers = base + a P`, `refined = g q + (1 - g) o` and `raw = refined V^T`. A block has queries of one context,
// each warp 16 of them; it goes through the dimensions 32 at a time, and refined queries stay on chip.
//
// Without `base_context`, the base of a query is the same for every context. `scale` is the factor of a row's base and
// of its query (queries that are scaled to unit norm are stored as they were before); `new_scale` receives the next.
extern "C" __global__ void __launch_bounds__(256, TILES <= 3 ? 2 : 1) refine_and_score(
    float* raw, f16* refined, float* new_scale, const f16* weights, const f16* base, const f16* queries,
    const float* scale, const uint4* tables, u32 count, u32 dim, u64 base_context, u64 query_context) {
    const u32 ROWS = 16 * TILES;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, context = blockIdx.y;
    u32 own = blockIdx.x * (blockDim.x / 2) + warp * 16 + g;
    u32 at[2] = {min(own, count - 1), min(own + 8, count - 1)};
    const uint4* table = tables + (size_t)context * (dim / 32) * PIECES * 32 + lane;
    const f16 *base_of[2], *query_of[2];
#if NORMALISED
    u32 factor[2];
    float squares[2] = {0, 0};
#endif
#pragma unroll
    for (int half = 0; half < 2; half++) {
        base_of[half] = base + context * base_context + (size_t)at[half] * 2 * dim + 8 * t;
        query_of[half] = queries + context * query_context + (size_t)at[half] * dim + 8 * t;
#if NORMALISED
        float own_scale = scale ? scale[(size_t)context * count + at[half]] : 1.0f;
        factor[half] = pack(own_scale, own_scale);
#endif
    }
    // The weights of this warp's queries stay in registers.
    u32 a[TILES][4];
    const f16* weight = weights + (size_t)context * count * ROWS;
#pragma unroll
    for (int k = 0; k < TILES; k++)
#pragma unroll
        for (int part = 0; part < 4; part++)
            a[k][part] = *(const u32*)(weight + (size_t)at[part % 2] * ROWS + 16 * k + 8 * (part / 2) + 2 * t);
    const int EIGHTS = (WIDTH + 7) / 8;
    float sums[EIGHTS][4];
#pragma unroll
    for (int n = 0; n < EIGHTS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;

    // What a row needs of the next columns is on its way while these are computed.
    uint4 next_old[2], next_lin[2], next_gat[2];
    auto load = [&](u32 first) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            next_old[half] = *(const uint4*)(query_of[half] + first);
            next_lin[half] = *(const uint4*)(base_of[half] + first);
            next_gat[half] = *(const uint4*)(base_of[half] + dim + first);
        }
    };
    load(0);
    for (u32 first = 0; first < dim; first += 32, table += PIECES * 32) {
        uint4 old[2] = {next_old[0], next_old[1]}, lin[2] = {next_lin[0], next_lin[1]}, gat[2] = {next_gat[0], next_gat[1]};
        if (first + 32 < dim) load(first + 32);
        // Both layers and the mix, 16 columns at a time; the mix in half precision, two numbers at once. The gate's
        // layer is half of what it is elsewhere: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.
        const u32 HALF = 0x38003800;
        u32 next[2][4];
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            float linear[2][4], gate[2][4];
#pragma unroll
            for (int k = 0; k < TILES; k++) {
                auto add = k == 0 ? multiply : multiply_add;
                uint4 b = __ldg(table + (2 * k + pair) * 32);
                add(linear[0], a[k], b.x, b.y);
                add(linear[1], a[k], b.z, b.w);
                b = __ldg(table + (2 * (TILES + k) + pair) * 32);
                add(gate[0], a[k], b.x, b.y);
                add(gate[1], a[k], b.z, b.w);
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 q[2] = {pair ? old[half].z : old[half].x, pair ? old[half].w : old[half].y};
                u32 l[2] = {pair ? lin[half].z : lin[half].x, pair ? lin[half].w : lin[half].y};
                u32 s[2] = {pair ? gat[half].z : gat[half].x, pair ? gat[half].w : gat[half].y};
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    u32 by_linear = pack(linear[j][2 * half], linear[j][2 * half + 1]);
                    u32 by_gate = pack(gate[j][2 * half], gate[j][2 * half + 1]);
#if NORMALISED
                    by_linear = product_and_sum(factor[half], l[j], by_linear);
                    by_gate = product_and_sum(factor[half], s[j], by_gate);
                    q[j] = product_of(factor[half], q[j]);
#else
                    by_linear = sum_of(l[j], by_linear);
                    by_gate = sum_of(s[j], by_gate);
#endif
                    u32 o = tanh_of(by_linear), open = product_and_sum(tanh_of(by_gate), HALF, HALF);
                    u32 mixed = product_and_sum(open, difference(q[j], o), o);
                    next[half][2 * pair + j] = mixed;
#if NORMALISED
                    float low = to_float((f16)mixed), high = to_float((f16)(mixed >> 16));
                    squares[half] += low * low + high * high;
#endif
                }
            }
        }
        if (refined) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (own + 8 * half < count) {
                    f16* to = refined + ((size_t)context * count + own + 8 * half) * dim + first + 8 * t;
                    *(uint4*)to = make_uint4(next[half][0], next[half][1], next[half][2], next[half][3]);
                }
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            u32 left[4] = {next[0][2 * k], next[1][2 * k], next[0][2 * k + 1], next[1][2 * k + 1]};
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                uint4 b = __ldg(table + (4 * TILES + k * TILES + n) * 32);
                multiply_add(sums[2 * n], left, b.x, b.y);
                if (2 * n + 1 < EIGHTS) multiply_add(sums[2 * n + 1 < EIGHTS ? 2 * n + 1 : 0], left, b.z, b.w);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float unit = 1.0f;
#if NORMALISED
        float of_row = squares[half];
        of_row += __shfl_xor_sync(~0u, of_row, 1);
        of_row += __shfl_xor_sync(~0u, of_row, 2);
        unit = 1.0f / (sqrtf(of_row) + 1e-8f);
#endif
        if (own + 8 * half >= count) continue;
        size_t row = (size_t)context * count + own + 8 * half;
#if NORMALISED
        if (t == 0) new_scale[row] = unit;
#endif
#pragma unroll
        for (int n = 0; n < EIGHTS; n++)
            *(float2*)(raw + row * ROWS + 8 * n + 2 * t) =
                make_float2(sums[n][2 * half] * unit, sums[n][2 * half + 1] * unit);
    }
}
