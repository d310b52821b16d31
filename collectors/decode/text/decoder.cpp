// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/text/decoder.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "collectors/decode/text/scan.hpp"
#include "collectors/decode/tracedat/container.hpp"

namespace rewake::decode {
namespace {

constexpr uint64_t kFrontLines = 64;         // where a header may stand
constexpr uint64_t kPatience = 4'000'000;    // lines before the first event
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // what editors on Windows begin UTF-8 with
constexpr std::string_view kEntries = "# entries-in-buffer/entries-written:";

[[noreturn]] void several(const std::string& path, uint64_t line) {
    throw Error(path + ": line " + std::to_string(line) +
                ": events of several traces or instances in one text: give each alone (trace-cmd report -i FILE), or "
                "the trace.dat itself");
}

/// What `perf script --header` says of the machine: "# KEY : VALUE".
constexpr std::string_view kRelease = "# os release : ", kHost = "# hostname : ", kArch = "# arch : ",
                           kCpusAvailable = "# nrcpus avail : ";

/// The header of tracefs with the option latency-format: "# nop latency trace v1.1.5 on RELEASE", "# latency: 0 us,
/// #KEPT/WRITTEN, CPU#0 | (... #P:CPUS)".
constexpr std::string_view kLatencyTrace = " latency trace v", kLatency = "# latency: ";

std::string_view trimmed(std::string_view s) {
    while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) {
        s.remove_suffix(1);
    }
    while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) {
        s.remove_prefix(1);
    }
    return s;
}

/// The number at the end of a line, if it is that of a CPU ("target_cpu=003", "CPU:003", "cpu_id=3"); -1: it is not.
int64_t last_cpu(std::string_view line) {
    size_t n = line.size();
    while (n > 0 && is_digit(line[n - 1])) {
        --n;
    }
    const std::string_view before = line.substr(0, n);
    int64_t cpu = -1;
    if (n < line.size() && (before.ends_with("_cpu=") || before.ends_with("CPU:") || before.ends_with("cpu_id="))) {
        Scan(line.substr(n)).number(cpu);
    }
    return cpu;
}

/// "Average wakeup latency: 62.270 usecs" and its like, below the events of trace-cmd report -w.
bool latencies(std::string_view what) {
    return what == "RT task timings:" ||
           (what.find(" usecs") != std::string_view::npos &&
            (what.starts_with("Average wakeup latency: ") || what.starts_with("Maximum Latency: ") ||
             what.starts_with("Minimum Latency: ")));
}

}  // namespace

// --- lines

bool TraceLines::next(std::string_view& line) {
    while (lines_.next(line)) {
        while (!line.empty() && line.back() == '\r') {
            line.remove_suffix(1);
        }
        if (lines_.number() == 1 && line.starts_with(kByteOrderMark)) {
            line.remove_prefix(kByteOrderMark.size());
        }
        if (!begun_) {
            const std::string_view text = trimmed(line);
            if (text.empty()) {
                return true;
            }
            begun_ = true;
            html_ = text.starts_with("<!") || text.starts_with("<html") || text.starts_with("<HTML");
            where_ = html_ ? Where::outside : Where::script;
        }
        if (!html_ || within(line)) {
            return true;
        }
    }
    return false;
}

/// Whether the line is in a script element that holds a trace: `class="trace-data"`, or a JavaScript string whose lines
/// end in a backslash (`\`, or `\n\` in 2012).
bool TraceLines::within(std::string_view& line) {
    if (where_ == Where::outside) {
        if (line.find("class=\"trace-data\"") != std::string_view::npos && !lines_.cut()) {
            where_ = Where::script;
        } else if (line.ends_with("linuxPerfData = \"\\")) {
            where_ = Where::literal;
        }
        return false;
    }
    if (line.find("</script>") != std::string_view::npos) {
        where_ = Where::outside;
        return false;
    }
    if (where_ == Where::literal) {
        if (line.ends_with("\";")) {
            line.remove_suffix(2);
            where_ = Where::outside;
        } else if (line.ends_with('\\')) {
            line.remove_suffix(1);
        }
        if (line.ends_with("\\n")) {
            line.remove_suffix(2);
        }
    }
    return true;
}

// --- survey

void TextDecoder::Survey::about(std::string_view line) {
    const auto value = [&](std::string_view key, std::string& found) {
        if (line.starts_with(key)) {
            found = line.substr(key.size());
        }
    };
    value(kRelease, release);
    value(kHost, host);
    value(kArch, arch);
    if (const size_t at = line.find(kLatencyTrace); at != std::string_view::npos && line.starts_with("# ")) {
        latency_format = true;
        const size_t on = line.find(" on ", at);
        release = on == std::string_view::npos ? release : line.substr(on + 4);
    }
    int64_t n = 0;
    if (line.starts_with(kCpusAvailable) && Scan(line.substr(kCpusAvailable.size())).number(n) && n > 0 &&
        n <= kMaxFileCpus) {
        cpus = std::max(cpus, static_cast<uint32_t>(n));
    }
}

