// SPDX-License-Identifier: GPL-2.0-or-later
// wakee_flips of the tasks that are older than the recording. Their rule (policies.md A3) is exact from a first known
// value on, but no event tells that value, nor when it was last halved: hypotheses stand for both.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "replay/model/events.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// What a task began with. Tasks inherit flips from their parents, so those of one session begin with the same number, and
/// then each adds to it at a rate of its own.
struct FirstFlips {
    uint32_t flips = 0;  ///< what all had
    float grown_s = 0;   ///< for so long each added what it adds at the beginning of the recording
    float halved_s = 0;  ///< so long after the recording's start they are halved for the first time; 0: when next due
    /// What a task begins with that adds so many per second.
    uint32_t at_start(float rate) const { return flips + static_cast<uint32_t>(grown_s * rate); }
    /// When its flips were halved last, in jiffies; `start`: of the recording.
    uint64_t decayed(uint64_t start, uint32_t hz) const {
        return start - hz - 1 + static_cast<uint64_t>(halved_s * static_cast<float>(hz));
    }
};

/// One hypothesis: what tasks began with, and some of them otherwise.
struct FlipHypothesis {
    FirstFlips all;
    std::unordered_map<uint32_t, FirstFlips> own{};  ///< by TaskId
    const FirstFlips& of(TaskId t) const {
        const auto found = own.find(t.v);
        return found == own.end() ? all : found->second;
    }
    /// Else tasks begin with none.
    bool says() const { return all.flips > 0 || all.grown_s > 0 || !own.empty(); }
};

/// Flips per second of every task, as a waker, at the beginning of the recording.
std::vector<float> flip_rates(const WakingColumns& first);

class FlipHypotheses {
  public:
    static constexpr size_t kMost = 32;

    /// 1 to kMost hypotheses. Throws std::invalid_argument.
    FlipHypotheses(const std::vector<FlipHypothesis>& first, uint32_t hz);
    size_t size() const { return first_.size(); }
    /// The recording begins at `jiffies`. Call before anything below.
    void begin(uint64_t jiffies, const std::vector<float>& rates);
    /// What a task has under one of them.
    void give(PolicyState::Task& state, TaskId t, size_t which) {
        const Row& r = row(t);
        state.flips = r.flips[which];
        state.decay_ts = r.decay[which];
    }
    /// The value is known: it was recorded. Where it is half of what an earlier one has become, the task's last call halved
    /// it, and so the time of the next halving is known as well. Where the hypothesis halved what the task began with, and
    /// the kernel did not, it was not due yet, and neither is what others have from the same ancestor.
    void know(TaskId t, uint32_t flips);
    /// Those of both were, or an ancestor's.
    bool recorded(TaskId a, TaskId b) { return row(a).recorded && row(b).recorded; }
    void fork(TaskId parent, TaskId child);
    /// Does to the waker what record_wakee() did to it between these two states.
    void follow(const Wakeup& w, const PolicyState::Task& before, const PolicyState::Task& after) {
        if (called(w, after)) count(w.curr, static_cast<uint32_t>(w.jiffies), switched(before, after));
    }
    /// record_wakee() of the waker at `now`; `switched`: to another wakee than before.
    void count(TaskId curr, uint32_t now, bool switched);
    static bool called(const Wakeup& w, const PolicyState::Task& after) {
        return after.has_last_wakee && after.last_wakee == w.p;
    }
    static bool switched(const PolicyState::Task& before, const PolicyState::Task& after) {
        return before.last_wakee != after.last_wakee || !before.has_last_wakee;
    }
    /// Bit h: wake_wide() under the h-th.
    uint32_t wide(TaskId curr, TaskId p, int factor);
    /// Bit h: wake_wide() with the waker under the h-th and the wakee under the first, and the other way round. Where both
    /// stem from one task: with both under the h-th, and under the first.
    std::pair<uint32_t, uint32_t> wide_apart(TaskId curr, TaskId p, int factor);
    /// The task of which it has its first flips: itself, or an ancestor that was there before the recording.
    TaskId origin(TaskId t) { return row(t).origin; }

