// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks of a recording: dense numbers for (tid, generation), and their names over time. Numbers 0..n_cpus-1 are the
// idle tasks (tid 0, one a CPU). A tid gets a new generation when it is forked again, or when it is seen after its last
// switch-out (state X or Z).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectors/decode/comm.hpp"

namespace rewake::decode {

inline constexpr uint32_t kTids = 1U << 22;  // PID_MAX_LIMIT: every tid is below

class Tasks {
  public:
    enum class Source : uint8_t { idle, fork, first_sight };  // codes of forms ENUMS["task_source"]
    static constexpr int64_t kNever = INT64_MIN;
    static constexpr uint32_t kNoParent = UINT32_MAX;
    static constexpr uint16_t kNowhere = UINT16_MAX;

    struct Task {
        uint32_t tid, generation, parent;
        Source source;
        bool dead;
        uint16_t cpu;  ///< of its last switch, in or out; kNowhere: none yet
        int64_t first_ns, exit_ns;  // kNever: not seen
    };
    /// One row each time a task's name changes.
    struct Name {
        uint32_t task;
        int64_t from_ns;
        uint32_t comm;
    };

    explicit Tasks(uint32_t n_cpus);
    /// Keeps ids for the idle tasks of so many CPUs, before any task is seen: a snapshot may have CPUs that no event is
    /// of.
    void reserve_idle(uint32_t n_cpus);

    /// The task with this tid, seen at `ns` on `cpu`; tid 0 is the idle task of `cpu`. tid < kTids, cpu < n_cpus.
    [[nodiscard, gnu::always_inline]] uint32_t see(uint32_t tid, uint32_t cpu, int64_t ns) {
        if (tid == 0) {
            if (all_[cpu].first_ns == kNever) [[unlikely]] {
                all_[cpu].first_ns = ns;
            }
            return cpu;
        }
        const uint32_t* page = pages_[tid >> kPageBits].get();
        const uint32_t task = page != nullptr ? page[tid & (kPage - 1)] : kNone;
        if (task == kNone || all_[task].dead) [[unlikely]] {
            return start(tid, kNoParent, Source::first_sight, ns);
        }
        return task;
    }

    /// The living task with this tid, when it was seen before. 0 < tid < kTids.
    [[nodiscard]] std::optional<uint32_t> known(uint32_t tid) const {
        const uint32_t* page = pages_[tid >> kPageBits].get();
        const uint32_t task = page != nullptr ? page[tid & (kPage - 1)] : kNone;
        return task == kNone || all_[task].dead ? std::nullopt : std::optional(task);
    }

    /// A fork: always a new generation. tid 0 (an idle task that is being set up) gives the idle task of `cpu`.
    uint32_t fork(uint32_t tid, uint32_t parent, uint32_t cpu, int64_t ns) {
        return tid == 0 ? see(0, cpu, ns) : start(tid, parent, Source::fork, ns);
    }
    void exit(uint32_t task, int64_t ns) { all_[task].exit_ns = ns; }
    /// It was switched in or out on `cpu`. True: its switch before was on another CPU.
    bool switched(uint32_t task, uint32_t cpu) {
        const uint16_t before = std::exchange(all_[task].cpu, static_cast<uint16_t>(cpu));
        return before != cpu && before != kNowhere;
    }
    /// It was switched out for the last time.
    void dead(uint32_t task) { all_[task].dead = task >= n_cpus_; }

    /// The task had this name at `ns`. `p` holds at least `n` bytes; no more than 16 count.
    [[gnu::always_inline]] void name(uint32_t task, const uint8_t* p, uint32_t n, int64_t ns) {
        if (n == sizeof(CommBytes)) [[likely]] {
            if (std::memcmp(raw_[task].data(), p, sizeof(CommBytes)) == 0) [[likely]] {
                return;
            }
            std::memcpy(raw_[task].data(), p, sizeof(CommBytes));
            return rename(task, comm_bytes(p, n), ns);
        }
        raw_[task] = comm_bytes(p, n);
        rename(task, raw_[task], ns);
    }

    [[nodiscard]] const std::vector<Task>& all() const { return all_; }
    [[nodiscard]] const std::vector<Name>& names() const { return names_; }
    [[nodiscard]] const CommDictionary& comms() const { return comms_; }

  private:
    static constexpr CommBytes kUnnamed = {'\0', '\xff', '\xff',
                                           '\xff'};  // no kernel name, so that even "" is a change
    static constexpr uint32_t kPageBits = 12, kPage = 1U << kPageBits, kNone = UINT32_MAX;

    uint32_t start(uint32_t tid, uint32_t parent, Source source, int64_t ns);
    void rename(uint32_t task, const CommBytes& name, int64_t ns);

    uint32_t n_cpus_ = 0;
    std::vector<Task> all_;
    std::vector<CommBytes> raw_;  // last bytes seen, with what follows the NUL: a cheap test for "same as before"
    std::vector<uint32_t> comm_;  // number of the current name
    std::vector<std::unique_ptr<uint32_t[]>> pages_;  // tid to its newest task
    std::vector<Name> names_;
    CommDictionary comms_;
};

}  // namespace rewake::decode
