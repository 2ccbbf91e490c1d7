// From preprocessed CUDA C to C++ that `device.h` makes sense of.
#pragma once
#include <ctype.h>
#include <string.h>

#include <string>
#include <vector>

namespace emulated {

typedef std::string Text;

inline bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

inline Text trimmed(const Text& text) {
    size_t from = text.find_first_not_of(" \t\n"), to = text.find_last_not_of(" \t\n");
    return from == Text::npos ? "" : text.substr(from, to - from + 1);
}

// Where a literal ends that begins here.
inline size_t after_literal(const Text& text, size_t at) {
    char quote = text[at++];
    while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
    return at + 1;
}

inline size_t after_space(const Text& text, size_t at) {
    while (at < text.size() && isspace((unsigned char)text[at])) at++;
    return at;
}

// Where a name or a number ends that begins here. Digits may have quotes between them.
inline size_t after_name(const Text& text, size_t at) {
    bool number = isdigit((unsigned char)text[at]);
    while (at < text.size() && (in_name(text[at]) || (number && text[at] == '\''))) at++;
    return at;
}

// The first of `ends` from here on that is in no bracket and no literal.
inline size_t find_end(const Text& text, size_t at, const char* ends) {
    for (int depth = 0; at < text.size();) {
        char c = text[at];
        if (depth == 0 && strchr(ends, c)) return at;
        if (c == '"' || c == '\'') {
            at = after_literal(text, at);
            continue;
        }
        depth += !!strchr("([{", c) - !!strchr(")]}", c);
        at++;
    }
    return text.size();
}

inline std::vector<Text> split(const Text& text, char by) {
    std::vector<Text> parts;
    const char ends[] = {by, 0};
    for (size_t at = 0; at <= text.size();) {
        size_t end = find_end(text, at, ends);
        parts.push_back(trimmed(text.substr(at, end - at)));
        at = end + 1;
    }
    return parts;
}

// The first name of a declaration's part: that before brackets or a value, or the last.
inline Text declared_name(const Text& part) {
    size_t end = part.find_first_of("[=");
    Text before = trimmed(part.substr(0, end));
    size_t from = before.size();
    while (from > 0 && in_name(before[from - 1])) from--;
    return before.substr(from);
}

// `extern __shared__ T name[];` becomes a pointer, and other variables tell the block of themselves.
inline Text rewritten_shared(const Text& declaration, bool is_dynamic) {
    if (is_dynamic) {
        Text name = declared_name(declaration);
        Text type = trimmed(declaration.substr(0, declaration.find(name + "[")));
        return type + "* " + name + " = (" + type + "*)emulated::dynamic;";
    }
    Text out = "static " + declaration + ";";
    for (const Text& part : split(declaration, ',')) out += " emulated::declare(" + declared_name(part) + ");";
    return out;
}

// The text of adjacent literals.
inline Text literal_text(const Text& text) {
    Text out;
    for (size_t at = 0; at < text.size();) {
        if (text[at] != '"') {
            at++;
            continue;
        }
        size_t end = after_literal(text, at);
        Text part = text.substr(at + 1, end - at - 2);
        for (size_t i = 0; i < part.size(); i++) {
            bool escape = part[i] == '\\' && i + 1 < part.size();
            out += escape ? (strchr("nt", part[++i]) ? ' ' : part[i]) : part[i];
        }
        at = end;
    }
    return out;
}

// The operands of an instruction as arguments: names of registers are replaced by what they stand for, and brackets left out.
inline Text arguments_of(const Text& operands, const std::vector<Text>& values) {
    Text out;
    for (size_t at = 0; at < operands.size();) {
        char c = operands[at];
        if (c == '%' && isdigit((unsigned char)operands[at + 1])) {
            size_t number = 0;
            for (at++; at < operands.size() && isdigit((unsigned char)operands[at]); at++) number = 10 * number + operands[at] - '0';
            out += number < values.size() ? values[number] : "no_such_operand";
            continue;
        }
        if (!strchr("{}[]", c)) out += c;
        at++;
    }
    return out;
}

// The inside of `asm(...)`: every instruction becomes a call of a function of `ptx.h`.
inline Text rewritten_asm(const Text& inside) {
    std::vector<Text> parts, values;
    // Two colons without anything between them are two.
    for (size_t at = 0; at <= inside.size();) {
        size_t end = find_end(inside, at, ":");
        parts.push_back(inside.substr(at, end - at));
        at = end + 1;
    }
    for (size_t list = 1; list < parts.size() && list < 3; list++)
        for (const Text& operand : split(parts[list], ','))
            if (!operand.empty()) values.push_back(operand.substr(operand.find('(')));
    Text out = "do { ";
    for (const Text& line : split(literal_text(parts[0]), ';')) {
        if (line.empty()) continue;
        size_t end = line.find_first_of(" \t\n");
        Text name;
        for (char c : line.substr(0, end)) name += in_name(c) ? c : '_';
        out += "ptx::" + name + "(" + (end == Text::npos ? "" : arguments_of(trimmed(line.substr(end)), values)) + "); ";
    }
    return out + "} while (0)";
}

// The line of the table for a kernel whose `__global__` ends here: of `[void] [__launch_bounds__(...)] [void] name(`.
inline Text table_line(const Text& source, size_t at) {
    Text bounds;
    for (size_t from = after_space(source, at); from < source.size();) {
        size_t to = after_name(source, from);
        Text part = source.substr(from, to - from);
        from = after_space(source, to);
        if (part == "__launch_bounds__") {
            size_t close = find_end(source, from + 1, ")");
            bounds = source.substr(from + 1, close - from - 1);
            from = after_space(source, close + 1);
        } else if (source[from] == '(') {
            return "    {\"" + part + "\", emulated::Entry<" + part + ">::enter, emulated::launch_bound(" + bounds + ")},\n";
        } else if (part.empty()) {
            break;
        }
    }
    return "";
}

inline Text rewritten(const Text& source) {
    Text out = "namespace kernels {\n", table;
    for (size_t at = 0; at < source.size();) {
        char c = source[at];
        if (c == '#') {
            // A line that says where the next comes from, or a pragma.
            size_t end = source.find('\n', at);
            out += source.substr(at, end - at);
            at = end;
        } else if (c == '"' || c == '\'') {
            size_t end = after_literal(source, at);
            out += source.substr(at, end - at);
            at = end;
        } else if (!in_name(c)) {
            out += c;
            at++;
        } else {
            size_t end = after_name(source, at), next = after_space(source, end);
            Text name = source.substr(at, end - at);
            at = end;
            if (name == "extern" && source.compare(next, 3, "\"C\"") == 0) {
                at = next + 3;
            } else if (name == "extern" && source.compare(next, 10, "__shared__") == 0) {
                size_t stop = find_end(source, next, ";");
                out += rewritten_shared(trimmed(source.substr(next + 10, stop - next - 10)), true);
                at = stop + 1;
            } else if (name == "__shared__") {
                size_t stop = find_end(source, next, ";");
                out += rewritten_shared(trimmed(source.substr(next, stop - next)), false);
                at = stop + 1;
            } else if (name == "asm") {
                size_t open = source.find('(', next), close = find_end(source, open + 1, ")");
                out += rewritten_asm(source.substr(open + 1, close - open - 1));
                at = close + 1;
            } else if (name == "__global__") {
                table += table_line(source, end);
            } else {
                out += name;
            }
        }
    }
    return out + "\nstatic const emulated::Kernel TABLE[] = {\n" + table + "    {nullptr, nullptr, 0}};\n"
        "}  // namespace kernels\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) emulated::Module emulated_module = {\n"
        "    kernels::TABLE, sizeof kernels::TABLE / sizeof *kernels::TABLE - 1, &emulated::block, &threadIdx, &blockIdx, &blockDim, &gridDim,\n"
        "    emulated::dynamic_memory + sizeof emulated::dynamic_memory - emulated::PAGE, &emulated::dynamic};\n";
}

}  // namespace emulated
