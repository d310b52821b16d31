// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/steps_in_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "replay/engine/panel.hpp"

namespace rewake {
namespace {

constexpr size_t kMost = 31;
using Weights = std::array<float, kMost>;

/// How often the balancer may have run so far, and did.
struct Runs {
    int32_t chances = 0, writes = 0;
    bool operator==(const Runs&) const = default;
};

class Chain {
  public:
    Chain(const StepRules& r, int32_t highest_model) : r_(r), k_(r.values.size()) {
        if (k_ < 1 || k_ > kMost) throw std::invalid_argument("1 to 31 values of nr_idle_scan expected");
        for (int32_t m = 0; m <= highest_model; ++m) {
            Weights w{};
            float sum = 0;
            for (size_t i = 0; i < k_; ++i)
                sum += w[i] = std::exp(-static_cast<float>(std::abs(r.values[i] - m)) / r.reach);
            for (size_t i = 0; i < k_; ++i) w[i] /= sum;
            priors_.push_back(w);
        }
        for (size_t n = 0; n < kPowers; ++n) {
            kept_.push_back(std::pow(r.kept, static_cast<float>(n)));
            stays_.push_back(std::pow(r.stays, static_cast<float>(n)));
        }
    }
    const Weights& prior(int32_t model) const {
        return priors_[static_cast<size_t>(std::clamp<int64_t>(model, 0, static_cast<int64_t>(priors_.size()) - 1))];
    }
    /// That it is the same at both times.
    float stays(const Runs& from, const Runs& to) const {
        const int32_t writes = std::abs(to.writes - from.writes), chances = std::abs(to.chances - from.chances);
        return power(kept_, r_.kept, writes) * power(stays_, r_.stays, std::max(0, chances - writes));
    }
    bool tells(uint32_t agreed) const {
        const uint32_t all = (1u << k_) - 1;
        return (agreed & all) != 0 && (agreed & all) != all;
    }
    void hear(Weights& w, uint32_t agreed, uint8_t searched) const {
        const float doubt = searched < PanelAnswers::unasked_prev ? r_.doubt : r_.hint;
        float most = 0;
        for (size_t i = 0; i < k_; ++i) most = std::max(most, w[i] *= (agreed >> i & 1) ? 1.f : doubt);
        for (size_t i = 0; i < k_; ++i) w[i] /= most;  // only ratios matter; none becomes 0
        for (size_t i = 0; i < k_; ++i) w[i] = std::max(w[i], 1e-12f);
    }
    /// What `w` says of a time so much later; a jump lands by `prior`.
    void later(Weights& w, float stays, const Weights& prior) const {
        if (stays == 1) return;
        float sum = 0;
        for (size_t i = 0; i < k_; ++i) sum += w[i];
        for (size_t i = 0; i < k_; ++i) w[i] = stays * w[i] + (1 - stays) * sum * prior[i];
    }
    /// What `w`, said of a time so much later, says of now.
    void earlier(Weights& w, float stays, const Weights& prior) const {
        if (stays == 1) return;
        float mean = 0;
        for (size_t i = 0; i < k_; ++i) mean += prior[i] * w[i];
        for (size_t i = 0; i < k_; ++i) w[i] = stays * w[i] + (1 - stays) * mean;
    }
    size_t size() const { return k_; }

