// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/reading.hpp"

#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Reading::sleeps(TaskId t) {
    Task& x = tasks_[t.v];
    if (x.works.size() < kMost && x.work > 0) x.works.push_back(x.work);
    x.work = 0;
}

void Reading::woken(TaskId t, TaskId waker) {
    Task& x = tasks_[t.v];
    const auto end = x.wakers.begin() + static_cast<std::ptrdiff_t>(x.n_wakers);
    if (x.n_wakers < kSeveral && std::find(x.wakers.begin(), end, waker.v) == end) x.wakers[x.n_wakers++] = waker.v;
}

std::vector<Pace> Reading::readers() const {
    std::vector<Pace> out(tasks_.size());
    for (size_t i = 0; i < tasks_.size(); ++i) {
        const Task& x = tasks_[i];
        if (x.n_wakers < kSeveral || x.works.size() < kFewest) continue;
        std::vector<int64_t> w = x.works;
        std::ranges::sort(w);
        const int64_t first = w[w.size() / 20], half = w[w.size() / 2];
        if (half > kFew * first) continue;
        std::vector<int64_t> more;  // of those that read a second one
        for (int64_t v : w)
            if (v > first * 23 / 20 && v < 2 * first) more.push_back(v - first);
        out[i].first = first;
        out[i].next = more.size() < kFewest / 2 ? first : more[more.size() / 4];
    }
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
        : script_(script), paces_(paces), stretches_(stretches), senders_(paces.size()), added_(script.tasks.size()) {
        const auto sends = [&](TaskId t) { return t.v >= serves.size() || !serves[t.v]; };
        for (const Stim& s : script.stims)
            if (s.ends && s.source == Stim::Source::task && s.kind == Kind::wake && paces[s.p.v].first > 0 &&
                sends(s.curr) && std::ranges::find(senders_[s.p.v], s.curr) == senders_[s.p.v].end())
                senders_[s.p.v].push_back(s.curr);
    }
    void run() {
        for (const TaskScript& t : script_.tasks)
            if (paces_[t.id.v].first > 0 && !senders_[t.id.v].empty()) read(t);
        for (size_t i = 0; i < added_.size(); ++i)
            if (!added_[i].empty()) insert(script_.tasks[i].ops, added_[i]);
    }

  private:
    /// So many between two sleeps at most: of more, several are one.
    static constexpr int64_t kMost = 64;

    /// All that `t` read between two sleeps.
    void read(const TaskScript& t) {
        uint32_t begin = 0;
        uint32_t woken = t.first;
        for (uint32_t k = 0; k < t.ops.size(); ++k) {
            if (t.ops[k].kind == Op::Kind::wake) continue;
            if (woken != kNone && script_.stims[woken].source == Stim::Source::task) between(t, begin, k, woken);
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
        for (int64_t j = 0; j < all / each; ++j) {
            const int64_t offset = pace.first + j * each * pace.next - pace.next / 2;
            while (op < end && before + t.ops[op].work <= offset) before += t.ops[op++].work;
            const int64_t done = offset - before;
            while (at != own.end() &&
                   (at->op < op || (at->op == op && at->done + (at->to - at->from) * at->capacity < done)))
                ++at;
            if (at == own.end() || done > t.ops[op].work) return;
            const Ns read_at = at->from + std::max<int64_t>(0, done - at->done) / at->capacity;
            send(t.id, woken, from, read_at, {op, done, Op::Kind::read, kNone});
        }
    }
    /// What `reader` reads at `in` was sent after `from`, when it was woken, by somebody who ran then: any time is as likely.
    void send(TaskId reader, uint32_t woken, Ns from, Ns read_at, Insertion in) {
        in.stim = static_cast<uint32_t>(script_.stims.size());
        const Ns sent = from + static_cast<Ns>(uniform(1, reader.v, in.stim) * static_cast<double>(read_at - from));
        const std::vector<TaskId>& senders = senders_[reader.v];
        const auto first = static_cast<size_t>(uniform(2, reader.v, in.stim) * static_cast<double>(senders.size()));
        for (size_t i = 0; i < senders.size(); ++i) {
            const TaskId s = senders[(first + i) % senders.size()];
            const std::vector<Stretch>& ran = stretches_[s.v];
            auto k = std::ranges::upper_bound(ran, sent, {}, &Stretch::from);
            if (k == ran.begin() || (--k)->to < sent) continue;
            Stim m = unseen(script_.stims[woken]);
            m.curr = s;
            m.ts = sent;
            script_.stims.push_back(m);
            added_[script_.of[reader.v]].push_back(in);
            added_[script_.of[s.v]].push_back(
                {k->op, k->done + (sent - k->from) * k->capacity, Op::Kind::wake, in.stim});
            return;
        }
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
    std::vector<std::vector<TaskId>> senders_;
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
    const int64_t before = t.left, more = t.pace.first - t.pace.next;
    t.left = std::max<int64_t>(0, t.left + (found ? -more : more));
    added_ += t.left - before;
    return found;
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
        owed_ += !s.hidden && !sleeps;
        t.tokens.push_back({now_, curr});
    }
}

}  // namespace rewake::closed
