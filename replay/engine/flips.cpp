// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/flips.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "replay/policies/steps/wakee.hpp"

namespace rewake {

namespace {

constexpr Ns kBeginning = 100'000'000;

/// So many hypotheses go through a step at once: what x86-64 and arm64 have vector instructions for.
constexpr size_t kLanes = 4;

/// More flips than any task has, and few enough that signed numbers hold them, for which those instructions are.
constexpr uint32_t kMostFlips = uint32_t{1} << 30;

constexpr uint32_t kNever = 0xffffffff;

/// The later of two times in jiffies, which wrap.
uint32_t later(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0 ? a : b; }

constexpr auto kBit = [] {
    std::array<uint32_t, FlipHypotheses::kMost> out{};
    for (size_t h = 0; h < out.size(); ++h) out[h] = uint32_t{1} << h;
    return out;
}();

/// Bit h: whether `holds(h)`.
template <typename Holds>
uint32_t each(Holds holds) {
    std::array<uint32_t, kLanes> out{};
    for (size_t first = 0; first < FlipHypotheses::kMost; first += kLanes)
        for (size_t k = 0; k < kLanes; ++k) out[k] |= -static_cast<uint32_t>(holds(first + k)) & kBit[first + k];
    return out[0] | out[1] | out[2] | out[3];
}

}  // namespace

std::vector<float> flip_rates(const WakingColumns& first) {
    std::vector<float> out;
    std::vector<uint32_t> last;
    size_t i = 0;
    for (; i < first.n && first.ts[i] - first.ts[0] < kBeginning; ++i) {
        const uint32_t curr = first.curr_task[i], p = first.task[i];
        if (curr == p) continue;
        if (curr >= out.size()) out.resize(curr + 1 + curr / 2), last.resize(out.size(), 0xffffffff);
        if (std::exchange(last[curr], p) != p) out[curr] += 1;
    }
    if (i == 0) return out;
    const auto span = static_cast<float>(std::max<Ns>(first.ts[i - 1] - first.ts[0], 1'000'000));
    for (float& n : out) n *= 1e9f / span;
    return out;
}

FlipHypotheses::FlipHypotheses(const std::vector<FlipHypothesis>& first, uint32_t hz) : first_(first), hz_(hz) {
    if (first.empty() || first.size() > kMost)
        throw std::invalid_argument("1 to 32 hypotheses of wakee_flips expected");
    same_ = static_cast<uint32_t>((uint64_t{1} << first.size()) - 1);
}

void FlipHypotheses::begin(uint64_t jiffies, const std::vector<float>& rates) {
    start_ = static_cast<uint32_t>(jiffies);
    rates_ = rates;
}

FlipHypotheses::Row& FlipHypotheses::first_seen(TaskId t) {
    if (t.v >= rows_.size()) rows_.resize(t.v + 1 + t.v / 2);
    Row& r = rows_[t.v];
    r.known = true;
    r.origin = t;
    const float rate = t.v < rates_.size() ? rates_[t.v] : 0;
    for (size_t h = 0; h < first_.size(); ++h) {
        const FirstFlips& first = first_[h].of(t);
        r.flips[h] = std::min(first.at_start(rate), kMostFlips);
        r.decay[h] = static_cast<uint32_t>(first.decayed(start_, hz_));
    }
    return r;
}

void FlipHypotheses::know(TaskId t, uint32_t flips) {
    Row& r = row(t);
    // Few flips are halved to what a flip more or less could be; and some may have come after.
    auto halved = [](uint32_t before, uint32_t after) { return before >= 4 && 4 * after <= 3 * before; };
    if (r.recorded && r.first_halved && halved(flips, r.flips[0])) {
        const uint32_t least = r.called - hz_;  // else they had been due
        const uint32_t then = later(least, least + (start_ - least) / 2);
        if (r.origin.v >= not_before_.size()) not_before_.resize(r.origin.v + 1 + r.origin.v / 2, kNever);
        uint32_t& known = not_before_[r.origin.v];
        known = known == kNever ? then : later(known, then);
        r.decay.fill(then);
        r.halved = false;
    }
    for (size_t h = 0; h < first_.size(); ++h)
        if (r.recorded && halved(r.flips[h], flips)) r.decay[h] = r.called;
    r.flips.fill(std::min(flips, kMostFlips));
    r.recorded = true;
}

void FlipHypotheses::fork(TaskId parent, TaskId child) {
    const Row copy = row(parent);
    if (child.v >= rows_.size()) rows_.resize(child.v + 1 + child.v / 2);
    rows_[child.v] = copy;
}

void FlipHypotheses::count(TaskId curr, uint32_t now, bool switched) {
    Row& r = row(curr);
    r.called = now;
    if (!r.halved && r.origin.v < not_before_.size() && not_before_[r.origin.v] != kNever)
        for (uint32_t& at : r.decay) at = later(at, not_before_[r.origin.v]);
    uint32_t halves = 0;
    for (size_t h = 0; h < first_.size(); ++h) {
        const bool due = static_cast<int32_t>(now - (r.decay[h] + hz_)) > 0;
        r.flips[h] = (due ? r.flips[h] >> 1 : r.flips[h]) + uint32_t{switched};
        r.decay[h] = due ? now : r.decay[h];
        halves |= uint32_t{due};
    }
    r.first_halved = halves != 0 && !r.halved;
    r.halved |= halves != 0;
}

uint32_t FlipHypotheses::wide(const Each& a, const Each& b, int factor) const {
    if (factor <= 0) return same_;
    const int32_t far = std::numeric_limits<int32_t>::max() / factor;
    const auto holds = [&](size_t h) {
        const auto x = static_cast<int32_t>(a[h]), y = static_cast<int32_t>(b[h]);
        const int32_t most = std::max(x, y), least = std::min(x, y);
        return (least >= factor) & (most >= std::min(least, far) * factor);
    };
    return each(holds) & same_;
}

uint32_t FlipHypotheses::wide(const Each& a, uint32_t b, int factor) const {
    if (factor <= 0) return same_;
    if (b < static_cast<uint32_t>(factor)) return 0;
    const auto most_below = static_cast<int32_t>(b / static_cast<uint32_t>(factor));
    const auto least_above =
        static_cast<int32_t>(std::min<int64_t>(int64_t{b} * factor, std::numeric_limits<int32_t>::max()));
    const auto holds = [&](size_t h) {
        const auto x = static_cast<int32_t>(a[h]);
        return ((x >= factor) & (x <= most_below)) | (x >= least_above);
    };
    return each(holds) & same_;
}

uint32_t FlipHypotheses::wide(TaskId curr, TaskId p, int factor) {
    row(std::max(curr, p));
    return wide(row(curr).flips, row(p).flips, factor);
}

std::pair<uint32_t, uint32_t> FlipHypotheses::wide_apart(TaskId curr, TaskId p, int factor) {
    row(std::max(curr, p));
    const Row &a = row(curr), &b = row(p);
    if (a.origin != b.origin) return {wide(a.flips, b.flips[0], factor), wide(b.flips, a.flips[0], factor)};
    const uint32_t both = wide(a.flips, b.flips, factor);
    return {both, both & 1 ? same_ : 0};
}

void FlipCourse::add(const Step& s) {
    if (full()) return;
    if (steps_.size() == kHeld) {
        if (!file_) file_.reset(std::tmpfile());
        if (file_) std::fseek(file_.get(), 0, SEEK_END);  // wide() has read
        // Where there is no room for a file they stay here.
        if (file_ && std::fwrite(steps_.data(), sizeof(Step), kHeld, file_.get()) == kHeld)
            written_ += kHeld, steps_.clear();
    }
    steps_.push_back(s);
}

void FlipCourse::woke(const Wakeup& w, const PolicyState::Task& before, const PolicyState::Task& after, int64_t row,
                      int factor, std::optional<uint32_t> recorded) {
    if (full()) return;
    const bool called = FlipHypotheses::called(w, after);
    if (called || factor || recorded)
        add({.curr = w.curr.v,
             .p = w.p.v,
             .jiffies = static_cast<uint32_t>(w.jiffies),
             .row = static_cast<uint32_t>(row),
             .flips = recorded.value_or(0),
             .factor = static_cast<uint8_t>(factor),
             .called = called,
             .switched = FlipHypotheses::switched(before, after),
             .recorded = recorded.has_value()});
}

/// Takes `flips` through all steps, and has `take` those that ask for wake_wide().
template <typename Take>
void FlipCourse::walk(FlipHypotheses& flips, Take take) const {
    flips.begin(start_, rates_);
    const auto follow = [&](const Step& s) {
        const TaskId curr(s.curr), p(s.p);
        if (s.fork) return flips.fork(curr, p);
        if (s.recorded) flips.know(p, s.flips);
        if (s.called) flips.count(curr, s.jiffies, s.switched);
        if (s.factor) take(s);
    };
    std::vector<Step> before(std::min(written_, kHeld));
    if (file_) std::rewind(file_.get());
    for (size_t n = 0; n < written_; n += kHeld) {
        if (std::fread(before.data(), sizeof(Step), kHeld, file_.get()) != kHeld)
            throw std::runtime_error("the course of wakee_flips cannot be read back");
        std::for_each(before.begin(), before.end(), follow);
    }
    std::for_each(steps_.begin(), steps_.end(), follow);
}

std::vector<uint32_t> FlipCourse::wide(const std::vector<FlipHypothesis>& first, uint32_t hz) const {
    FlipHypotheses flips(first, hz);
    std::vector<uint32_t> out;
    walk(flips, [&](const Step& s) {
        out.resize(std::max<size_t>(out.size(), s.row + size_t{1}));
        out[s.row] = flips.wide(TaskId(s.curr), TaskId(s.p), s.factor);
    });
    return out;
}

FlipsApart FlipCourse::apart(const FlipHypothesis& base, const std::vector<FlipHypothesis>& tries,
                             const std::vector<bool>& asked, uint32_t hz) const {
    std::vector<FlipHypothesis> all{base};
    all.insert(all.end(), tries.begin(), tries.end());
    FlipHypotheses flips(all, hz);
    const auto same = static_cast<uint32_t>((uint64_t{1} << all.size()) - 1);
    FlipsApart out;
    walk(flips, [&](const Step& s) {
        if (s.row >= asked.size() || !asked[s.row]) return;
        const auto [of_curr, of_p] = flips.wide_apart(TaskId(s.curr), TaskId(s.p), s.factor);
        const uint32_t none = of_curr & 1 ? same : 0;
        if (of_curr == none && of_p == none) return;
        out.row.push_back(s.row);
        out.curr.push_back(flips.origin(TaskId(s.curr)).v), out.p.push_back(flips.origin(TaskId(s.p)).v);
        out.of_curr.push_back(of_curr), out.of_p.push_back(of_p);
    });
    return out;
}

void KnownFlips::see(TaskId t, uint32_t flips) {
    Row& r = row(t);
    if (r.flips || (!r.halved.exact && r.called)) return;
    r.flips = flips;
}

void KnownFlips::fork(TaskId parent, TaskId child) {
    const Row copy = row(parent);
    row(child) = copy;
}

void KnownFlips::follow(const Wakeup& w, const PolicyState::Task& before, const PolicyState::Task& after,
                        uint64_t first, uint64_t last) {
    if (!FlipHypotheses::called(w, after)) return;
    Row& r = row(w.curr);
    std::array<uint32_t, 4> halved{};  // when last, after this call, under each of what may be
    size_t n = 0;
    bool always = true, never = r.halved.exact;
    for (const uint32_t before_it : {r.halved.first, r.halved.second})
        for (const auto now : {static_cast<uint32_t>(first), static_cast<uint32_t>(last)}) {
            const bool due = static_cast<int32_t>(now - (before_it + hz_)) > 0;
            always &= due, never &= !due;
            halved[n++] = due ? now : before_it;
        }
    if ((!always && !never) || !before.has_last_wakee) r.flips.reset();
    if (r.flips) *r.flips = (always ? *r.flips >> 1 : *r.flips) + FlipHypotheses::switched(before, after);
    const auto earlier = [](uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; };
    const auto [least, most] = std::minmax_element(halved.begin(), halved.end(), earlier);
    const bool two =
        std::all_of(halved.begin(), halved.end(), [&](uint32_t at) { return at == *least || at == *most; });
    if (r.halved.exact || always)
        r.halved = {*least, *most, two};
    else
        r.halved = {static_cast<uint32_t>(last), static_cast<uint32_t>(last), false};
    r.called = true;
}

}  // namespace rewake
