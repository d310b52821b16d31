// SPDX-License-Identifier: GPL-2.0-or-later
// A plugin's answers to the decisions of a recording: written by the process that runs it, as it goes, and replayed by the
// process that waits for it. So a plugin that dies leaves all its answers up to then, and the ledger is made in one place.
#pragma once

#include <memory>
#include <string>

#include "replay/plugin/mapped.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// Codes of the ledger's branch column for plugins: the built-in ones, `OWN`, then the plugin's names.
inline constexpr uint8_t kOwnBranch = static_cast<uint8_t>(Branch::count_);
inline constexpr int kMaxBranches = 32;  ///< names that a plugin may bring

struct Answer {
    int32_t cpu;  ///< as the plugin returned it: any number; kUndecided: it has no answer
    uint32_t looked;
    uint16_t scanned;
    uint8_t branch;
    uint8_t flags;
    static constexpr int32_t kUndecided = -1;
    static constexpr uint8_t kAnswered = 1, kExposed = 2;
};

/// Answers by decision_id; zeros where the plugin was not asked, or died.
class AnswerLog {
  public:
    AnswerLog(const std::string& path, size_t decisions)
        : file_(path, decisions * sizeof(Answer)), n_(decisions), at_(static_cast<Answer*>(file_.data())) {}
    /// Throws std::invalid_argument for a decision that the recording does not have.
    Answer& operator[](int64_t decision) const;

  private:
    MappedFile file_;
    size_t n_;
    Answer* at_;
};

/// Whether a policy may answer `cpu`: it exists, is online, and is allowed (as long as any allowed CPU is online).
bool valid_answer(const Topology& t, const Wakeup& w, int32_t cpu);

/// Answers with a CPU that was not valid.
struct InvalidAnswers {
    int64_t n = 0, first = -1;  ///< how many; decision_id of the first
    int32_t cpu = 0;  ///< of the first
    void add(int64_t decision, int32_t answer) {
        if (n++ == 0) first = decision, cpu = answer;
    }
};

/// Answers again what a plugin answered. Decisions without a valid answer are undecided.
class AnsweredPolicy final : public Policy {
  public:
    /// `branches`: number of branch codes.
    AnsweredPolicy(std::shared_ptr<const AnswerLog> log, std::shared_ptr<InvalidAnswers> invalid, const Topology& topo,
                   int branches)
        : log_(std::move(log)), invalid_(std::move(invalid)), topo_(topo), branches_(branches) {}
    Decision decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu recorded) override;

  private:
    std::shared_ptr<const AnswerLog> log_;
    std::shared_ptr<InvalidAnswers> invalid_;
    const Topology& topo_;
    int branches_;
};

}  // namespace rewake
