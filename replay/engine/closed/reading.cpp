// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/reading.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Reading::sleeps(TaskId t) {
    Task& x = tasks_[t.v];
    if (x.works.size() < kMost && x.work > 0) x.works.push_back({x.work, x.waited});
    x.work = 0;
    x.woken_at = x.waited = -1;
}

void Reading::woken(TaskId t, TaskId waker, Ns ts) {
    Task& x = tasks_[t.v];
    x.woken_at = ts;
    const auto end = x.wakers.begin() + static_cast<std::ptrdiff_t>(x.n_wakers);
    if (x.n_wakers < kSeveral && std::find(x.wakers.begin(), end, waker.v) == end) x.wakers[x.n_wakers++] = waker.v;
}

/// After long waits it does half as much again as after others, and that is no chance (the rank sum of Wilcoxon, Mann and Whitney).
bool Reading::grows(std::vector<Work> works, int64_t first) {
    std::erase_if(works, [](const Work& k) { return k.waited < 0; });
    std::ranges::sort(works);
    const auto again = std::ranges::unique(works);  // to the nanosecond, as in a generated recording: one case
    works.erase(again.begin(), again.end());
    std::vector<int64_t> after_long, after_short;
    double ranks = 0;  // of those after long waits
    for (size_t i = 0; i < works.size(); ++i) {
        const bool is_long = works[i].waited * 1024 >= kLong * first;
        (is_long ? after_long : after_short).push_back(works[i].work);
        if (is_long) ranks += static_cast<double>(i + 1);
    }
    if (std::min(after_long.size(), after_short.size()) < kFewest / 2) return false;
    const auto n = static_cast<double>(works.size()), m = static_cast<double>(after_long.size());
    const double chance = std::sqrt(m * (n - m) * (n + 1) / 12);
    return ranks - m * (n + 1) / 2 >= kSure * chance && 2 * middle(after_long) >= 3 * middle(after_short);
}

std::vector<Pace> Reading::readers() const {
    std::vector<Pace> out(tasks_.size());
    std::vector<double> ratios;  // of the two, where they are known
    std::vector<size_t> unknown;
    for (size_t i = 0; i < tasks_.size(); ++i) {
        const Task& x = tasks_[i];
        if (x.works.size() < kFewest) continue;
        std::vector<int64_t> w;
        for (const Work& k : x.works) w.push_back(k.work);
        std::ranges::sort(w);
        const int64_t first = w[w.size() / 20], half = w[w.size() / 2];
        if ((x.n_wakers < kSeveral || half > kFew * first) && !grows(x.works, first)) continue;
        std::vector<int64_t> more;  // of those that read a second one
        for (int64_t v : w)
            if (v > first * 23 / 20 && v < 2 * first) more.push_back(v - first);
        out[i] = {first, first};
        if (more.size() < kFewest / 2) {
            unknown.push_back(i);
            continue;
        }
        out[i].next = more[more.size() / 4];
        ratios.push_back(static_cast<double>(out[i].next) / static_cast<double>(first));
    }
    if (ratios.empty()) return out;
    // Readers that sleep rarely are taken for such as the others are.
    const auto half = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::ranges::nth_element(ratios, half);
    for (size_t i : unknown)
        out[i].next = std::max<int64_t>(1, std::llround(*half * static_cast<double>(out[i].first)));
    return out;
}

