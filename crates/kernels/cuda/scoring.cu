// Scores of all pairs of some contexts and some items of queries without gradients, on the matrix units: factors have half
// precision, sums single precision. Rows of (context, query) lie context by context, and queries in the order
// of `rounding.cu`.
//
// Compiled for contexts of at most WIDTH rows, a multiple of 4, which are padded to TILES times 16, and for memories
// that are NORMALISED or not.

// Copies 16 bytes to shared memory, behind the back of the thread; copies are committed and waited for in groups.
__device__ void fetch(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ void wait_for_all_but() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

// One step of attention of some items and a context: a block has a group of items, and a thread each query of theirs.
// The raw scores of a context and a query are at `raw + context * raw_context + query * raw_query`, and so are the
// first ones; both are multiples of 16 bytes apart. Writes weights, [context][query][rows], and adds to the scores, [context][item].
//
// Every `each` contexts are those of a member, which has queries, items and groups of its own; its scores are `raw_member` and
// `first_member` further on. Some have fewer groups than others: their last ones are empty.
extern "C" __global__ void __launch_bounds__(128) attend_all(
    f16* weights, float* scores, const float* raw, const float* first, const float* grams, const float* norms,
    const u32* context_offsets, const u32* query_offsets, const u32* groups, const Attending* attending,
    u32 queries_of_all, u64 raw_context, u64 raw_query, u64 raw_member, u64 first_context, u64 first_query, u64 first_member,
    u64 score_context, u32 each, u32 adds) {
    // An odd number of 16 bytes apart: threads that read rows of their own meet in no bank.
    const u32 ROWS = 16 * TILES, FOURS = WIDTH / 4, STRIDE = FOURS % 2 ? WIDTH : WIDTH + 4;
    extern __shared__ float shared[];
    Attending how = *attending;
    u32 context = blockIdx.y, member = context / each;
    groups += member * (gridDim.x + 1), query_offsets += member * (score_context + 1), norms += (size_t)member * queries_of_all;
    u32 item = groups[blockIdx.x], items = groups[blockIdx.x + 1] - item;
    if (items == 0) return;
    u32 rows = context_offsets[context + 1] - context_offsets[context];
    u32 begin = query_offsets[item], queries = query_offsets[item + items] - begin;
    float *gram = shared, *x = gram + WIDTH * WIDTH, *firsts = x + queries * STRIDE, *relevances = firsts + queries * STRIDE;
    raw += context * raw_context + begin * raw_query + member * raw_member;
    first += context * first_context + begin * first_query + member * first_member;
    grams += (size_t)context * ROWS * ROWS;
    for (u32 at = threadIdx.x; at < queries * FOURS; at += blockDim.x) {
        u32 w = at / FOURS, c = 4 * (at % FOURS);
        fetch(x + w * STRIDE + c, raw + w * raw_query + c);
        fetch(firsts + w * STRIDE + c, first + w * first_query + c);
    }
    for (u32 at = threadIdx.x; at < WIDTH * FOURS; at += blockDim.x)
        fetch(gram + 4 * at, grams + at / FOURS * ROWS + 4 * (at % FOURS));
    commit();
    wait_for_all_but<0>();
    __syncthreads();
    for (u32 at = threadIdx.x; at < items * rows; at += blockDim.x) {
        u32 own = item + at / rows, from = query_offsets[own] - begin, count = query_offsets[own + 1] - begin - from;
        float* column = x + from * STRIDE + at % rows;
        if (how.clips)
            for (u32 w = 0; w < count; w++) column[w * STRIDE] = leaky(column[w * STRIDE]);
        normalise_column(how, column, count, STRIDE);
    }
    __syncthreads();
    for (u32 w = threadIdx.x; w < queries; w += blockDim.x) {
        float a[WIDTH], most = -1e30f, sum = 0, product = 0, square = 0;
#pragma unroll
        for (u32 c = 0; c < WIDTH; c += 4) {
            float4 four = *(const float4*)(x + w * STRIDE + c);
            a[c] = four.x, a[c + 1] = four.y, a[c + 2] = four.z, a[c + 3] = four.w;
        }
#pragma unroll
        for (u32 c = 0; c < WIDTH; c++) {
            a[c] = c < rows ? how.temperature * a[c] : -1e30f;
            most = fmaxf(most, a[c]);
        }
#pragma unroll
        for (u32 c = 0; c < WIDTH; c++) sum += a[c] = c < rows ? __expf(a[c] - most) : 0.0f;
        float scale = 1.0f / sum;
#pragma unroll
        for (u32 c = 0; c < WIDTH; c += 4) {
            float4 score = *(const float4*)(firsts + w * STRIDE + c);
            a[c] *= scale, a[c + 1] *= scale, a[c + 2] *= scale, a[c + 3] *= scale;
            product += a[c] * score.x + a[c + 1] * score.y + a[c + 2] * score.z + a[c + 3] * score.w;
        }
#pragma unroll
        for (u32 k = 0; k < WIDTH; k++) {
            // The upper half of the Gram matrix counts twice.
            float beside = 0, own = 0;
#pragma unroll
            for (u32 c = k & ~3u; c < WIDTH; c += 4) {
                float4 four = *(const float4*)(gram + k * WIDTH + c);
                float g[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    if (c + i == k) own = g[i] * a[k];
                    if (c + i > k) beside += g[i] * a[c + i];
                }
            }
            square += a[k] * (own + 2 * beside);
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
// both layers make of the rows, then the rows themselves, in pieces of 16 by 16 numbers, four registers a thread. The
// layers get their biases, half of that of the gate: the weights of a query add up to 1, so that it gets them once. Every
// `each` contexts have the biases of a member.
#define PIECES (6 * TILES)
extern "C" __global__ void order_tables(
    uint4* out, const f16* projected, const f16* contexts, const float* linear_bias, const float* gate_bias, u32 each, u32 dim) {
    const u32 ROWS = 16 * TILES;
    u32 lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, column = 32 * blockIdx.y, context = blockIdx.x;
    linear_bias += (size_t)(context / each) * dim, gate_bias += (size_t)(context / each) * dim;
    projected += (size_t)context * ROWS * 2 * dim;
    contexts += (size_t)context * ROWS * dim;
    for (u32 piece = threadIdx.x / 32; piece < PIECES; piece += blockDim.x / 32) {
        u32 four[4];
        for (u32 part = 0; part < 4; part++) {
            if (piece < 4 * TILES) {
                u32 layer = piece / 2 / TILES, row = 16 * (piece / 2 % TILES) + 8 * (part % 2) + 2 * t;
                u32 own = column + 16 * (piece % 2) + 8 * (part / 2) + g;
                const f16* from = projected + (size_t)row * 2 * dim + layer * dim + own;
                float bias = layer ? 0.5f * gate_bias[own] : linear_bias[own];
                four[part] = pack(to_float(from[0]) + bias, to_float(from[2 * dim]) + bias);
            } else {
                u32 rest = piece - 4 * TILES, row = 16 * (rest % TILES) + 8 * (part / 2) + g;
                four[part] = *(const u32*)(contexts + (size_t)row * dim + column + 16 * (rest / TILES) + 8 * (part % 2) + 2 * t);
            }
        }
        out[(((size_t)context * gridDim.y + blockIdx.y) * PIECES + piece) * 32 + lane] = make_uint4(four[0], four[1], four[2], four[3]);
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
// each warp 32 of them, and each thread parts of HALVES rows; it goes through the dimensions 32 at a time, and refined
// queries stay on chip.
//
// What the next columns need is on its way to shared memory while these are computed: [stage], then what each thread
// needs of its rows, [piece][thread], and the tables.
//
// The base and the query of a row are those of query `context * by_context + member * by_member` further on: without
// `by_context`, they are the same for every one of the `each` contexts of a member. `scale` is the factor of a row's base and
// of its query (queries that are scaled to unit norm are stored as they were before); `new_scale` receives the next.
#define STAGES 3
#define HALVES 4
extern "C" __global__ void __launch_bounds__(128, TILES <= 3 ? 2 : 1) refine_and_score(
    float* raw, f16* refined, float* new_scale, const f16* weights, const f16* base, const f16* queries,
    const float* scale, const uint4* tables, u32 count, u32 dim, u64 by_context, u64 by_member, u32 each) {
    const u32 ROWS = 16 * TILES;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, context = blockIdx.y;
    u32 own = blockIdx.x * (blockDim.x / 4 * HALVES) + warp * 8 * HALVES + g;
    extern __shared__ uint4 staged[];
    const u32 OF_TABLE = PIECES * 32, of_rows = 3 * HALVES * blockDim.x, of_stage = of_rows + OF_TABLE;
    const uint4* table = tables + (size_t)context * (dim / 32) * OF_TABLE;
    const f16 *base_of[HALVES], *query_of[HALVES];
#if NORMALISED
    u32 factor[HALVES];
    float squares[HALVES];
#endif
    // The weights of this warp's queries stay in registers.
    u32 a[HALVES / 2][TILES][4];
    const f16* weight = weights + (size_t)context * count * ROWS;
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        u32 at = min(own + 8 * half, count - 1);
        size_t query = context * by_context + context / each * by_member + at;
        base_of[half] = base + query * 2 * dim + 8 * t;
        query_of[half] = queries + query * dim + 8 * t;
#if NORMALISED
        float own_scale = scale ? scale[(size_t)context * count + at] : 1.0f;
        factor[half] = pack(own_scale, own_scale);
        squares[half] = 0;
#endif
#pragma unroll
        for (int k = 0; k < TILES; k++)
#pragma unroll
            for (int part = 0; part < 2; part++)
                a[half / 2][k][half % 2 + 2 * part] = *(const u32*)(weight + (size_t)at * ROWS + 16 * k + 8 * part + 2 * t);
    }
    const int EIGHTS = (WIDTH + 7) / 8;
    float sums[HALVES / 2][EIGHTS][4];
#pragma unroll
    for (int m = 0; m < HALVES / 2; m++)
#pragma unroll
        for (int n = 0; n < EIGHTS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[m][n][i] = 0;

    auto load = [&](u32 first) {
        if (first < dim) {
            uint4* to = staged + first / 32 % STAGES * of_stage;
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                uint4* own = to + 3 * half * blockDim.x + threadIdx.x;
                fetch(own, query_of[half] + first);
                fetch(own + blockDim.x, base_of[half] + first);
                fetch(own + 2 * blockDim.x, base_of[half] + dim + first);
            }
            for (u32 at = threadIdx.x; at < OF_TABLE; at += blockDim.x)
                fetch(to + of_rows + at, table + first / 32 * OF_TABLE + at);
        }
        commit();
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) load(32 * stage);
    for (u32 first = 0; first < dim; first += 32) {
        // These columns have arrived, and every warp is done with those before, whose place the next take.
        wait_for_all_but<STAGES - 2>();
        __syncthreads();
        load(first + 32 * (STAGES - 1));
        const uint4 *here = staged + first / 32 % STAGES * of_stage, *pieces = here + of_rows + lane;
        // Both layers and the mix, 16 columns at a time; the mix in half precision, two numbers at once. The gate's
        // layer is half of what it is elsewhere: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2.
        const u32 HALF = 0x38003800;
        u32 next[HALVES][4];
        uint4 olds[HALVES], lins[HALVES], gats[HALVES];
#pragma unroll
        for (int half = 0; half < HALVES; half++) {
            const uint4* mine = here + 3 * half * blockDim.x + threadIdx.x;
            olds[half] = mine[0], lins[half] = mine[blockDim.x], gats[half] = mine[2 * blockDim.x];
        }
#pragma unroll
        for (int pair = 0; pair < 2; pair++) {
            float linear[HALVES / 2][2][4], gate[HALVES / 2][2][4];
#pragma unroll
            for (int k = 0; k < TILES; k++) {
                auto add = k == 0 ? multiply : multiply_add;
                uint4 b = pieces[(2 * k + pair) * 32], c = pieces[(2 * (TILES + k) + pair) * 32];
#pragma unroll
                for (int m = 0; m < HALVES / 2; m++) {
                    add(linear[m][0], a[m][k], b.x, b.y);
                    add(linear[m][1], a[m][k], b.z, b.w);
                    add(gate[m][0], a[m][k], c.x, c.y);
                    add(gate[m][1], a[m][k], c.z, c.w);
                }
            }
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                uint4 old = olds[half], lin = lins[half], gat = gats[half];
                u32 q[2] = {pair ? old.z : old.x, pair ? old.w : old.y};
                u32 l[2] = {pair ? lin.z : lin.x, pair ? lin.w : lin.y};
                u32 s[2] = {pair ? gat.z : gat.x, pair ? gat.w : gat.y};
                int m = half / 2, i = 2 * (half % 2);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    u32 by_linear = pack(linear[m][j][i], linear[m][j][i + 1]);
                    u32 by_gate = pack(gate[m][j][i], gate[m][j][i + 1]);
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
            for (int half = 0; half < HALVES; half++)
                if (own + 8 * half < count) {
                    f16* to = refined + ((size_t)context * count + own + 8 * half) * dim + first + 8 * t;
                    *(uint4*)to = make_uint4(next[half][0], next[half][1], next[half][2], next[half][3]);
                }
        }
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                uint4 b = pieces[(4 * TILES + k * TILES + n) * 32];
#pragma unroll
                for (int m = 0; m < HALVES / 2; m++) {
                    u32 left[4] = {next[2 * m][2 * k], next[2 * m + 1][2 * k], next[2 * m][2 * k + 1], next[2 * m + 1][2 * k + 1]};
                    multiply_add(sums[m][2 * n], left, b.x, b.y);
                    if (2 * n + 1 < EIGHTS) multiply_add(sums[m][2 * n + 1 < EIGHTS ? 2 * n + 1 : 0], left, b.z, b.w);
                }
            }
    }
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
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
                make_float2(sums[half / 2][n][2 * (half % 2)] * unit, sums[half / 2][n][2 * (half % 2) + 1] * unit);
    }
}