  private:
    using Each = std::array<uint32_t, kMost>;  ///< by hypothesis; what is behind the last has no meaning
    struct Row {
        Each flips{};
        Each decay{};  ///< jiffies
        uint32_t called = 0;  ///< jiffy of its last call
        bool known = false;
        bool recorded = false;  ///< its flips were once, or an ancestor's
        bool halved = false;  ///< what it began with was, under some hypothesis
        bool first_halved = false;  ///< by its last call
        TaskId origin{};
    };
    Row& row(TaskId t) { return t.v < rows_.size() && rows_[t.v].known ? rows_[t.v] : first_seen(t); }
    Row& first_seen(TaskId t);
    /// Bit h: wake_wide() of those, of both in turn. `b`: of one value.
    uint32_t wide(const Each& a, const Each& b, int factor) const;
    uint32_t wide(const Each& a, uint32_t b, int factor) const;
    std::vector<FlipHypothesis> first_;
    uint32_t same_ = 0;  ///< a bit for each
    uint32_t hz_;
    uint32_t start_ = 0;
    std::vector<float> rates_;
    std::vector<Row> rows_;
    std::vector<uint32_t> not_before_;  ///< by origin: its first flips were halved then, jiffies, or later
};

/// Decisions of which wake_wide() is another if one of both tasks began with something else.
struct FlipsApart {
    std::vector<uint32_t> row, curr, p;  ///< of the recording; FlipHypotheses::origin() of waker and wakee
    std::vector<uint32_t> of_curr, of_p;  ///< FlipHypotheses::wide_apart()
};

/// What changes wakee_flips in a recording and who asks for them, so that more hypotheses can be tried than were at first.
/// It ends after kMost steps: by then the flips that tasks began with have been halved often enough. Of many steps all
/// but the last lie in a file without a name.
class FlipCourse {
  public:
    void begin(uint64_t jiffies, const std::vector<float>& rates) { start_ = jiffies, rates_ = rates; }
    void fork(TaskId parent, TaskId child) { add({.curr = parent.v, .p = child.v, .fork = true}); }
    /// The decision in `row` of the recording; `factor` of wake_wide(), 0 where it is not asked for; `recorded`: flips of the
    /// wakee.
    void woke(const Wakeup& w, const PolicyState::Task& before, const PolicyState::Task& after, int64_t row, int factor,
              std::optional<uint32_t> recorded = {});
    /// Per row: bit h: wake_wide() under the h-th hypothesis. Throws std::runtime_error where steps cannot be read
    /// back.
    std::vector<uint32_t> wide(const std::vector<FlipHypothesis>& first, uint32_t hz) const;
    /// The same of single tasks that began otherwise: as `tries` say of them, where the others began as `base` says. At most
    /// FlipHypotheses::kMost - 1. Of the rows that `asked` has.
    FlipsApart apart(const FlipHypothesis& base, const std::vector<FlipHypothesis>& tries,
                     const std::vector<bool>& asked, uint32_t hz) const;

  private:
    struct Step {
        uint32_t curr = 0, p = 0;  ///< or parent and child
        uint32_t jiffies = 0, row = 0, flips = 0;  ///< flips: of the wakee, where `recorded`
        uint8_t factor = 0;
        bool called = false, switched = false, fork = false, recorded = false;
    };
    template <typename Take>
    void walk(FlipHypotheses& flips, Take take) const;
    static constexpr size_t kMost = size_t{1} << 20, kHeld = size_t{1} << 15;
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    bool full() const { return written_ + steps_.size() == kMost; }
    void add(const Step& s);
    std::vector<Step> steps_;
    std::unique_ptr<std::FILE, Close> file_;  ///< those before, `written_`
    size_t written_ = 0;
    uint64_t start_ = 0;
    std::vector<float> rates_;
};

/// wakee_flips as far as they are certain: from one recorded value of a task or of an ancestor on, by events and the rule
/// alone. A value is lost where a call may have halved it, or may have counted or not.
class KnownFlips {
  public:
    void begin(uint64_t jiffies, uint32_t hz) { start_ = static_cast<uint32_t>(jiffies), hz_ = hz; }
    std::optional<uint32_t> of(TaskId t) { return row(t).flips; }
    /// A recorded value: taken once, and only where it is certain when it is halved next.
    void see(TaskId t, uint32_t flips);
    void fork(TaskId parent, TaskId child);
    /// record_wakee() of the waker between these two states, in jiffy `first` or `last`.
    void follow(const Wakeup& w, const PolicyState::Task& before, const PolicyState::Task& after, uint64_t first,
                uint64_t last);

  private:
    /// When a task's flips were halved last, in jiffies: one of two, where a call fell on the edge between jiffies.
    struct Halved {
        uint32_t first = 0, second = 0;
        bool exact = false;  ///< else: in `second` or before
    };
    struct Row {
        std::optional<uint32_t> flips;
        Halved halved;
        bool called = false;
    };
    Row& row(TaskId t) {
        if (t.v >= rows_.size()) rows_.resize(t.v + 1 + t.v / 2, Row{.flips = {}, .halved = {start_, start_}});
        return rows_[t.v];
    }
    uint32_t start_ = 0, hz_ = 0;
    std::vector<Row> rows_;
};

}  // namespace rewake
