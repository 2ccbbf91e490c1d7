// What the driver and compiled kernels agree on.
#pragma once
#include <stddef.h>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulated {

// The shared memory that a block may have, and that which it may declare, in bytes.
const size_t MOST_SHARED = 227 * 1024, MOST_DECLARED = 48 * 1024, PAGE = 4096;

// What the threads of a warp do together, when all are there. Each has brought something of its own; those that are not
// in `lanes` are missing.
typedef void (*Meeting)(void* const* brought, unsigned lanes);

// How numbers of all threads of a block become one.
enum class Over { NOTHING, OR, AND, COUNT };

// The block that runs, for its threads.
struct Block {
    // Waits for all threads of `mask` that have not ended, the last of which has the meeting.
    virtual void meet(unsigned mask, void* brought, Meeting meeting) = 0;
    // The bits of another thread, when all threads of `mask` that have not ended are there. Those of one that is not are all set.
    virtual unsigned long long shuffle(unsigned mask, unsigned long long bits, unsigned from) = 0;
    // Waits for all threads of the block that have not ended.
    virtual int wait(Over over, int value) = 0;
    // Accounts for a shared variable. Before the first thread of a block gets there, nothing is in it.
    virtual void declare(void* variable, size_t bytes) = 0;
    // Ends the kernel.
    [[noreturn]] virtual void fail(const char* why) = 0;
    // Copies behind the back of the thread: in groups, the last of which is open.
    virtual void copy(void* to, const void* from, size_t bytes) = 0;
    virtual void commit() = 0;
    virtual void wait_for_copies(unsigned groups_left) = 0;
};

struct Kernel {
    const char* name;
    void (*enter)(void** arguments);
    // The threads of a block at most.
    unsigned threads;
};

// Compiled kernels, and their variables that the driver sets.
struct Module {
    const Kernel* kernels;
    unsigned count;
    Block** block;
    uint3 *thread_index, *block_index;
    dim3 *block_size, *grid_size;
    // Dynamic shared memory ends at the end of this, which a page follows that nobody may use.
    char* dynamic_end;
    char** dynamic;
};

}  // namespace emulated
