// SPDX-License-Identifier: GPL-2.0-or-later
// ftrace text to batches of columns: tracefs `trace`, `trace-cmd report` (also -l and -R), `perf script`, and
// atrace/systrace, as text or within HTML. One pass (two where the file does not begin by telling its number of CPUs),
// bounded memory. Lines keep their order: a time that steps back is counted, not sorted. What is not a line of an event
// is counted as a problem.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/decode/file.hpp"
#include "collectors/decode/sink.hpp"
#include "collectors/decode/text/body.hpp"
#include "collectors/decode/text/head.hpp"
#include "collectors/decode/text/lines.hpp"

namespace rewake::decode {

/// Lines of the trace among the lines of a file: all of them, or what HTML pages have in their script elements.
class TraceLines {
  public:
    explicit TraceLines(const File& file) : lines_(file) {}
    bool next(std::string_view& line);
    [[nodiscard]] uint64_t number() const { return lines_.number(); }
    [[nodiscard]] bool cut() const { return lines_.cut(); }
    [[nodiscard]] bool html() const { return html_; }

  private:
    bool within(std::string_view& line);

    Lines lines_;
    bool begun_ = false, html_ = false;
    enum class Where : uint8_t { outside, script, literal } where_ = Where::script;
};

class TextDecoder {
  public:
    /// `most`: events in a batch (at least 2). Throws Error, also when no line of the file is one of an event.
    TextDecoder(const std::string& path, size_t most);

    /// The next batch; null at the end. Throws Error.
    std::unique_ptr<Batch> next();

    [[nodiscard]] const Sink& sink() const { return sink_; }
    void reserve_idle(uint32_t n_cpus) { sink_.reserve_idle(n_cpus); }
    [[nodiscard]] std::vector<std::string> problems() const { return sink_.problems.lines(); }
    [[nodiscard]] uint32_t cpus() const { return sink_.cpus(); }
    /// "trace-cmd report", "perf script", "tracefs", "HTML".
    [[nodiscard]] std::string dialect() const;
    /// Release of the kernel, and what `uname` prints without its version; empty: the text does not say.
    [[nodiscard]] const std::string& kernel() const { return survey_.release; }
    [[nodiscard]] std::string uname() const;
    /// What the text does not carry, in words; complete at the end.
    [[nodiscard]] std::vector<std::string> missing() const;
    /// Every record says whether it comes from an interrupt; complete at the end.
    [[nodiscard]] bool tells_contexts() const { return without_flags_ == 0; }

  private:
    struct Survey {
        uint32_t cpus = 0;
        bool by_header = false, trace_cmd = false, tracefs = false, latency_format = false;
        std::string release, host, arch;  ///< of `perf script --header`; the first also of latency-format

        void about(std::string_view line);
    };
    static Survey survey(const File& file);

    void line(std::string_view line);
    void event(const LineHead& head);
    bool note(std::string_view line);
    bool lost_line(std::string_view line);
    void unread(std::string_view line);
    bool plain_numbers(std::string_view body);
    struct Known {
        std::string name;
        TextEvent event;
        uint64_t* count = nullptr;
    };
    const Known& known(const LineHead& head);

    File file_;
    Survey survey_;
    TraceLines lines_;
    Sink sink_;
    TextStyle style_;
    bool more_ = true;
    std::vector<int64_t> pending_;  // losses before the next event of a CPU: kNone, kUnknown or their number
    std::array<Known, 64> recent_;  // by a hash of the name
    uint64_t with_flags_ = 0, without_flags_ = 0;
    std::array<uint64_t, 10> decimals_{};  // lines by digits of their time
    uint64_t overwritten_ = 0;
    uint64_t named_ = 0, unnamed_ = 0;
    bool first_seen_ = false;
    std::string source_;  ///< LineHead::source of the first event
    std::string numbers_;  ///< see plain_numbers()

    static constexpr int64_t kNone = -2, kUnknown = -1;
};

}  // namespace rewake::decode
