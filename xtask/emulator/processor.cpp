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
    *of.block = this, *of.block_size = what.block, *of.grid_size = what.grid;
    *of.dynamic = of.dynamic_end - (what.shared + 15) / 16 * 16;
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
        Thread* thread = take_ready();
        thread->fiber = take_fiber();
        resume(thread);
        switch_to(main, *thread->fiber);
    }
    current() = nullptr;
    return true;
}

void Processor::begin_block(size_t block) {
    size_t size = (size_t)launch->block.x * launch->block.y * launch->block.z;
    *module->block_index = position(block, launch->grid);
    memset(*module->dynamic, 0xff, module->dynamic_end - *module->dynamic);
    declared.clear();
    declared_bytes = 0, running = 0, alive = size, waiting = 0, any = 0, all = 1, count = 0;
    if (threads.size() < size) threads.resize(size);
    warps.assign((size + 31) / 32, {0, 0, 0});
    for (size_t at = 0; at < size; at++) {
        Thread& thread = threads[at];
        thread.index = position(at, launch->block);
        thread.fiber = nullptr, thread.group = 0;
        warps[at / 32].alive |= 1u << at % 32;
        warps[at / 32].ready |= 1u << at % 32;
    }
}

// What a fiber does: it runs a thread, and the next that has not begun.
void Processor::work() {
    for (;;) {
        Processor& own = *current();
        own.launch->kernel->enter(own.launch->arguments);
        Fiber* fiber = own.threads[own.running].fiber;
        own.end_thread();
        Thread* next = own.take_ready();
        if (!next && own.alive > 0) own.fail("its threads wait for each other, and none can go on");
        if (next && !next->fiber) {
            next->fiber = fiber;
            own.resume(next);
            continue;
        }
        own.idle.push_back(fiber);
        if (next) own.resume(next);
        // Who comes back here has a thread for this fiber that has not begun.
        switch_to(*fiber, next ? *next->fiber : own.main);
    }
}

// SplitMix64 (Steele, Lea and Flood, 2014).
static uint64_t next_draw(uint64_t& state) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// The next of the same warp if there is one: its threads meet more often than others. With draws, any.
Thread* Processor::take_ready() {
    size_t at = running / 32, count = warps.size();
    unsigned turn = running % 32;
    if (draws) at = next_draw(draws) % count, turn = next_draw(draws) % 32;
    for (size_t tried = 0; tried < count; tried++, at = at + 1 < count ? at + 1 : 0) {
        unsigned ready = warps[at].ready;
        if (!ready) continue;
        unsigned after = ready & (~0u << turn), lane = __builtin_ctz(after ? after : ready);
        warps[at].ready &= ~(1u << lane);
        return &threads[32 * at + lane];
    }
    return nullptr;
}

// A fiber that runs a thread which has not begun.
Fiber* Processor::take_fiber() {
    if (idle.empty()) {
        fibers.push_back(std::make_unique<Fiber>());
        fibers.back()->begin(work, fibers.size());
        return fibers.back().get();
    }
    Fiber* fiber = idle.back();
    idle.pop_back();
    return fiber;
}

void Processor::resume(Thread* thread) {
    running = thread - threads.data();
    *module->thread_index = thread->index;
}

// Leaves the thread that runs, which waits, to others.
void Processor::yield() {
    Fiber* fiber = threads[running].fiber;
    Thread* next = take_ready();
    if (!next) fail("its threads wait for each other, and none can go on");
    if (!next->fiber) next->fiber = take_fiber();
    resume(next);
    switch_to(*fiber, *next->fiber);
}

void Processor::end_thread() {
    Thread& thread = threads[running];
    make_copies(thread, ~0u);
    Warp& warp = warps[running / 32];
    warp.alive &= ~(1u << running % 32), alive--;
    // Others may have waited for this one alone.
    for (unsigned lane = 0; lane < 32 && warp.arrived; lane++)
        if (warp.arrived >> lane & 1) meet_if_complete(running / 32, lane);
    pass_if_complete();
}

void Processor::meet(unsigned mask, void* brought, Meeting meeting) {
    unsigned own = running, warp = own / 32, lane = own % 32;
    if (!(mask >> lane & 1)) fail("a thread meets others with a mask that it is not in");
    Thread& thread = threads[own];
    thread.mask = mask, thread.brought = brought, thread.meeting = meeting;
    warps[warp].arrived |= 1u << lane;
    meet_if_complete(warp, lane);
    if (warps[warp].arrived >> lane & 1) yield();
}

// Has the meeting that a lane waits for, if nobody is missing.
void Processor::meet_if_complete(unsigned at, unsigned lane) {
    Warp& warp = warps[at];
    Thread& one = threads[32 * at + lane];
    unsigned lanes = one.mask & warp.alive;
    if (lanes & ~warp.arrived) return;
    void* brought[32] = {};
    for (unsigned other = 0; other < 32; other++) {
        if (!(lanes >> other & 1)) continue;
        Thread& thread = threads[32 * at + other];
        if (thread.mask != one.mask) return;
        if (thread.meeting != one.meeting) fail("threads of a warp meet in different instructions");
        brought[other] = thread.brought;
    }
    one.meeting(brought, lanes);
    warp.arrived &= ~lanes, warp.ready |= lanes;
    // Who runs goes on.
    if (running / 32 == at) warp.ready &= ~(1u << running % 32);
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
