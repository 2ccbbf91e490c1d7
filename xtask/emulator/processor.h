// Runs the blocks of kernels, one after the other. Threads of a block take turns: one runs until it waits for others or ends.
#pragma once
#include <setjmp.h>
#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "block.h"
#include "fiber.h"

namespace emulated {

struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    unsigned group;
};

struct Thread {
    uint3 index;
    Fiber* fiber;
    // Copies that are not made yet, and the group that is open.
    std::vector<Copy> copies;
    unsigned group;
};

// The threads of a warp, a bit for each: those that have begun, that have not ended, that can run, and that wait for a meeting.
struct Warp {
    unsigned begun, alive, ready, arrived;
    // The meeting that each waits for. `same` says that those who wait have the same mask and the same meeting.
    bool same;
    unsigned mask[32];
    Meeting meeting[32];
    void* brought[32];
    // What each brings to a shuffle, from whom it wants something, and what it receives.
    unsigned long long bits[32], received[32];
    unsigned from[32];
};

struct Launch {
    const Kernel* kernel;
    dim3 grid, block;
    size_t shared;
    void** arguments;
};

class Processor : public Block {
  public:
    // Threads take their turns in an order that depends on the seed, or, with 0, in their own.
    explicit Processor(uint64_t seed) : draws(seed) {}

    // Runs a kernel. Returns whether it succeeded; if not, `failure` says why.
    bool run(const Module& module, const Launch& launch);
    // Ends the kernel that runs on this thread of the system, from a signal.
    [[noreturn]] void stop(const char* why);
    // The processor that runs on this thread of the system, if any does.
    static Processor*& current();

    std::string failure;

    void meet(unsigned mask, void* brought, Meeting meeting) override;
    unsigned long long shuffle(unsigned mask, unsigned long long bits, unsigned from) override;
    int wait(Over over, int value) override;
    void declare(void* variable, size_t bytes) override;
    [[noreturn]] void fail(const char* why) override;
    void copy(void* to, const void* from, size_t bytes) override;
    void commit() override;
    void wait_for_copies(unsigned groups_left) override;

  private:
    void begin_launch();
    void begin_block(size_t block);
    static void work();
    bool take_ready();
    void take_fiber();
    void yield();
    void end_thread();
    static void shuffle_all(void* const* brought, unsigned lanes);
    void arrive(Warp& warp, unsigned mask, Meeting meeting);
    void meet_if_complete(Warp& warp, unsigned lane);
    void pass_if_complete();
    void make_copies(Thread& thread, unsigned before);

    const Module* module = nullptr;
    const Launch* launch = nullptr;
    Fiber main;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber*> idle;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    unsigned running = 0, alive = 0;
    // How many wait for the whole block, and what comes of it.
    unsigned waiting = 0;
    int any = 0, all = 1, count = 0, passed = 0;
    std::vector<void*> declared;
    size_t declared_bytes = 0;
    uint64_t draws;
    sigjmp_buf out;
};

}  // namespace emulated