TextDecoder::Survey TextDecoder::survey(const File& file) {
    Survey out;
    TraceLines lines(file);
    std::string_view line;
    bool any = false;
    while (lines.next(line)) {
        if (lines.number() <= kFrontLines || !any) {
            const std::string_view text = trimmed(line);
            if (const size_t at = text.find(": cpus=");
                at != std::string_view::npos && at + 7 < text.size() &&
                std::all_of(text.begin() + static_cast<ptrdiff_t>(at) + 7, text.end(), is_digit)) {
                several(file.path(), lines.number());
            }
            if (const size_t at = text.find("#P:");
                at != std::string_view::npos && (text.starts_with(kEntries) || text.starts_with(kLatency))) {
                int64_t n = 0;  // CPUs that were online; one that was idle throughout has no line
                if (Scan(text.substr(at + 3)).number(n) && n > 0 && n <= kMaxFileCpus) {
                    out.cpus = std::max(out.cpus, static_cast<uint32_t>(n));
                }
            }
            if (text.starts_with("cpus=")) {
                int64_t n = 0;
                Scan s(text.substr(5));
                if (s.number(n) && s.end() && n > 0 && n <= kMaxFileCpus) {
                    out.cpus = static_cast<uint32_t>(n);
                    out.by_header = out.trace_cmd = true;
                }
            }
            out.tracefs = out.tracefs || text.starts_with("# tracer:");
            if (!any) {
                out.about(text);
            }
            if (!any && lines.number() > kPatience) {
                break;
            }
        }
        LineHead head;
        const size_t open = line.substr(0, 96).find('[');
        if (any && open != std::string_view::npos) {
            // Only the numbers: what is not an event is found out when the line is read.
            uint32_t cpu = 0;
            size_t n = open + 1;
            while (n < line.size() && n < open + 7 && is_digit(line[n])) {
                cpu = cpu * 10 + static_cast<uint32_t>(line[n++] - '0');
            }
            // A name may hold the first bracket, and a console's time stand before it.
            const bool other = n == open + 1 || n >= line.size() || line[n] != ']';
            const int64_t cpus = std::max<int64_t>(cpu, last_cpu(line)) + 1;
            if ((other || cpus > out.cpus) && parse_head(line, head)) {
                const int64_t sure = std::max<int64_t>(head.cpu, last_cpu(line)) + 1;
                out.cpus = sure <= kMaxFileCpus ? std::max(out.cpus, static_cast<uint32_t>(sure)) : out.cpus;
            }
        } else if (parse_head(line, head)) {
            any = true;
            const int64_t sure = std::max<int64_t>(head.cpu, last_cpu(line)) + 1;
            if (!out.by_header && sure <= kMaxFileCpus) {
                out.cpus = std::max(out.cpus, static_cast<uint32_t>(sure));
            }
        }
        if (any && out.by_header) {
            return out;
        }
    }
    if (!any && out.latency_format) {
        throw Error(file.path() +
                    ": tracefs' latency-format with the option verbose, or of a clock that counts no time, is not "
                    "read: `echo 0 > options/latency-format` in the folder of the trace, and print it again");
    }
    if (!any) {
        throw Error(file.path() +
                    (lines.html()
                         ? ": an HTML page without a trace of ftrace in its script elements"
                         : ": text, but no line of it is an event of ftrace (COMM-TID [CPU] TIME: EVENT: ...)") +
                    "; give a trace of trace-cmd report, perf script, tracefs or systrace");
    }
    out.cpus = std::max(out.cpus, 1U);
    return out;
}

// --- events

TextDecoder::TextDecoder(const std::string& path, size_t most)
    : file_(path),
      survey_(survey(file_)),
      lines_(file_),
      sink_(survey_.cpus, most, "line"),
      pending_(survey_.cpus, kNone) {
    style_.cpu_lists = survey_.trace_cmd;
}

std::unique_ptr<Batch> TextDecoder::next() {
    if (!more_) {
        return nullptr;
    }
    sink_.start();
    std::string_view text;
    while (sink_.room()) {
        if (!lines_.next(text)) {
            more_ = false;
            for (uint32_t cpu = 0; cpu < pending_.size(); ++cpu) {
                if (pending_[cpu] != kNone) {
                    sink_.problems.add("lost events after the last event of a CPU", "CPU " + std::to_string(cpu));
                    sink_.loss_at_end(cpu, pending_[cpu]);
                }
            }
            if (unnamed_ > named_) {
                sink_.problems.add(
                    "most lines have no event's name where it stands in trace-cmd report, perf script and "
                    "tracefs: nothing of them is read",
                    "");
            }
            break;
        }
        line(text);
    }
    return sink_.take();
}