namespace {

struct Insertion {
    uint32_t op = 0;
    int64_t done = 0;  ///< work towards that one
    Op::Kind kind = Op::Kind::read;
    uint32_t stim = kNone;
};

class Messages {
  public:
    Messages(Script& script, const std::vector<Pace>& paces, const std::vector<bool>& serves,
             const std::vector<std::vector<Stretch>>& stretches)
        : script_(script),
          paces_(paces),
          stretches_(stretches),
          ran_before_(stretches.size()),
          senders_(paces.size()),
          added_(script.tasks.size()) {
        const auto sends = [&](TaskId t) { return t.v >= serves.size() || !serves[t.v]; };
        for (const Stim& s : script.stims)
            if (s.ends && s.source == Stim::Source::task && s.kind == Kind::wake && paces[s.p.v].first > 0 &&
                sends(s.curr) && std::ranges::find(senders_[s.p.v], s.curr, &Sender::id) == senders_[s.p.v].end())
                senders_[s.p.v].push_back({s.curr});
        for (const std::vector<Sender>& of : senders_)
            for (const Sender& s : of) add_up(s.id);
    }
    void run() {
        for (const TaskScript& t : script_.tasks)
            if (paces_[t.id.v].first > 0 && !senders_[t.id.v].empty()) read(t);
        for (size_t i = 0; i < added_.size(); ++i)
            if (!added_[i].empty()) insert(script_.tasks[i].ops, added_[i]);
    }

  private:
    /// So many between two sleeps at most: of more, several are one.
    static constexpr int64_t kMost = 1000;
    static constexpr size_t kLookedAt = 256;  ///< of more senders, any so many are as good, if one of them ran
    struct Sender {
        TaskId id{};
        Ns ran = 0;  ///< by when it last sent something to that reader
    };

