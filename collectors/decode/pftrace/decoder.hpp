// SPDX-License-Identifier: GPL-2.0-or-later
// A Perfetto trace's ftrace events to batches of columns, straight from the protobuf wire format. Not through
// trace_processor, for three reasons. It leaves events out and says nothing: of 7,177 compact wakings of a recording its
// table holds 7,174 and its `stats` no error (tests/decode/test_pftrace.py compares); here each is a row or a counted
// problem. Losses there are counters without a place; here a gap is a row at its time on its CPU, and what is known of
// the CPU before it is forgotten. And it is an external binary that is downloaded on first use, needs 4 bytes of memory
// a byte of trace, and would have to be asked for millions of rows by SQL.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectors/decode/file.hpp"
#include "collectors/decode/format/prev_state.hpp"
#include "collectors/decode/merge.hpp"
#include "collectors/decode/pftrace/index.hpp"
#include "collectors/decode/pftrace/stream.hpp"
#include "collectors/decode/sink.hpp"

namespace rewake::decode {

class PftraceDecoder {
  public:
    /// `most`: events in a batch (at least 2). Throws Error, also when the file has compressed packets (unpack them
    /// first; `compressed` says so beforehand) or no ftrace events.
    PftraceDecoder(const std::string& path, size_t most);

    /// Whether the file has compressed packets. Throws Error.
    static bool compressed(const std::string& path);

    /// The next batch; null at the end. Throws Error.
    std::unique_ptr<Batch> next();

    [[nodiscard]] const Sink& sink() const { return sink_; }
    void reserve_idle(uint32_t n_cpus) { sink_.reserve_idle(n_cpus); }
    [[nodiscard]] std::vector<std::string> problems() const;
    [[nodiscard]] const PftraceIndex& index() const { return index_; }
    /// Name of the clock of the events.
    [[nodiscard]] const char* clock() const;
    /// What the file does not carry, in words; complete at the end.
    [[nodiscard]] std::vector<std::string> missing() const;
    /// Every record says whether it comes from an interrupt; complete at the end.
    [[nodiscard]] bool tells_contexts() const { return no_flags_ == 0; }

  private:
    /// Who runs on a CPU, as far as it is known.
    struct Running {
        int64_t tid = -1;
        bool whole = false;  // `who` is known, too
        Who who;
    };

    void visit(const PfStream& s);
    void full(const PfEvent& e, At& at);
    void compact_switch(const PfEvent& e, At& at);
    uint8_t context(const PfEvent& e, uint32_t cpu);
    void run(uint32_t cpu, const Who& who) { running_[cpu] = {who.tid, true, who}; }

    File file_;
    Problems reading_;  // of the index and the streams
    PftraceIndex index_;
    Sink sink_;
    std::optional<Merge<PfStream>> merge_;
    bool by_release_ = false;  // set by the next one's making
    PrevStates states_;
    bool more_ = true;
    std::vector<Running> running_;
    std::vector<uint64_t*> counters_;  // by field of FtraceEvent
    uint64_t* compact_counts_[2]{};
    uint64_t no_flags_ = 0, compact_ = 0;
};

}  // namespace rewake::decode
