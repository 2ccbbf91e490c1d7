#include "processor.h"

#include <stdio.h>

#include <algorithm>

namespace emulated {

Processor*& Processor::current() {
    static thread_local Processor* processor = nullptr;
    return processor;
}

static uint3 position(size_t at, const dim3& size) {
    return {(unsigned)(at % size.x), (unsigned)(at / size.x % size.y), (unsigned)(at / size.x / size.y)};
}

bool Processor::run(const Module& of, const Launch& what) {
    module = &of, launch = &what;
    failure.clear();
    begin_launch();
    current() = this;
    if (sigsetjmp(out, 1)) {
        // The stacks were left in the middle of something.
        fibers.clear(), idle.clear();
        for (Thread& thread : threads) thread.copies.clear();
        current() = nullptr;
        return false;
    }
    size_t blocks = (size_t)what.grid.x * what.grid.y * what.grid.z;
    for (size_t block = 0; block < blocks; block++) {
        begin_block(block);
        take_ready();
        take_fiber();
        switch_to(main, *threads[running].fiber);
    }
    current() = nullptr;
    return true;
}

void Processor::begin_launch() {
    *module->block = this, *module->block_size = launch->block, *module->grid_size = launch->grid;
    *module->dynamic = module->dynamic_end - (launch->shared + 15) / 16 * 16;
    threads.resize((size_t)launch->block.x * launch->block.y * launch->block.z);
    warps.resize((threads.size() + 31) / 32);
    for (size_t at = 0; at < threads.size(); at++) threads[at].index = position(at, launch->block);
}

void Processor::begin_block(size_t block) {
    *module->block_index = position(block, launch->grid);
    memset(*module->dynamic, 0xff, module->dynamic_end - *module->dynamic);
    declared.clear();
    declared_bytes = 0, running = 0, alive = threads.size(), waiting = 0, any = 0, all = 1, count = 0;
    for (size_t at = 0; at < warps.size(); at++) {
        size_t lanes = std::min<size_t>(threads.size() - 32 * at, 32);
        Warp& warp = warps[at];
        warp.alive = warp.ready = ~0u >> (32 - lanes), warp.begun = warp.arrived = 0;
    }
}

// SplitMix64 (Steele, Lea and Flood, 2014).
static uint64_t next_draw(uint64_t& state) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// Makes a thread that can run the one that runs: the next of the same warp if there is one, because its threads meet more
// often than others. With draws, any.
inline bool Processor::take_ready() {
    size_t at = running / 32, tried = 0;
    unsigned turn = running % 32;
    if (draws) at = next_draw(draws) % warps.size(), turn = next_draw(draws) % 32;
    for (; !warps[at].ready; at = at + 1 < warps.size() ? at + 1 : 0)
        if (++tried > warps.size()) return false;
    unsigned ready = warps[at].ready, after = ready & (~0u << turn), lane = __builtin_ctz(after ? after : ready);
    warps[at].ready = ready & ~(1u << lane);
    running = 32 * at + lane;
    *module->thread_index = threads[running].index;
    return true;
}

// What a fiber does: it runs a thread, and the next that has not begun.
void Processor::work() {
    Processor& own = *current();
    for (;;) {
        own.warps[own.running / 32].begun |= 1u << own.running % 32;
        own.threads[own.running].group = 0;
        own.launch->kernel->enter(own.launch->arguments);
        Fiber* fiber = own.threads[own.running].fiber;
        own.end_thread();
        bool goes_on = own.take_ready();
        if (!goes_on && own.alive > 0) own.fail("its threads wait for each other, and none can go on");
        Thread& next = own.threads[own.running];
        if (goes_on && !(own.warps[own.running / 32].begun >> own.running % 32 & 1)) {
            next.fiber = fiber;
            continue;
        }
        own.idle.push_back(fiber);
        // Who comes back here has a thread for this fiber that has not begun.
        switch_to(*fiber, goes_on ? *next.fiber : own.main);
    }
}

// Gives the thread that runs a fiber, on which it has not begun.
void Processor::take_fiber() {
    if (idle.empty()) {
        fibers.push_back(std::make_unique<Fiber>());
        fibers.back()->begin(work, fibers.size());
        idle.push_back(fibers.back().get());
    }
    threads[running].fiber = idle.back();
    idle.pop_back();
}

// Leaves the thread that runs, which waits, to others.
void Processor::yield() {
    Fiber* fiber = threads[running].fiber;
    if (!take_ready()) fail("its threads wait for each other, and none can go on");
    if (!(warps[running / 32].begun >> running % 32 & 1)) take_fiber();
    switch_to(*fiber, *threads[running].fiber);
}

void Processor::end_thread() {
    Thread& thread = threads[running];
    if (!thread.copies.empty()) make_copies(thread, ~0u);
    Warp& warp = warps[running / 32];
    warp.alive &= ~(1u << running % 32), alive--;
    // Others may have waited for this one alone.
    for (unsigned lane = 0; warp.arrived && lane < 32; lane++)
        if (warp.arrived >> lane & 1) meet_if_complete(warp, lane);
    pass_if_complete();
}

void Processor::meet(unsigned mask, void* brought, Meeting meeting) {
    Warp& warp = warps[running / 32];
    warp.brought[running % 32] = brought;
    arrive(warp, mask, meeting);
}

unsigned long long Processor::shuffle(unsigned mask, unsigned long long bits, unsigned from) {
    unsigned lane = running % 32;
    Warp& warp = warps[running / 32];
    warp.bits[lane] = bits, warp.from[lane] = from, warp.brought[lane] = &warp;
    arrive(warp, mask, shuffle_all);
    return warp.received[lane];
}

void Processor::shuffle_all(void* const* brought, unsigned lanes) {
    Warp& warp = *(Warp*)brought[__builtin_ctz(lanes)];
    for (unsigned lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) {
            unsigned from = warp.from[lane];
            warp.received[lane] = lanes >> from & 1 ? warp.bits[from] : ~0ull;
        }
}

// The thread that runs waits for others of its warp.
inline void Processor::arrive(Warp& warp, unsigned mask, Meeting meeting) {
    unsigned lane = running % 32, own = 1u << lane;
    if (!(mask & own)) fail("a thread meets others with a mask that it is not in");
    warp.mask[lane] = mask, warp.meeting[lane] = meeting;
    unsigned first = warp.arrived ? __builtin_ctz(warp.arrived) : lane;
    warp.same = (warp.same || !warp.arrived) && warp.mask[first] == mask && warp.meeting[first] == meeting;
    warp.arrived |= own;
    if (!(mask & warp.alive & ~warp.arrived)) meet_if_complete(warp, lane);
    if (warp.arrived & own) yield();
}

// Has the meeting that a lane waits for, if nobody is missing.
void Processor::meet_if_complete(Warp& warp, unsigned lane) {
    unsigned lanes = warp.mask[lane] & warp.alive;
    if (lanes & ~warp.arrived) return;
    for (unsigned other = 0; !warp.same && other < 32; other++) {
        if (!(lanes >> other & 1)) continue;
        if (warp.mask[other] != warp.mask[lane]) return;
        if (warp.meeting[other] != warp.meeting[lane]) fail("threads of a warp meet in different instructions");
    }
    warp.meeting[lane](warp.brought, lanes);
    warp.arrived &= ~lanes, warp.ready |= lanes;
    // Who runs goes on.
    Warp& own = warps[running / 32];
    own.ready &= ~(1u << running % 32);
}

int Processor::wait(Over over, int value) {
    any |= value != 0, all &= value != 0, count += value != 0;
    waiting++;
    if (waiting < alive) yield();
    else pass_if_complete();
    return over == Over::OR ? passed & 1 : over == Over::AND ? passed >> 1 & 1 : passed >> 2;
}

// Lets those go on who wait for the whole block, if all of it waits.
void Processor::pass_if_complete() {
    if (!waiting || waiting < alive) return;
    passed = any | all << 1 | count << 2;
    any = 0, all = 1, count = 0;
    waiting = 0;
    for (Warp& warp : warps) warp.ready = warp.alive;
    warps[running / 32].ready &= ~(1u << running % 32);
}

void Processor::declare(void* variable, size_t bytes) {
    if (std::find(declared.begin(), declared.end(), variable) != declared.end()) return;
    declared.push_back(variable);
    declared_bytes += bytes;
    if (declared_bytes > MOST_DECLARED) fail("it declares more than 48 KB of shared memory");
    if (declared_bytes + launch->shared > MOST_SHARED) fail("it needs more than 227 KB of shared memory");
    memset(variable, 0xff, bytes);
}

void Processor::copy(void* to, const void* from, size_t bytes) {
    Thread& thread = threads[running];
    thread.copies.push_back({to, from, bytes, thread.group});
}

void Processor::commit() { threads[running].group++; }

void Processor::wait_for_copies(unsigned groups_left) {
    Thread& thread = threads[running];
    if (thread.group > groups_left) make_copies(thread, thread.group - groups_left);
}

void Processor::make_copies(Thread& thread, unsigned before) {
    auto& copies = thread.copies;
    size_t made = 0;
    for (; made < copies.size() && copies[made].group < before; made++) {
        const Copy& copy = copies[made];
        if (((uintptr_t)copy.to | (uintptr_t)copy.from) % copy.bytes) fail("it copies from or to an address that is not aligned");
        memcpy(copy.to, copy.from, copy.bytes);
    }
    copies.erase(copies.begin(), copies.begin() + made);
}

void Processor::fail(const char* why) { stop(why); }

void Processor::stop(const char* why) {
    const uint3 &thread = threads[running].index, &block = *module->block_index;
    char where[128];
    snprintf(where, sizeof where, " (block %u %u %u, thread %u %u %u)", block.x, block.y, block.z, thread.x, thread.y, thread.z);
    failure = std::string("kernel ") + launch->kernel->name + ": " + why + where;
    siglongjmp(out, 1);
}

}  // namespace emulated