  private:
    static constexpr size_t kPowers = 64;
    static float power(const std::vector<float>& known, float base, int32_t n) {
        const auto at = static_cast<size_t>(n);
        return at < known.size() ? known[at] : std::pow(base, static_cast<float>(n));
    }
    const StepRules& r_;
    size_t k_;
    std::vector<float> kept_, stays_;  ///< their first powers
    std::vector<Weights> priors_;
};

/// What a block and everything behind it say of the time of its first vote.
struct Behind {
    Runs at{};
    int32_t model = 0;
    int64_t block = 0;
    Weights says{};
};

/// Of one LLC.
struct State {
    bool heard = false;
    Runs at{};  ///< at the latest vote
    int32_t model = 0;  ///< there
    Weights says{};
    std::vector<Behind> behind;  ///< latest first
    bool told = false;  ///< the next three hold something
    int64_t told_block = 0;
    Runs told_at{};
    int32_t told_value = 0;
};

}  // namespace

LlcSteps steps_in_time(const StepRules& rules, const StepVotes& votes) {
    const size_t n = votes.n, llcs = static_cast<size_t>(std::max(votes.n_llcs, 0));
    LlcSteps out{{votes.model_prev, votes.model_prev + n}, {votes.model_waker, votes.model_waker + n}};
    int32_t highest = 0;
    for (size_t i = 0; i < n; ++i) {
        highest = std::max({highest, out.prev[i], out.waker[i]});
        if (votes.llc_prev[i] >= llcs || votes.llc_waker[i] >= llcs)
            throw std::invalid_argument("nr_idle_scan of an LLC that does not exist");
    }
    const Chain chain(rules, std::min(highest, 1 << 16));
    std::vector<State> states(llcs);
    auto speaks = [&](size_t i) { return votes.searched[i] != PanelAnswers::nowhere && chain.tells(votes.agreed[i]); };
    auto runs = [&](size_t i, bool prev) {
        return prev ? Runs{votes.chances_prev[i], votes.writes_prev[i]}
                    : Runs{votes.chances_waker[i], votes.writes_waker[i]};
    };
    size_t llc = 0;
    int32_t model = 0;
    Runs at;
    auto of = [&](size_t i) {
        const bool prev = votes.searched[i] == PanelAnswers::at_prev || votes.searched[i] == PanelAnswers::unasked_prev;
        llc = prev ? votes.llc_prev[i] : votes.llc_waker[i];
        model = prev ? votes.model_prev[i] : votes.model_waker[i];
        at = runs(i, prev);
    };
    for (size_t i = rules.causal ? 0 : n; i-- > 0;) {
        if (!speaks(i)) continue;
        of(i);
        State& s = states[llc];
        if (!s.heard)
            s.says.fill(1);
        else
            chain.earlier(s.says, chain.stays(at, s.at), chain.prior(s.model));
        chain.hear(s.says, votes.agreed[i], votes.searched[i]);
        s.heard = true, s.at = at, s.model = model;
        const int64_t block = votes.ts[i] / rules.block;
        if (s.behind.empty() || s.behind.back().block != block) s.behind.emplace_back();
        s.behind.back() = {at, model, block, s.says};
    }
    for (State& s : states) s.heard = false;
    auto likeliest = [&](State& s, int64_t block, const Runs& here, int32_t modelled) {
        const Weights& prior = chain.prior(modelled);
        Weights w = prior;
        if (s.heard) {
            w = s.says;
            chain.later(w, chain.stays(s.at, here), prior);
        }
        while (!s.behind.empty() && s.behind.back().block <= block) s.behind.pop_back();
        if (!s.heard && s.behind.empty()) return modelled;
        if (!s.behind.empty()) {
            Weights b = s.behind.back().says;
            chain.earlier(b, chain.stays(here, s.behind.back().at), chain.prior(s.behind.back().model));
            for (size_t v = 0; v < chain.size(); ++v) w[v] *= b[v];
        }
        auto off = [&](size_t v) { return std::abs(rules.values[v] - modelled); };
        size_t best = 0;
        for (size_t v = 1; v < chain.size(); ++v)
            if (w[v] > w[best] || (w[v] == w[best] && off(v) < off(best))) best = v;
        return rules.values[best];
    };
    auto hear = [&](size_t i) {
        of(i);
        State& s = states[llc];
        if (s.heard)
            chain.later(s.says, chain.stays(s.at, at), chain.prior(model));
        else
            s.says = chain.prior(model);
        chain.hear(s.says, votes.agreed[i], votes.searched[i]);
        s.heard = true, s.at = at;
    };
    // What is heard does not change within a block.
    auto value = [&](uint16_t of_llc, int64_t block, const Runs& here, int32_t modelled) {
        State& s = states[of_llc];
        if (rules.causal || !s.told || s.told_block != block || s.told_at != here) {
            s.told_value = likeliest(s, block, here, modelled);
            s.told = s.heard || !s.behind.empty();
            s.told_block = block, s.told_at = here;
        }
        return s.told ? s.told_value : modelled;
    };
    size_t unheard = 0;  // first wakeup that nobody has heard yet
    int64_t unheard_block = n ? votes.ts[0] / rules.block : 0;
    for (size_t i = 0; i < n; ++i) {
        const int64_t block = votes.ts[i] / rules.block;
        while (unheard < i && (rules.causal || unheard_block != block)) {
            if (speaks(unheard)) hear(unheard);
            unheard_block = votes.ts[++unheard] / rules.block;
        }
        out.prev[i] = value(votes.llc_prev[i], block, runs(i, true), votes.model_prev[i]);
        out.waker[i] = value(votes.llc_waker[i], block, runs(i, false), votes.model_waker[i]);
    }
    return out;
}

}  // namespace rewake
