// SPDX-License-Identifier: GPL-2.0-or-later
// Who answers whom, as inferred from the recording (class Serving), and what that adds to the scripts.
#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Serving::woken(TaskId t, const TaskId* waker, Ns ts) {
    Task& x = tasks_[t.v];
    if (!std::exchange(x.asleep, false)) return;
    x.woken_at = ts;
    ++x.sleeps;
    if (!waker) return;
    Task& m = tasks_[waker->v];
    m.several = m.several || (m.answers > 0 && m.answered != t);
    m.answered = t;
    ++m.answers;
    m.slept_on += m.woken_at > x.asleep_at + kOrder;
}

std::vector<bool> Serving::servers() const {
    std::vector<bool> out;
    for (const Task& t : tasks_)
        out.push_back(t.several && t.answers >= kFewest && t.sleeps >= kFewest && t.slept_on * 20 <= t.sleeps);
    return out;
}

namespace {

/// One client's script, anew.
class Client {
  public:
    Client(const Script& script, const std::vector<bool>& serves, const TaskScript& task)
        : script_(script), serves_(serves), ops_(task.ops) {}

    /// The server that ends this sleep; kNone: none does.
    uint32_t answers(const Op& op) const {
        if (op.kind != Op::Kind::block || op.arg == kNone) return kNone;
        const Stim& s = script_.stims[op.arg];
        return s.source == Stim::Source::task && s.kind == Kind::wake && serves(s.curr) ? s.curr.v : kNone;
    }
    /// The server that is woken; kNone: none is.
    uint32_t asked(const Op& op) const {
        if (op.kind != Op::Kind::wake) return kNone;
        const Stim& s = script_.stims[op.arg];
        return s.kind == Kind::wake && serves(s.p) ? s.p.v : kNone;
    }
    /// Work between a request and the sleep that follows it at once.
    void leads(std::vector<std::vector<int64_t>>& by_server) const {
        for (size_t i = 1; i < ops_.size(); ++i)
            if (const uint32_t m = asked(ops_[i - 1]); m != kNone && answers(ops_[i]) == m)
                by_server[m].push_back(ops_[i].work);
    }
    /// Requests before the sleeps that had none in the recording, sleeps after the requests that had none.
    std::vector<Op> with_requests(const std::vector<int64_t>& lead) const;

  private:
    bool serves(TaskId t) const { return t.v < serves_.size() && serves_[t.v]; }
    /// What becomes of the request at `i`: the next sleep, end or request of the same server.
    size_t outcome(size_t i, uint32_t server) const {
        for (++i; i < ops_.size(); ++i)
            if (ops_[i].kind != Op::Kind::wake || asked(ops_[i]) == server) break;
        return i;
    }

    const Script& script_;
    const std::vector<bool>& serves_;
    const std::vector<Op>& ops_;
};

std::vector<Op> Client::with_requests(const std::vector<int64_t>& lead) const {
    // Who wakes a server for other reasons than to wait for it is no client of it.
    std::vector<std::pair<uint32_t, int>> waits;
    std::vector<std::pair<uint32_t, uint32_t>> any;
    const auto of = [](auto& list, uint32_t m) -> auto& {
        for (auto& [who, value] : list)
            if (who == m) return value;
        return list.emplace_back(m, 0).second;
    };
    for (size_t i = 0; i < ops_.size(); ++i) {
        if (const uint32_t m = asked(ops_[i]); m != kNone) {
            const size_t k = outcome(i, m);
            if (k < ops_.size()) of(waits, m) += answers(ops_[k]) == m ? 1 : -1;
        }
        if (const uint32_t m = answers(ops_[i]); m != kNone) of(any, m) = ops_[i].arg + 1;
    }
    std::vector<Op> out;
    out.reserve(ops_.size());
    uint32_t pending = kNone;  // asked for its next sleep
    int64_t taken = 0;  // of the work of the next op
    for (size_t i = 0; i < ops_.size(); ++i) {
        Op op = ops_[i];
        op.work -= std::exchange(taken, 0);
        const uint32_t server = answers(op);
        if (server != kNone && server != pending && lead[server] > 0 && op.work > lead[server]) {
            out.push_back({Op::Kind::ask, server, op.work - lead[server]});
            op.work = lead[server];
        }
        out.push_back(op);
        if (op.kind != Op::Kind::wake) pending = kNone;
        const uint32_t m = asked(op);
        if (m == kNone) continue;
        const size_t k = outcome(i, m);
        if (k >= ops_.size()) continue;
        if (answers(ops_[k]) == m) {
            pending = m;
        } else if (lead[m] > 0 && of(waits, m) > 0 && of(any, m) > 0 && ops_[i + 1].work > lead[m]) {
            out.push_back({Op::Kind::block, of(any, m) - 1, lead[m]});
            taken = lead[m];
        }
    }
    return out;
}

}  // namespace

void expect_answers(Script& script, const std::vector<bool>& serves) {
    if (std::ranges::none_of(serves, [](bool b) { return b; })) return;
    std::vector<std::vector<int64_t>> leads(serves.size());
    const auto is_server = [&](const TaskScript& t) { return t.id.v < serves.size() && serves[t.id.v]; };
    for (const TaskScript& t : script.tasks)
        if (!is_server(t)) Client(script, serves, t).leads(leads);
    std::vector<int64_t> lead(serves.size(), 0);
    for (size_t m = 0; m < leads.size(); ++m)
        if (!leads[m].empty()) lead[m] = middle(leads[m]);
    for (TaskScript& t : script.tasks)
        if (!is_server(t)) t.ops = Client(script, serves, t).with_requests(lead);
}

}  // namespace rewake::closed
