// The compiler: rewrites CUDA C and hands it to g++. An image is a shared library, with its length before it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "rewrite.h"

// Set where this is built: the folder of `device.h`, options for g++, and a number that changes with these files.
#ifndef HEADERS
#error "HEADERS, OPTIONS and VERSION are not set"
#endif

namespace {

enum { SUCCESS = 0, INVALID_INPUT = 3, COMPILATION = 6 };

struct Program {
    std::string source, log, image;
};

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
}

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string quoted(const std::string& word) {
    std::string out = "'";
    for (char c : word) c == '\'' ? out += "'\\''" : out += c;
    return out + "'";
}

// Runs g++ in a folder. What it says is in the file `log` there.
bool run(const std::string& folder, const std::string& arguments) {
    std::string line = "cd " + quoted(folder) + " && LC_ALL=C g++ " + arguments + " >>log 2>&1";
    return system(line.c_str()) == 0;
}

int compile(Program& program, const std::string& defines) {
    const char* parent = getenv("TMPDIR");
    std::string folder = std::string(parent ? parent : "/tmp") + "/nextpair-emulator-XXXXXX";
    if (!mkdtemp(&folder[0])) {
        program.log = "no folder for temporary files: " + folder;
        return COMPILATION;
    }
    write(folder + "/kernels.cu", program.source);
    const std::string language = "-std=c++17 -w ";
    bool done = run(folder, language + defines + "-E -x c++ -D__CUDACC__ -D__CUDA_ARCH__=900 kernels.cu -o kernels.i");
    if (done) {
        write(folder + "/kernels.cpp", emulated::rewritten(read(folder + "/kernels.i")));
        done = run(folder, language + OPTIONS " -shared -fPIC -fno-strict-aliasing -fvisibility=hidden -fno-gnu-unique "
            "-fmax-errors=20 -include " + quoted(HEADERS "/device.h") + " kernels.cpp -o kernels.so");
    }
    program.log = read(folder + "/log");
    if (done) {
        std::string library = read(folder + "/kernels.so");
        unsigned long length = library.size();
        program.image = std::string((const char*)&length, sizeof length) + library;
    }
    for (const char* file : {"/kernels.cu", "/kernels.i", "/kernels.cpp", "/kernels.so", "/log"})
        unlink((folder + file).c_str());
    rmdir(folder.c_str());
    return done ? SUCCESS : COMPILATION;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Kernels that another version of these files compiled are not used again.
int nvrtcVersion(int* major, int* minor) {
    *major = 13, *minor = VERSION;
    return SUCCESS;
}
int nvrtcCreateProgram(Program** program, const char* source, const char*, int headers, const char**, const char**) {
    if (headers) return INVALID_INPUT;
    *program = new Program{source, "", ""};
    return SUCCESS;
}
int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return SUCCESS;
}
int nvrtcCompileProgram(Program* program, int count, const char** options) {
    std::string defines;
    for (int at = 0; at < count; at++)
        if (!strncmp(options[at], "-D", 2)) defines += quoted(options[at]) + " ";
    return compile(*program, defines);
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) {
    *size = program->log.size() + 1;
    return SUCCESS;
}
int nvrtcGetProgramLog(Program* program, char* log) {
    strcpy(log, program->log.c_str());
    return SUCCESS;
}
int nvrtcGetCUBINSize(Program* program, size_t* size) {
    *size = program->image.size();
    return SUCCESS;
}
int nvrtcGetCUBIN(Program* program, char* image) {
    memcpy(image, program->image.data(), program->image.size());
    return SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