    void add_up(TaskId t) {
        if (!ran_before_[t.v].empty()) return;
        Ns ran = 0;
        for (const Stretch& x : stretches_[t.v]) ran_before_[t.v].push_back(std::exchange(ran, ran + x.to - x.from));
    }
    /// All that `t` read between two sleeps.
    void read(const TaskScript& t) {
        uint32_t begin = 0;
        uint32_t woken = t.first;
        for (uint32_t k = 0; k < t.ops.size(); ++k) {
            if (t.ops[k].kind == Op::Kind::wake || t.ops[k].kind == Op::Kind::exec) continue;
            if (woken != kNone && script_.stims[woken].source == Stim::Source::task) {
                seen(t.id, script_.stims[woken]);
                between(t, begin, k, woken);
            }
            begin = k + 1;
            woken = t.ops[k].kind == Op::Kind::block ? t.ops[k].arg : kNone;
        }
    }
    void between(const TaskScript& t, uint32_t begin, uint32_t end, uint32_t woken) {
        const Pace& pace = paces_[t.id.v];
        int64_t work = 0;
        for (uint32_t k = begin; k <= end; ++k) work += t.ops[k].work;
        const int64_t all = (work - pace.first + pace.next / 2) / pace.next;
        if (all <= 0) return;
        const int64_t each = (all + kMost - 1) / kMost;
        const std::vector<Stretch>& own = stretches_[t.id.v];
        auto at = std::ranges::lower_bound(own, begin, {}, &Stretch::op);
        const Ns from = script_.stims[woken].ts;
        uint32_t op = begin;
        int64_t before = 0;  // work of the ops before
        reads_.clear(), sent_.clear(), read_at_.clear();
        for (int64_t j = 0; j < all / each; ++j) {
            const int64_t offset = pace.first + j * each * pace.next - pace.next / 2;
            while (op < end && before + t.ops[op].work <= offset) before += t.ops[op++].work;
            const int64_t done = offset - before;
            while (at != own.end() &&
                   (at->op < op || (at->op == op && at->done + (at->to - at->from) * at->capacity < done)))
                ++at;
            if (at == own.end() || done > t.ops[op].work) break;
            reads_.push_back({op, done, Op::Kind::read, kNone});
            const Ns read_at = at->from + std::max<int64_t>(0, done - at->done) / at->capacity;
            const auto draw = static_cast<uint32_t>(script_.stims.size() + reads_.size());
            sent_.push_back(from + static_cast<Ns>(uniform(1, t.id.v, draw) * static_cast<double>(read_at - from)));
            read_at_.push_back(read_at);
        }
        // Any time before is as likely; what is read first was sent first.
        std::ranges::sort(sent_);
        for (size_t j = 0; j < reads_.size(); ++j) send(t.id, woken, sent_[j], read_at_[j], reads_[j]);
    }
    struct Place {
        const Stretch* in = nullptr;  ///< nullptr: it did not run then
        Ns ran = 0;  ///< how long it had by then
    };
    Place place(TaskId t, Ns at) const {
        const std::vector<Stretch>& all = stretches_[t.v];
        const auto next = std::ranges::upper_bound(all, at, {}, &Stretch::from);
        if (next == all.begin() || std::prev(next)->to < at) return {};
        const Stretch& in = *std::prev(next);
        return {&in, ran_before_[t.v][static_cast<size_t>(next - all.begin()) - 1] + at - in.from};
    }
    /// A message to `reader` that the recording shows.
    void seen(TaskId reader, const Stim& message) {
        for (Sender& s : senders_[reader.v])
            if (s.id == message.curr)
                if (const Place x = place(s.id, message.ts); x.in) s.ran = x.ran;
    }
    /// Of those who ran then, who had run longest since its last message to that reader: who sends to several does so in
    /// turn. Looks at them from `first` on; nullptr: nobody ran.
    std::pair<Sender*, Place> sender(TaskId reader, size_t first, Ns when) {
        std::vector<Sender>& senders = senders_[reader.v];
        std::pair<Sender*, Place> found{};
        auto& [by, at] = found;
        for (size_t i = 0; i < senders.size() && (!by || i < kLookedAt); ++i) {
            Sender& s = senders[(first + i) % senders.size()];
            const Place x = place(s.id, when);
            if (x.in && (!by || x.ran - s.ran > at.ran - by->ran)) by = &s, at = x;
        }
        return found;
    }
    /// The time next to `when` at which somebody ran who sends to that reader, from `from` until `until`; else `when`.
    Ns somebody_ran(TaskId reader, size_t first, Ns when, Ns from, Ns until) const {
        const std::vector<Sender>& senders = senders_[reader.v];
        std::optional<Ns> nearest;
        const auto look = [&](Ns at) {
            if (at >= from && at <= until && (!nearest || std::abs(at - when) < std::abs(*nearest - when)))
                nearest = at;
        };
        for (size_t i = 0; i < std::min(senders.size(), kLookedAt); ++i) {
            const std::vector<Stretch>& all = stretches_[senders[(first + i) % senders.size()].id.v];
            const auto next = std::ranges::upper_bound(all, when, {}, &Stretch::from);
            if (next != all.begin()) look(std::prev(next)->to);
            if (next != all.end()) look(next->from);
        }
        return nearest.value_or(when);
    }
    /// A message to `reader` which it reads at `in`, at `read_at`. Where nobody ran when it was sent, it was sent by who ran
    /// next to that.
    void send(TaskId reader, uint32_t woken, Ns sent, Ns read_at, Insertion in) {
        in.stim = static_cast<uint32_t>(script_.stims.size());
        const auto first =
            static_cast<size_t>(uniform(2, reader.v, in.stim) * static_cast<double>(senders_[reader.v].size()));
        auto [by, at] = sender(reader, first, sent);
        if (!by) {
            sent = somebody_ran(reader, first, sent, script_.stims[woken].ts, read_at);
            std::tie(by, at) = sender(reader, first, sent);
        }
        if (!by) return;
        by->ran = at.ran;
        Stim m = unseen(script_.stims[woken]);
        m.curr = by->id;
        m.ts = sent;
        script_.stims.push_back(m);
        added_[script_.of[reader.v]].push_back(in);
        added_[script_.of[by->id.v]].push_back(
            {at.in->op, at.in->done + (sent - at.in->from) * at.in->capacity, Op::Kind::wake, in.stim});
    }
    static void insert(std::vector<Op>& ops, std::vector<Insertion>& added) {
        std::ranges::stable_sort(
            added, [](const Insertion& a, const Insertion& b) { return a.op != b.op ? a.op < b.op : a.done < b.done; });
        std::vector<Op> out;
        out.reserve(ops.size() + added.size());
        size_t next = 0;
        for (uint32_t k = 0; k < ops.size(); ++k) {
            int64_t taken = 0;
            for (; next < added.size() && added[next].op == k; ++next) {
                const int64_t work = std::min(added[next].done, ops[k].work) - taken;
                out.push_back({added[next].kind, added[next].stim, work});
                taken += work;
            }
            out.push_back(ops[k]);
            out.back().work -= taken;
        }
        ops = std::move(out);
    }

