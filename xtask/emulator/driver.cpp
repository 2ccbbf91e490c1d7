// The driver of one GPU that resembles an H100. Whatever is launched has happened when the call returns.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>

#include "processor.h"

using namespace emulated;

namespace {

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700,
};

std::mutex lock;
// After a kernel failed, everything does.
std::atomic<int> lost{SUCCESS};
// What handles of streams, events and contexts point to: there is nothing to know about them.
char handle;

// Compiled kernels: a copy for every processor, because a copy has one block's variables.
struct Loaded {
    const char* library;
    size_t length;
    std::map<unsigned, Module*> copies;
};
// A kernel by its number, and the dynamic shared memory that it may have.
struct Function {
    Loaded* loaded;
    unsigned number;
    size_t shared;
};

struct Core {
    unsigned number;
    Processor processor;
};
std::vector<Core*> idle;
unsigned cores = 0;

// Memory that is taken, with the length of its mapping.
const size_t ALL_MEMORY = (size_t)4 << 30;
std::map<uint64_t, size_t> taken;
size_t taken_bytes = 0;

// Loads another copy of kernels. The loader knows libraries by their files and names, so that each has one of its own, which
// stays open.
Module* load(const Loaded& loaded) {
    int file = memfd_create("kernels", MFD_CLOEXEC);
    if (file < 0) return nullptr;
    for (size_t at = 0; at < loaded.length;) {
        ssize_t written = write(file, loaded.library + at, loaded.length - at);
        if (written <= 0) return nullptr;
        at += written;
    }
    std::string path = "/proc/self/fd/" + std::to_string(file);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "emulated GPU: %s\n", dlerror());
    auto* module = library ? (Module*)dlsym(library, "emulated_module") : nullptr;
    if (module) mprotect(module->dynamic_end, PAGE, PROT_NONE);
    return module;
}

uint64_t seed() {
    const char* seed = getenv("NEXTPAIR_EMULATOR_SEED");
    return seed ? strtoull(seed, nullptr, 10) : 0;
}

struct sigaction before[NSIG];

// A signal of a kernel ends it; others go where they went before.
void on_signal(int number, siginfo_t* info, void* context) {
    if (Processor* processor = Processor::current()) {
        char why[96];
        if (number == SIGFPE) snprintf(why, sizeof why, "it divides an integer by zero");
        else snprintf(why, sizeof why, "it uses the illegal address %p", info->si_addr);
        processor->stop(why);
    }
    const struct sigaction& old = before[number];
    if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(number, info, context);
    else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) old.sa_handler(number);
    else signal(number, SIG_DFL);
}

void watch_signals() {
    static std::once_flag once;
    std::call_once(once, [] {
        for (int number : {SIGSEGV, SIGBUS, SIGFPE}) {
            struct sigaction action = {};
            action.sa_sigaction = on_signal;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
            sigaction(number, &action, &before[number]);
        }
    });
    // A kernel that leaves its stack needs another one for the signal.
    static thread_local std::vector<char> stack;
    stack_t own = {};
    if (sigaltstack(nullptr, &own) == 0 && own.ss_flags & SS_DISABLE) {
        stack.resize(64 * 1024);
        own.ss_sp = stack.data(), own.ss_size = stack.size(), own.ss_flags = 0;
        sigaltstack(&own, nullptr);
    }
}

// A core that does nothing, with its copy of kernels.
std::pair<Core*, Module*> take_core(Loaded& loaded) {
    std::lock_guard<std::mutex> guard(lock);
    if (idle.empty()) {
        unsigned number = cores++;
        idle.push_back(new Core{number, Processor(seed())});
    }
    Core* core = idle.back();
    Module*& copy = loaded.copies[core->number];
    if (!copy) copy = load(loaded);
    if (copy) idle.pop_back();
    return {core, copy};
}

int run(const Function& function, Launch launch) {
    auto [core, module] = take_core(*function.loaded);
    if (!module) return INVALID_IMAGE;
    launch.kernel = &module->kernels[function.number];
    const dim3 &grid = launch.grid, &block = launch.block;
    size_t threads = (size_t)block.x * block.y * block.z;
    bool fits = grid.x && grid.y && grid.z && grid.x < 1u << 31 && grid.y < 1u << 16 && grid.z < 1u << 16;
    fits &= threads > 0 && threads <= launch.kernel->threads && block.z <= 64 && launch.shared <= function.shared;
    bool succeeded = true;
    if (fits) {
        watch_signals();
        succeeded = core->processor.run(*module, launch);
    }
    if (!fits) {
        fprintf(stderr, "emulated GPU: kernel %s cannot have %u %u %u blocks of %zu threads with %zu bytes of shared memory\n",
            launch.kernel->name, grid.x, grid.y, grid.z, threads, launch.shared);
    } else if (!succeeded) {
        fprintf(stderr, "emulated GPU: %s\n", core->processor.failure.c_str());
        lost = ILLEGAL_ADDRESS;
    }
    std::lock_guard<std::mutex> guard(lock);
    idle.push_back(core);
    return fits ? (int)lost : INVALID_VALUE;
}

