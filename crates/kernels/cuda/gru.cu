// The gated recurrent units of the members of an ensemble: one for each of the `directions` of a member. Captions stand
// longest first, and words in the order in which they are read: all first words, all second words, ... So the captions that
// are still read at a step are the first ones.
//
// Every unit has as many places as the longest list of active captions of any member at every step: `states`, `kept`,
// `before` and `of_gates` are [unit][place][...]. `given_of` has for each place which `3 dim` numbers of the inputs are read
// there, or `NOWHERE` for a place that a member does not use; `word_of` has the row of the result.

#define NOWHERE 0xffffffffu

// One step: `recurrent` is [unit][active][3 dim], the products with the states before. Keeps r, z, c and the
// recurrent part of c for the way back.
extern "C" __global__ void gru_step(
    float* states, float* kept, float* before, const float* recurrent, const float* given, const float* bias,
    const u32* given_of, u32 places, u32 first, u32 last_first, u32 active, u32 dim) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x, caption = blockIdx.y;
    size_t unit = blockIdx.z, place = unit * places + first + caption;
    if (at >= dim || given_of[place] == NOWHERE) return;
    const float* in = given + (size_t)given_of[place] * 3 * dim;
    const float* own = bias + unit * 3 * dim;
    float r_r = own[at], r_z = own[dim + at], r_c = own[2 * dim + at], old = 0;
    if (first > 0) {
        const float* r_in = recurrent + (unit * active + caption) * 3 * dim;
        r_r += r_in[at], r_z += r_in[dim + at], r_c += r_in[2 * dim + at];
        old = states[(unit * places + last_first + caption) * dim + at];
    }
    float r = 1.0f / (1.0f + expf(-(in[at] + r_r)));
    float z = 1.0f / (1.0f + expf(-(in[dim + at] + r_z)));
    float c = tanhf(in[2 * dim + at] + r * r_c);
    states[place * dim + at] = (1.0f - z) * c + z * old;
    float* keep = kept + place * 4 * dim;
    keep[at] = r, keep[dim + at] = z, keep[2 * dim + at] = c, keep[3 * dim + at] = r_c;
    before[place * dim + at] = old;
}

// The states of every word, averaged over the directions, or those of the directions side by side: `place_of` is
// [direction][word].
extern "C" __global__ void gru_means(
    float* out, const float* states, const u32* place_of, u32 words, u32 dim, u32 directions, u32 side_by_side) {
    u32 word = blockIdx.x;
    if (side_by_side) {
        for (u32 at = threadIdx.x; at < directions * dim; at += blockDim.x)
            out[(size_t)word * directions * dim + at] =
                states[(size_t)place_of[(size_t)(at / dim) * words + word] * dim + at % dim];
        return;
    }
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float sum = 0;
        for (u32 direction = 0; direction < directions; direction++)
            sum += states[(size_t)place_of[(size_t)direction * words + word] * dim + at];
        out[(size_t)word * dim + at] = sum / directions;
    }
}

// One step back. The gradient of the state after this step from later steps has four parts: `carried`, [unit][caption][dim],
// does not go through products, and becomes that of the state before; `by_gates`, [unit][gate][caption][dim], are the products
// of the gradients of gates, `of_gates`, [unit][gate][place][dim]. `continued` has the captions of each member that a later
// step reads.
extern "C" __global__ void gru_step_back(
    float* carried, const float* by_gates, float* of_gates, float* of_given, const float* kept, const float* before,
    const float* upstream, const u32* given_of, const u32* word_of, const u32* continued, u32 places, u32 first, u32 captions,
    u32 dim, u32 directions, u32 side_by_side) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x, caption = blockIdx.y;
    size_t unit = blockIdx.z, place = unit * places + first + caption;
    if (at >= dim || given_of[place] == NOWHERE) return;
    size_t word = word_of[place];
    float* carry = carried + (unit * captions + caption) * dim + at;
    float of_state = side_by_side ? upstream[(word * directions + unit % directions) * dim + at]
                                  : upstream[word * dim + at] / directions;
    if (caption < continued[unit / directions]) {
        const float* part = by_gates + (unit * 3 * captions + caption) * dim + at;
        of_state += *carry + part[0] + part[(size_t)captions * dim] + part[(size_t)2 * captions * dim];
    }
    const float* keep = kept + place * 4 * dim;
    float r = keep[at], z = keep[dim + at], c = keep[2 * dim + at], r_c = keep[3 * dim + at];
    float of_c = of_state * (1.0f - z) * (1.0f - c * c);
    float of_z = of_state * (before[place * dim + at] - c) * z * (1.0f - z);
    float of_r = of_c * r_c * r * (1.0f - r);
    size_t gate = (size_t)places * dim;
    float* gates = of_gates + unit * 3 * gate + (size_t)(first + caption) * dim + at;
    gates[0] = of_r, gates[gate] = of_z, gates[2 * gate] = of_c * r;
    float* in = of_given + (size_t)given_of[place] * 3 * dim;
    in[at] = of_r, in[dim + at] = of_z, in[2 * dim + at] = of_c;
    *carry = of_state * z;
}

// One step of items on their own: `given` and `recurrent` are [item][3 dim], biases included.
extern "C" __global__ void gru_cell(
    float* out, const float* given, const float* recurrent, const float* before, u32 dim, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    size_t place = at / dim * 3 * dim + at % dim;
    float r = 1.0f / (1.0f + expf(-(given[place] + recurrent[place])));
    float z = 1.0f / (1.0f + expf(-(given[place + dim] + recurrent[place + dim])));
    float c = tanhf(given[place + 2 * dim] + r * recurrent[place + 2 * dim]);
    out[at] = c + z * (before[at] - c);
}

extern "C" __global__ void gru_cell_back(
    float* of_given, float* of_recurrent, float* of_before, const float* given, const float* recurrent,
    const float* before, const float* upstream, u32 dim, u32 count) {
    size_t at = thread_index();
    if (at >= count) return;
    size_t place = at / dim * 3 * dim + at % dim;
    float r = 1.0f / (1.0f + expf(-(given[place] + recurrent[place])));
    float z = 1.0f / (1.0f + expf(-(given[place + dim] + recurrent[place + dim])));
    float c = tanhf(given[place + 2 * dim] + r * recurrent[place + 2 * dim]);
    float of_c = upstream[at] * (1.0f - z) * (1.0f - c * c);
    float of_r = of_c * recurrent[place + 2 * dim] * r * (1.0f - r);
    float of_z = upstream[at] * (before[at] - c) * z * (1.0f - z);
    of_given[place] = of_r, of_given[place + dim] = of_z, of_given[place + 2 * dim] = of_c;
    of_recurrent[place] = of_r, of_recurrent[place + dim] = of_z, of_recurrent[place + 2 * dim] = of_c * r;
    of_before[at] = upstream[at] * z;
}