void TextDecoder::line(std::string_view text) {
    LineHead head;
    if (!lines_.cut() && parse_head(text, head)) [[likely]] {
        return event(head);
    }
    const std::string_view what = trimmed(text);
    if (lines_.cut() || !(note(what) || lost_line(what))) {
        const bool call_chain = !lines_.cut() && survey_.cpus > 0 && !what.empty() && text.front() == '\t' &&
                                std::all_of(what.begin(), what.begin() + std::min<ptrdiff_t>(8, std::ssize(what)),
                                            [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
        sink_.problems.add(lines_.cut() ? "line of more than 65536 bytes, skipped"
                           : call_chain ? "line of a call chain, skipped"
                                        : "line that is no event, skipped",
                           "line " + std::to_string(lines_.number()));
        if (!call_chain) {
            unread(what);
        }
    }
}

/// Counts the event that a skipped line is of, as one without a row.
void TextDecoder::unread(std::string_view what) {
    for (const std::string_view name :
         {"sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task"}) {
        const size_t at = what.find(name);
        if (at != std::string_view::npos && at > 0 && (what[at - 1] == ' ' || what[at - 1] == ':') &&
            what.substr(at + name.size()).starts_with(": ")) {
            ++sink_.counter(name, true);
            return;
        }
    }
}

/// Comments and headers.
bool TextDecoder::note(std::string_view what) {
    const size_t counts = what.starts_with(kEntries)   ? kEntries.size()
                          : what.starts_with(kLatency) ? std::min(what.find(", #"), what.size() - 3) + 3
                                                       : 0;
    if (counts > 0) {
        Scan s(what.substr(counts));
        int64_t kept = 0, written = 0;
        s.blanks();
        if (s.number(kept) && s.lit("/") && s.number(written) && written > kept) {
            overwritten_ += static_cast<uint64_t>(written - kept);
        }
        return true;
    }
    if (what.starts_with("cpus=") && first_seen_) {
        several(file_.path(), lines_.number());
    }
    return what.empty() || what.starts_with('#') || what.starts_with("cpus=") || what.starts_with("version = ") ||
           (what.starts_with("CPU ") && what.ends_with(" is empty")) || what == "TRACE:" || latencies(what) ||
           what.starts_with("capturing trace") || what == "done";
}

/// CPU:3 [LOST 12 EVENTS], CPU:3 [LOST EVENTS] (tracefs), CPU:3 [12 EVENTS DROPPED], CPU:3 [EVENTS DROPPED] (trace-cmd).
bool TextDecoder::lost_line(std::string_view what) {
    Scan s(what);
    int64_t cpu = 0, lost = kUnknown;
    if (!s.lit("CPU:") || !s.number(cpu) || !s.lit(" [")) {
        return false;
    }
    const bool tracefs = s.lit("LOST ");
    if (is_digit(s.peek())) {
        if (!s.number(lost) || !s.lit(" ")) {
            return false;
        }
    }
    if (!s.lit(tracefs ? "EVENTS]" : "EVENTS DROPPED]") || cpu < 0) {
        return false;
    }
    if (cpu >= sink_.cpus()) {
        sink_.problems.add("events lost on a CPU that has none", "line " + std::to_string(lines_.number()));
        return true;
    }
    int64_t& before = pending_[static_cast<size_t>(cpu)];
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    before = before >= 0 && lost >= 0 ? before + std::min(lost, kMost - before) : before == kUnknown ? kUnknown : lost;
    return true;
}

const TextDecoder::Known& TextDecoder::known(const LineHead& head) {
    const std::string_view name = head.event.empty() ? "(unnamed)" : head.event;
    const size_t hash = name.size() * 7 + static_cast<uint8_t>(name.back()) * 3 +
                        static_cast<uint8_t>(name[name.size() / 2]) * 5 +
                        static_cast<uint8_t>(name[name.size() * 3 / 4]);
    Known& k = recent_[hash % recent_.size()];
    if (k.count == nullptr || k.name != name) {
        k.name = name;
        k.event = text_event(name, head.body);
        k.count = &sink_.counter(name, k.event.kind != TextKind::none);
    }
    return k;
}

void TextDecoder::event(const LineHead& head) {
    if (!first_seen_) {
        first_seen_ = true;
        source_ = head.source;
    } else if (head.source != source_) [[unlikely]] {
        several(file_.path(), lines_.number());
    }
    At at;
    at.ns = head.ns;
    at.cpu = head.cpu;
    at.tid = head.tid >= 0 ? head.tid : sink_.running(head.cpu);
    at.where = lines_.number();
    if (head.cpu >= sink_.cpus()) [[unlikely]] {
        sink_.problems.add("event of a CPU above the number that the file begins with, skipped",
                           "line " + std::to_string(lines_.number()));
        return;
    }
    if (head.event.empty() && head.body.starts_with("PERF_RECORD_LOST")) {
        Scan s(
            head.body.substr(head.body.find(' ') == std::string_view::npos ? head.body.size() : head.body.find(' ')));
        int64_t lost = kUnknown;
        if (!s.lit(" lost ") || !s.number(lost)) {
            lost = kUnknown;
        }
        sink_.loss(at.cpu, at.ns, lost);
        return;
    }
    int64_t& lost = pending_[head.cpu];
    if (lost != kNone) [[unlikely]] {
        sink_.loss(at.cpu, at.ns, lost);
        lost = kNone;
    }
    ++(head.event.empty() ? unnamed_ : named_);
    const Known& k = known(head);
    ++*k.count;
    if (k.event.kind == TextKind::none) {
        sink_.pass(at);
        return;
    }
    sink_.see(at);
    ++(head.has_flags ? with_flags_ : without_flags_);
    ++decimals_[head.decimals];
    at.irq_ctx = head.has_flags ? head.irq_ctx : sink_.rebuilt_ctx(at.cpu);
    if (!read_body(k.event, head.body, head.lead, at, style_, sink_) &&
        !(plain_numbers(head.body) && read_body(k.event, numbers_, head.lead, at, style_, sink_))) {
        sink_.problems.add("event whose text cannot be read, skipped: " + escape(k.name),
                           "line " + std::to_string(lines_.number()));
    }
}

/// tracefs with the option `fields` prints KEY=0xHEX (DECIMAL): `numbers_` is the text with KEY=DECIMAL. False: it has
/// none.
bool TextDecoder::plain_numbers(std::string_view body) {
    numbers_.clear();
    size_t copied = 0;
    for (size_t at = body.find("=0x"); at != std::string_view::npos; at = body.find("=0x", at + 1)) {
        const size_t open = body.find_first_not_of("0123456789abcdef", at + 3);
        if (open == std::string_view::npos || !body.substr(open).starts_with(" (")) {
            continue;
        }
        const size_t close = body.find_first_not_of("-0123456789", open + 2);
        if (close != std::string_view::npos && body[close] == ')') {
            numbers_.append(body.substr(copied, at + 1 - copied)).append(body.substr(open + 2, close - open - 2));
            copied = close + 1;
        }
    }
    numbers_.append(body.substr(copied));
    return copied > 0;
}

// --- what the text says of itself

std::string TextDecoder::dialect() const {
    return lines_.html()       ? "systrace HTML"
           : survey_.trace_cmd ? "trace-cmd report"
           : survey_.tracefs   ? "tracefs"
                               : "lines of events";
}

std::string TextDecoder::uname() const {
    const Survey& s = survey_;
    return s.release.empty() || s.host.empty() || s.arch.empty() ? ""
                                                                 : "Linux " + s.host + " " + s.release + " " + s.arch;
}

std::vector<std::string> TextDecoder::missing() const {
    std::vector<std::string> out;
    size_t least = decimals_.size();
    for (size_t i = decimals_.size(); i-- > 1;) {
        least = decimals_[i] > 0 ? i : least;
    }
    if (least < 9) {
        std::string unit = "1";
        for (size_t i = least; i < 9; ++i) {
            unit += '0';
        }
        out.push_back("time finer than " + unit + " ns: the order of events in the same " + unit +
                      " ns is that of the lines");
    }
    if (decimals_[0] > 0) {
        out.emplace_back(
            "the unit of the times, which are whole numbers: taken as ns (the clocks counter, uptime and "
            "x86-tsc count something else)");
    }
    if (without_flags_ > 0) {
        out.emplace_back(
            sink_.saw_irqs()
                ? "the flags of a line: whether a wakeup came from an interrupt is rebuilt from the irq and "
                  "softirq events"
                : "the flags of a line: wakeups from an interrupt cannot be told, all read as from a task");
    }
    if (style_.plugin_switch) {
        out.emplace_back(
            "whether a task that was switched out runnable was preempted (R and R+ print alike), and X from "
            "Z: trace-cmd's plugin");
    }
    if (style_.uncertain_states > 0) {
        out.push_back("the letters of prev_state: " + std::to_string(style_.uncertain_states) +
                      " raw numbers whose meaning depends on the kernel read \"other\"");
    }
    if (overwritten_ > 0) {
        out.push_back(std::to_string(overwritten_) +
                      " events that were overwritten before the text was printed, on CPUs that it does not name");
    }
    out.push_back(std::string(survey_.release.empty() ? "kernel, " : "") + (uname().empty() ? "uname, " : "") +
                  "clock and topology of the machine");
    return out;
}

}  // namespace rewake::decode