int copied(void* to, const void* from, size_t bytes) {
    if (!lost) memmove(to, from, bytes);
    return lost;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) { return SUCCESS; }
int cuDriverGetVersion(int* version) { return *version = 13000, SUCCESS; }
int cuDeviceGetCount(int* count) { return *count = 1, SUCCESS; }
int cuDeviceGet(int* device, int index) { return *device = index, index ? INVALID_VALUE : SUCCESS; }
int cuDeviceGetName(char* name, int size, int) { return snprintf(name, size, "Emulated GPU"), SUCCESS; }
int cuDeviceGetAttribute(int* value, int which, int) {
    switch (which) {
        case 16: *value = 132; break;
        case 75: *value = 9; break;
        case 76: *value = 0; break;
        case 97: *value = MOST_SHARED; break;
        default: return INVALID_VALUE;
    }
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &handle, SUCCESS; }
int cuCtxSetCurrent(void*) { return SUCCESS; }
int cuGetErrorString(int error, const char** text) {
    switch (error) {
        case SUCCESS: *text = "no error"; break;
        case INVALID_VALUE: *text = "invalid argument"; break;
        case OUT_OF_MEMORY: *text = "out of memory"; break;
        case INVALID_IMAGE: *text = "device kernel image is invalid"; break;
        case NOT_FOUND: *text = "named symbol not found"; break;
        case ILLEGAL_ADDRESS: *text = "an illegal memory access was encountered"; break;
        default: *text = "unknown error";
    }
    return SUCCESS;
}

int cuStreamCreate(void** stream, unsigned) { return *stream = &handle, lost; }
int cuStreamDestroy_v2(void*) { return lost; }
int cuStreamSynchronize(void*) { return lost; }
int cuStreamWaitEvent(void*, void*, unsigned) { return lost; }
int cuEventCreate(void** event, unsigned) { return *event = &handle, lost; }
int cuEventDestroy_v2(void*) { return lost; }
int cuEventRecord(void*, void*) { return lost; }
int cuEventSynchronize(void*) { return lost; }

// Memory is full of what is no number, and ends where nothing may be read.
int cuMemAlloc_v2(uint64_t* address, size_t size) {
    std::lock_guard<std::mutex> guard(lock);
    if (lost) return lost;
    if (size == 0) return INVALID_VALUE;
    if (size > ALL_MEMORY - taken_bytes) return OUT_OF_MEMORY;
    size_t aligned = (size + 255) / 256 * 256, pages = (aligned + PAGE - 1) / PAGE * PAGE;
    void* mapped = mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect((char*)mapped + pages, PAGE, PROT_NONE);
    memset(mapped, 0xff, pages);
    *address = (uint64_t)mapped + pages - aligned;
    taken[*address] = pages, taken_bytes += pages;
    return SUCCESS;
}
int cuMemFree_v2(uint64_t address) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = taken.find(address);
    if (found == taken.end()) return INVALID_VALUE;
    munmap((void*)(address / PAGE * PAGE), found->second + PAGE);
    taken_bytes -= found->second;
    taken.erase(found);
    return lost;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
    std::lock_guard<std::mutex> guard(lock);
    *total = ALL_MEMORY, *free = ALL_MEMORY - taken_bytes;
    return lost;
}
int cuMemHostAlloc(void** address, size_t size, unsigned) {
    *address = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    return *address ? (int)lost : OUT_OF_MEMORY;
}
int cuMemFreeHost(void* address) { return free(address), lost; }
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void*) {
    if (!lost) memset((void*)to, value, size);
    return lost;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void*) { return copied((void*)to, (void*)from, size); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t size, void*) { return copied((void*)to, from, size); }
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t size, void*) { return copied(to, (void*)from, size); }

int cuModuleLoadData(Loaded** module, const void* image) {
    std::lock_guard<std::mutex> guard(lock);
    size_t length;
    memcpy(&length, image, sizeof length);
    char* library = (char*)malloc(length);
    memcpy(library, (const char*)image + sizeof length, length);
    *module = new Loaded{library, length, {}};
    Module* copy = load(**module);
    if (!copy) return INVALID_IMAGE;
    (*module)->copies[0] = copy;
    return lost;
}
int cuModuleGetFunction(Function** function, Loaded* loaded, const char* name) {
    std::lock_guard<std::mutex> guard(lock);
    const Module& module = *loaded->copies.at(0);
    for (unsigned number = 0; number < module.count; number++)
        if (!strcmp(module.kernels[number].name, name)) {
            *function = new Function{loaded, number, MOST_DECLARED};
            return SUCCESS;
        }
    return NOT_FOUND;
}
// What a kernel declares is known when it runs, and refused there if it is too much.
int cuFuncGetAttribute(int* value, int, Function*) { return *value = 0, lost; }
int cuFuncSetAttribute(Function* function, int which, int value) {
    if (which != 8 || value < 0 || (size_t)value > MOST_SHARED) return INVALID_VALUE;
    function->shared = value;
    return lost;
}
int cuLaunchKernel(
    Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared, void*, void** arguments, void**) {
    if (lost) return lost;
    return run(*function, {nullptr, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared, arguments});
}

}  // extern "C"
#pragma GCC visibility pop
