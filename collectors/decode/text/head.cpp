// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/text/head.hpp"

#include <algorithm>
#include <cstddef>

#include "collectors/decode/text/scan.hpp"

namespace rewake::decode {
namespace {

constexpr size_t kCommWidth = 16;   // what all printers pad names to
constexpr size_t kShortComm = 8;    // what trace-cmd -l pads and cuts them to
constexpr size_t kEventWidth = 22;  // columns of an event's name with its colon, by trace-cmd
constexpr size_t kFarthest = 96;    // columns in which the CPU is looked for
constexpr int64_t kMostSeconds = 9'000'000'000;

bool blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed_right(std::string_view s) {
    while (!s.empty() && blank(s.back())) {
        s.remove_suffix(1);
    }
    return s;
}

/// forms ENUMS["irq_ctx"] from the third flag: h and H hardirq, s softirq, z and Z NMI (tracefs, trace-cmd).
uint8_t irq_ctx_of(std::string_view flags) {
    switch (flags.size() > 2 ? flags[2] : '.') {
        case 's': return 1;
        case 'h':
        case 'H': return 2;
        case 'z':
        case 'Z': return 3;
        default: return 0;
    }
}

bool flags_ok(std::string_view f) {
    if (f.size() < 3 || f.size() > 8) {
        return false;
    }
    return std::all_of(f.begin(), f.end(), [](char c) {
        return c == '.' || c == '#' || is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
}

bool event_char(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

/// Length of SYSTEM:EVENT or EVENT at the beginning, if a colon follows; 0: none is there. `event`: without the system.
size_t event_name(std::string_view text, std::string_view& event) {
    const auto end = [text](size_t n) {
        while (n < text.size() && event_char(text[n])) {
            ++n;
        }
        return n;
    };
    size_t first = 0, n = end(0);
    if (n > 0 && n + 1 < text.size() && text[n] == ':' && event_char(text[n + 1])) {
        first = n + 1;
        n = end(first);
    }
    event = text.substr(first, n - first);
    return n < text.size() && text[n] == ':' ? n : 0;
}

/// Columns of a number and the blanks behind it, as perf script prints a period (-F +period); 0: there is none.
size_t period(std::string_view text) {
    size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
    const size_t digits = n;
    while (n < text.size() && blank(text[n])) {
        ++n;
    }
    return digits > 0 && n > digits ? n : 0;
}

/// TIME: EVENT: BODY, of perf also TIME: PERIOD SYSTEM:EVENT: BODY. `named`: with an event's name.
bool parse_time(Scan s, LineHead& h, bool& named) {
    int64_t seconds = 0;
    if (!is_digit(s.peek()) || !s.number(seconds)) {
        return false;
    }
    h.decimals = 0;
    h.ns = seconds;
    if (s.lit(".")) {
        if (seconds > kMostSeconds) {
            return false;
        }
        int64_t ns = 0;
        uint8_t n = 0;
        for (; is_digit(s.peek()) && n < 9; ++n) {
            ns = ns * 10 + (s.peek() - '0');
            s.skip(1);
        }
        if (n == 0) {
            return false;
        }
        h.decimals = n;
        for (; n < 9; ++n) {
            ns *= 10;
        }
        h.ns = seconds * 1'000'000'000 + ns;
    } else if (s.lit("us")) {  // tracefs' latency-format, and a mark for how long it is to the next line
        if (s.end() || seconds / 1'000'000 > kMostSeconds) {
            return false;
        }
        h.decimals = 6;
        h.ns = seconds * 1000;
        s.skip(1);
    }
    if (!s.lit(":")) {
        return false;
    }
    s.blanks();
    if (s.at("(+")) [[unlikely]] {  // since the line before: trace-cmd report --ts-diff
        Scan diff = s;
        int64_t n = 0;
        diff.skip(2);
        if (diff.number(n) && diff.lit(")")) {
            s = diff;
            s.blanks();
        }
    }
    size_t n = event_name(s.rest(), h.event);
    if (n == 0) [[unlikely]] {
        const size_t past = period(s.rest());
        const std::string_view rest = s.rest().substr(past);
        n = past > 0 ? event_name(rest, h.event) : 0;
        n = h.event.size() < n ? n : 0;  // perf names the system
        s.skip(n > 0 ? past : 0);
    }
    named = n > 0;
    if (!named) {
        h.event = {};
        h.body = s.rest();
        return true;
    }
    const size_t padding = n + 2 < kEventWidth ? kEventWidth - (n + 1) : 1;
    s.skip(n + 1);
    const char* first = s.rest().data();
    s.blanks();
    h.body = s.rest();
    const auto blanks = static_cast<size_t>(h.body.data() - first);
    h.lead = static_cast<uint8_t>(std::min<size_t>(blanks - std::min(blanks, padding), 16));
    return true;
}

/// [FLAGS] TIME: EVENT: BODY.
bool parse_right(std::string_view text, LineHead& h, bool& named) {
    Scan s(text);
    s.blanks();
    h.has_flags = false;
    h.irq_ctx = 0;
    // Flags may be all digits and dots ("...1"), so a time is tried first.
    if (parse_time(s, h, named)) {
        return true;
    }
    const std::string_view flags = s.word();
    s.blanks();
    if (!flags_ok(flags) || !parse_time(s, h, named)) {
        return false;
    }
    h.has_flags = true;
    h.irq_ctx = irq_ctx_of(flags);
    return true;
}

/// COMM-TID (TGID), or COMM TID, or COMM PID/TID, before the CPU; perf's also without the name (-F). `width`: columns
/// that the name takes.
bool parse_left(std::string_view text, LineHead& h, size_t& width) {
    text = trimmed_right(text);
    if (!text.empty() && text.back() == ')') {
        const size_t open = text.rfind('(');
        if (open == std::string_view::npos ||
            !std::all_of(text.begin() + static_cast<ptrdiff_t>(open) + 1, text.end() - 1,
                         [](char c) { return blank(c) || is_digit(c) || c == '-'; })) {
            return false;
        }
        text = trimmed_right(text.substr(0, open));
    }
    size_t first = text.size();
    while (first > 0 && is_digit(text[first - 1])) {
        --first;
    }
    if (first == text.size() || text.size() - first > 10) {
        return false;
    }
    Scan(text.substr(first)).number(h.tid);
    width = 0;
    if (first == 0) {
        return true;
    }
    width = first - 1;
    const char before = text[first - 1];
    if (before == '/') {  // PID/TID
        size_t pid = first - 1;
        while (pid > 0 && is_digit(text[pid - 1])) {
            --pid;
        }
        if (pid == first - 1 || (pid > 0 && !blank(text[pid - 1]))) {
            return false;
        }
        width = pid > 0 ? pid - 1 : 0;
        return true;
    }
    if (before == '-') {
        // perf prints ":-1 -1" (":-1 -1/-1" with the process) for a task that has been reaped.
        std::string_view name = text.substr(0, first - 1);
        name.remove_suffix(name.ends_with(" -1/") ? 3 : 0);
        if (h.tid == 1 && !name.empty() && blank(name.back()) && trimmed_right(name).ends_with(":-1")) {
            h.tid = -1;
        }
        return true;
    }
    return blank(before);
}

/// The last word before a padded name, if it ends in a colon.
std::string_view source_of(std::string_view before) {
    before = trimmed_right(before);
    const size_t gap = before.find_last_of(" \t");
    const std::string_view word = gap == std::string_view::npos ? before : before.substr(gap + 1);
    return word.ends_with(':') ? word : std::string_view();
}

/// trace-cmd -l and tracefs' latency-format: names are cut to 8 bytes, CPU and flags stand together. `line`: from the
/// name on.
bool parse_latency(std::string_view line, LineHead& h, bool& named) {
    if (line.size() < 24 || line[kShortComm] != '-') {
        return false;
    }
    Scan s(line.substr(kShortComm + 1));
    int64_t cpu = 0;
    if (!s.number(h.tid) || h.tid < 0 || !blank(s.peek())) {
        return false;
    }
    s.blanks();
    const std::string_view word = s.word();
    size_t n = 0;
    while (n < word.size() && is_digit(word[n])) {
        ++n;
    }
    if (n == 0 || n > 5 || !flags_ok(word.substr(n))) {
        return false;
    }
    Scan(word.substr(0, n)).number(cpu);
    s.blanks();
    if (!parse_time(s, h, named) || h.decimals == 0) {
        return false;
    }
    h.cpu = static_cast<uint32_t>(cpu);
    h.has_flags = true;
    h.irq_ctx = irq_ctx_of(word.substr(n));
    return true;
}

}  // namespace

bool parse_head(std::string_view line, LineHead& head) {
    bool found = false, found_named = false;
    const std::string_view front = line.substr(0, kFarthest);
    // A name may hold "[0]" and colons: the bracket that the padding points at wins, then the first that has an event.
    for (size_t at = front.find('['); at != std::string_view::npos; at = front.find('[', at + 1)) {
        size_t n = at + 1;
        uint32_t cpu = 0;
        while (n < line.size() && n < at + 7 && is_digit(line[n])) {
            cpu = cpu * 10 + static_cast<uint32_t>(line[n++] - '0');
        }
        if (n == at + 1 || n >= line.size() || line[n] != ']') {
            continue;
        }
        LineHead h;
        size_t width = 0;
        bool named = false;
        if (!parse_left(line.substr(0, at), h, width) || !parse_right(line.substr(n + 1), h, named)) {
            continue;
        }
        h.cpu = cpu;
        h.source = width > kCommWidth && line[width] == '-' ? source_of(line.substr(0, width - kCommWidth))
                                                            : std::string_view();
        const bool padded = width == kCommWidth && named;
        if (padded || !found || (named && !found_named)) {
            head = h;
            found_named = named;
        }
        found = true;
        if (padded) {
            break;
        }
    }
    // The name of an instance, or blanks in its place, may stand before the task's.
    for (size_t dash = front.find('-', kShortComm); !found && dash != std::string_view::npos;
         dash = front.find('-', dash + 1)) {
        const std::string_view before = line.substr(0, dash - kShortComm), source = source_of(before);
        bool named = false;
        if (before.empty() || !source.empty() || trimmed_right(before).empty()) {
            found = parse_latency(line.substr(before.size()), head, named);
            head.source = source;
        }
    }
    return found;
}

}  // namespace rewake::decode
