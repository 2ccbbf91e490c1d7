// Stacks that a thread of the system runs on in turn.
#pragma once
#include <stdint.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulated {

const size_t STACK = 256 * 1024;

// Where a stack was left.
struct Fiber {
#if defined(__x86_64__)
    void* place = nullptr;
#else
    ucontext_t place;
#endif
    char* stack = nullptr;

    Fiber() = default;
    Fiber(const Fiber&) = delete;
    ~Fiber() {
        if (stack) munmap(stack, STACK);
    }

    // Begins with this function, which does not return, on a stack of its own. The lowest page is a fence. The number makes
    // stacks begin at different distances from pages, or they would fight for the same lines of the caches.
    void begin(void (*function)(), size_t number) {
        if (!stack) {
            stack = (char*)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            mprotect(stack, 4096, PROT_NONE);
        }
#if defined(__x86_64__)
        // What `emulated_switch` takes off: six registers and where to go on, so that the stack is aligned as after a call.
        uint64_t* top = (uint64_t*)(stack + STACK - number * 448 % 16384 / 64 * 64) - 8;
        for (int at = 0; at < 8; at++) top[at] = 0;
        top[6] = (uint64_t)function;
        place = top;
#else
        getcontext(&place);
        place.uc_stack.ss_sp = stack, place.uc_stack.ss_size = STACK - number * 448 % 16384 / 64 * 64, place.uc_link = nullptr;
        makecontext(&place, function, 0);
#endif
    }
};

#if defined(__x86_64__)
extern "C" void emulated_switch(void** left, void* to);
asm(R"(
.text
.local emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
inline void switch_to(Fiber& from, Fiber& to) { emulated_switch(&from.place, to.place); }
#else
inline void switch_to(Fiber& from, Fiber& to) { swapcontext(&from.place, &to.place); }
#endif

}  // namespace emulated