    Script& script_;
    const std::vector<Pace>& paces_;
    const std::vector<std::vector<Stretch>>& stretches_;
    std::vector<std::vector<Ns>> ran_before_;  ///< by TaskId, for each of its stretches
    std::vector<std::vector<Sender>> senders_;  ///< by reader
    std::vector<Insertion> reads_;  ///< between two sleeps
    std::vector<Ns> sent_, read_at_;
    std::vector<std::vector<Insertion>> added_;  ///< by index of the script
};

}  // namespace

void add_messages(Script& script, const std::vector<Pace>& paces, const std::vector<bool>& serves,
                  const std::vector<std::vector<Stretch>>& stretches) {
    Messages(script, paces, serves, stretches).run();
}

/// A reader looks for a message: whether it goes on. `recorded`: it slept there in the recording. Where it does otherwise here,
/// that costs it the work of a sleep, or spares it that.
bool Simulation::finds(Task& t, bool recorded) {
    const bool found = !t.tokens.empty();
    if (found) {
        t.tokens.pop_back();  // they are all alike
        if (!recorded) return true;
        if (counted()) ++out_.early;
    } else {
        if (recorded) return false;
        if (owed_ <= 0) {
            ++t.ahead;
            return true;
        }
        --owed_;
    }
    spend_sleeps(t, found ? -1 : 1);
    return found;
}

/// `t` sleeps so many times more than in the recording.
void Simulation::spend_sleeps(Task& t, int more) {
    const int64_t before = t.left;
    t.left = std::max<int64_t>(0, t.left + more * (t.pace.first - t.pace.next));
    added_ += t.left - before;
}

/// A reader that has no message has made its last look: it sleeps, and what comes now wakes it.
bool Simulation::owes_a_sleep(const Task& t) {
    if (owed_ <= 0 || t.race != kNone) return false;
    settle(t.cpu);
    return t.left <= kLeaves * topo_.cap_orig[t.cpu.v];
}

/// A message comes to a reader.
void Simulation::message(const Stim& s, Cpu waker, TaskId curr) {
    Task& t = tasks_[s.p.v];
    const bool sleeps = t.state == Task::State::asleep && takes_any(t, t.waits_for) && !(t.leaving && t.race != kNone);
    if (t.ahead > 0 && (s.hidden || !sleeps)) {
        --t.ahead;
        owed_ += !s.hidden;
    } else if (sleeps && (t.misses || !s.hidden || owed_ > 0)) {
        owed_ += std::exchange(t.misses, false) - s.hidden;  // who missed one has been counted
        wake(t.waits_for, waker, curr);
    } else {
        const bool runs = t.state == Task::State::running && t.tokens.empty() && t.pos < t.script->ops.size();
        const Op next = runs ? t.script->ops[t.pos] : Op{};
        if (runs && !s.hidden && next.kind == Op::Kind::block && takes_any(t, next.arg) &&
            about_to_sleep(t, next.arg, waker, curr))
            return;
        if (runs && (next.kind == Op::Kind::read || next.kind == Op::Kind::block) && takes_any(t, next.arg) &&
            owes_a_sleep(t)) {
            owed_ -= s.hidden;
            t.race = t.race_by = next.arg, t.race_waker = waker, t.race_curr = curr, t.race_at = now_;
            return;
        }
        owed_ += !s.hidden && !sleeps;
        t.tokens.push_back({now_, curr});
    }
}

}  // namespace rewake::closed
