// SPDX-License-Identifier: GPL-2.0-or-later
// The parts that policies are made of (policies.md A13): a step reads the View and the policy's private state, and
// either decides or leaves its result in the Ctx for the next one. Constants are fixed when the step is made.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/policies/policy.hpp"
#include "replay/policies/steps/reasons.hpp"

namespace rewake {

/// Stages of A13; the steps of a policy are ordered by them, and conformance runs parts of a policy by them.
enum class Stage : uint8_t { book_in, admission, gate, walk, affine, slow, probe, scan, fallback, check };

/// One decision on its way through the steps.
struct Ctx {
    const View& v;
    const Wakeup& w;
    const Topology& t;
    PolicyState& s;
    const CpuMask* dirty;  ///< CPUs changed by this policy's own earlier picks; nullptr: none
    const CpuMask& idle;   ///< idle predicate of the kernel (IDLE or AVAIL)
    const CpuMask& soft;   ///< CPUs that count as usable besides (SIDLE), or the empty set
    CpuMask* in_turn = nullptr;  ///< `idle`, where some CPU of View::turns is in it or was
    Decision& d;           ///< the caller's: a copy on the way out would stall on its narrow stores
    Reasons* reasons = nullptr;  ///< where the steps tell why; nullptr in replay
    Cpu target{};       ///< `new` of A4, handed to select-idle-sibling
    bool sync = false;  ///< WF_SYNC as the class sees it
    bool want_affine = false;
    bool related = false;  ///< seed 2: p and curr are wakeup buddies; after the affine step: and p is pulled
    int affine_domain = Topology::kNone;  ///< lowest level that pulls: index into Topology::domains
    int slow_domain = Topology::kNone;    ///< level where the slow path starts (A4.5): index into Topology::domains
    std::optional<Cpu> prev_aff{}, recent_aff{};  ///< idle prev and recent CPU outside target's cluster (6.8+)

    void look(uint32_t inputs) { d.looked |= inputs; }
    /// Notes that the decision depends on the state of `c`.
    void touch(Cpu c) {
        if (dirty && dirty->test(c)) d.exposed = true;
    }
    /// The same for each CPU of a set.
    void touch(const CpuMask& set) {
        for (int i = 0; dirty && i < t.words; ++i)
            if (dirty->w[i] & set.w[i]) d.exposed = true;
    }
    /// USABLE(c) of the column.
    bool usable(Cpu c) {
        touch(c);
        if (idle.test(c)) return true;
        if (!soft_empty()) look(kIdlePolicy);
        return soft.test(c);
    }
    /// AVAIL(c) for what comes before the search: it looks when the search begins to, not when the placement ends.
    bool avail(Cpu c) const { return in_turn ? in_turn->test(c) : v.avail.test(c); }
    bool soft_empty() const { return &soft == &none(); }
    /// Word `i` of the usable CPUs, for scans.
    uint64_t usable_word(unsigned i) const { return idle.w[i] | soft.w[i]; }
    /// Notes the CPUs of the set that a scan met in wrap order from `start` up to `stop`.
    template <class Word>
    void scanned(Words words, unsigned start, Cpu stop, Word word) {
        d.scanned = static_cast<uint16_t>(d.scanned + count_in_wrap(words, start, stop, word));
        if (dirty && any_in_wrap(words, start, stop, [&](unsigned i) { return word(i) & dirty->w[i]; }))
            d.exposed = true;
    }
    /// Notes that a scan met all of the set.
    template <class Word>
    void scanned_all(Words words, Word word) {
        d.scanned = static_cast<uint16_t>(d.scanned + count_all(words, word));
        for (unsigned i = words.begin(); dirty && i < words.end(); ++i)
            if (word(i) & dirty->w[i]) d.exposed = true;
    }
    /// A search examines the CPUs of a set one after the other in wrap order from `start`: from now on each is idle if it was
    /// when the search came to it (View::turns).
    template <class Word>
    void look_in_turn(Words words, unsigned start, Word word) {
        if (!in_turn) [[likely]]
            return;
        for (const Turns::Turn& turn : v.turns.since)
            if (word(turn.cpu.v >> 6) >> (turn.cpu.v & 63) & 1)
                in_turn->assign(
                    turn.cpu,
                    v.turns.idle(turn.cpu, v.turns.from + v.turns.step * count_in_wrap(words, start, turn.cpu, word)));
    }
    bool decide(Cpu c, Branch b) {
        d.cpu = c;
        d.branch = b;
        return true;
    }
    static const CpuMask& none() {
        static constexpr CpuMask empty{};
        return empty;
    }
};

/// Tells a reason (Reasons::say) where somebody listens. A macro, so that its arguments are worked out only then.
#define WHY(ctx, ...)                                 \
    do {                                              \
        if ((ctx).reasons) [[unlikely]]               \
            (ctx).reasons->say((ctx).t, __VA_ARGS__); \
    } while (false)

/// One step. Immutable after construction.
class Step {
  public:
    /// `inputs`: every Input bit that it may look at.
    Step(Stage stage, std::string text, uint32_t inputs = 0) : stage_(stage), inputs_(inputs), text_(std::move(text)) {}
    virtual ~Step() = default;
    /// True: decided (Ctx::decide); the steps up to Stage::check are skipped.
    virtual bool run(Ctx&) const = 0;
    Stage stage() const { return stage_; }
    const std::string& text() const { return text_; }  ///< one line for `policies show`
    uint32_t inputs() const { return inputs_; }

  private:
    Stage stage_;
    uint32_t inputs_;
    std::string text_;
};

using Steps = std::vector<std::unique_ptr<const Step>>;

/// A condition that a probe adds to its own (filter chain of A13). Immutable after construction.
class Filter {
  public:
    explicit Filter(std::string text, uint32_t inputs = 0) : inputs_(inputs), text_(std::move(text)) {}
    virtual ~Filter() = default;
    virtual bool passes(Ctx&, Cpu) const = 0;
    const std::string& text() const { return text_; }
    uint32_t inputs() const { return inputs_; }

  private:
    uint32_t inputs_;
    std::string text_;
};

using Filters = std::vector<std::shared_ptr<const Filter>>;

}  // namespace rewake
