// The gated recurrent units of the members of an ensemble: one for each of the `directions` of a member. Every unit has as
// many places as the longest list of active captions of any member at every step: `states`, `kept`, `before` and `of_gates`
// are [unit][place][...]. `given_of` has for each place which `3 dim` numbers of the inputs are read there, or `NOWHERE` for
// a place that a member does not use; `word_of` has the row of the result.

#define NOWHERE 0xffffffffu

// One step: `recurrent` is [unit][active][3 dim], the products with the states before. Keeps r, z, c and the
// recurrent part of c for the way back.
extern "C" __global__ void gru_members_step(
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

// The states of every word, averaged over the directions: `place_of` is [direction][word].
extern "C" __global__ void gru_members_means(float* out, const float* states, const u32* place_of, u32 words, u32 dim, u32 directions) {
    u32 word = blockIdx.x;
    for (u32 at = threadIdx.x; at < dim; at += blockDim.x) {
        float sum = 0;
        for (u32 direction = 0; direction < directions; direction++)
            sum += states[(size_t)place_of[(size_t)direction * words + word] * dim + at];
        out[(size_t)word * dim + at] = sum / directions;
    }
}

// One step back. `carried` is [unit][captions][dim], the gradient of the state after this step from later steps,
// and becomes that part of the gradient of the state before which does not go through products. `continued` has the
// captions of each member that a later step reads.
extern "C" __global__ void gru_members_step_back(
    float* carried, float* of_gates, float* of_given, const float* kept, const float* before, const float* upstream,
    const u32* given_of, const u32* word_of, const u32* continued, u32 places, u32 first, u32 captions, u32 dim,
    u32 directions) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x, caption = blockIdx.y;
    size_t unit = blockIdx.z, place = unit * places + first + caption;
    if (at >= dim || given_of[place] == NOWHERE) return;
    float* carry = carried + (unit * captions + caption) * dim + at;
    float of_state = upstream[(size_t)word_of[place] * dim + at] / directions;
    if (caption < continued[unit / directions]) of_state += *carry;
    const float* keep = kept + place * 4 * dim;
    float r = keep[at], z = keep[dim + at], c = keep[2 * dim + at], r_c = keep[3 * dim + at];
    float of_c = of_state * (1.0f - z) * (1.0f - c * c);
    float of_z = of_state * (before[place * dim + at] - c) * z * (1.0f - z);
    float of_r = of_c * r_c * r * (1.0f - r);
    float* gates = of_gates + place * 3 * dim;
    gates[at] = of_r, gates[dim + at] = of_z, gates[2 * dim + at] = of_c * r;
    float* in = of_given + (size_t)given_of[place] * 3 * dim;
    in[at] = of_r, in[dim + at] = of_z, in[2 * dim + at] = of_c;
    *carry = of_state * z;
}
