// SPDX-License-Identifier: GPL-2.0-or-later
// Who answers whom: as inferred from the recording (class Serving), what that adds to the scripts, and how it goes.
#include <algorithm>
#include <array>
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
    if (x.votes == 0) x.by = *waker;
    x.votes += x.by == *waker ? 1 : -1;
    m.alone += x.by == *waker;
    ++m.answers;
    m.slept_on += m.woken_at > x.asleep_at + kOrder;
}

std::vector<bool> Serving::servers() const {
    std::vector<bool> out;
    for (const Task& t : tasks_)
        out.push_back(t.several && t.answers >= kFewest && t.alone * 10 >= t.answers * 9 && t.sleeps >= kFewest &&
                      t.slept_on * 20 <= t.sleeps);
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
    static bool goes_on(const Op& op) {
        return op.kind == Op::Kind::wake || op.kind == Op::Kind::read || op.kind == Op::Kind::exec ||
               op.kind == Op::Kind::exiting;
    }
    /// What becomes of the request at `i`: the next sleep, end or request of the same server.
    size_t outcome(size_t i, uint32_t server) const {
        for (++i; i < ops_.size(); ++i)
            if (!goes_on(ops_[i]) || asked(ops_[i]) == server) break;
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
        if (!goes_on(op)) pending = kNone;
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

void find_shared(Script& script, const std::vector<bool>& serves) {
    static constexpr size_t kSeveral = 3;
    const auto is_server = [&](TaskId t) { return t.v < serves.size() && serves[t.v]; };
    std::vector<std::array<uint32_t, kSeveral>> wakers(script.of.size());
    std::vector<uint8_t> seen(script.of.size());
    script.shared.assign(script.of.size(), false);
    for (const Stim& s : script.stims) {
        if (s.p.v >= script.of.size() || seen[s.p.v] == kSeveral) continue;
        if (!s.ends || s.source != Stim::Source::task || s.kind != Kind::wake || is_server(s.p) || is_server(s.curr))
            continue;
        uint8_t& n = seen[s.p.v];
        if (std::count(wakers[s.p.v].begin(), wakers[s.p.v].begin() + n, s.curr.v)) continue;
        wakers[s.p.v][n++] = s.curr.v;
        script.shared[s.p.v] = n == kSeveral;
    }
}

bool Simulation::open(uint32_t stim, TaskId sleeper) const {
    if (!any_serves_ || stim == kNone) return false;
    const Stim& s = script_.stims[stim];
    return s.source == Stim::Source::task && s.kind == Kind::wake && (serves(sleeper) || serves(s.curr));
}

/// A wakeup by which a server is asked; kNone: the script has none.
uint32_t Simulation::any_request(const TaskScript& server) const {
    if (open(server.first, server.id)) return server.first;
    for (const Op& op : server.ops)
        if (op.kind == Op::Kind::block && open(op.arg, server.id)) return op.arg;
    return kNone;
}

/// The wakee runs and is so close to its sleep that it is still on its CPU when the waker looks: it sleeps, and is woken.
bool Simulation::about_to_sleep(Task& t, uint32_t stim, Cpu waker, TaskId curr) {
    if (t.state != Task::State::running || !t.next() || t.race != kNone) return false;
    const Task::Action next = *t.next();
    if (!heirs_.empty() && heirs_[cpus_[t.cpu.v].curr.v].ops) return false;  // it will sleep for another one
    settle(t.cpu);
    if (next.kind != Op::Kind::block || t.left > kOnCpu * topo_.cap_orig[t.cpu.v]) return false;
    if (next.arg != stim && !(open(next.arg, cpus_[t.cpu.v].curr) && script_.stims[next.arg].curr == curr))
        return false;
    t.race = t.race_by = next.arg, t.race_waker = waker, t.race_curr = curr, t.race_at = now_;
    t.race_late =
        !opt_.pinned && t.left > kLeaves * topo_.cap_orig[t.cpu.v];  // it has not begun to: woken as soon as it does
    return true;
}

/// The next thing that `t` does is to sleep until `server` answers.
bool Simulation::awaits(const Task& t, TaskId server) const {
    if (t.pos >= t.script->ops.size()) return false;
    const Op& next = t.script->ops[t.pos];
    return next.kind == Op::Kind::block && open(next.arg, t.script->id) && script_.stims[next.arg].curr == server;
}

/// `client` asks `server` for an answer; who sleeps is woken for it.
void Simulation::enlist(TaskId server, Cpu from, TaskId client) {
    Task& t = tasks_[client.v];
    if (t.client_of != kNone || tasks_[server.v].state == Task::State::gone) return;
    t.client_of = server.v;
    clients_[server.v].push_back(client);
    const Task& m = tasks_[server.v];
    if (m.state == Task::State::asleep && open(m.waits_for, server)) wake(m.waits_for, from, client);
}

/// `server` answers `client`, who sleeps until then, or will not sleep, or is just about to.
void Simulation::give(TaskId client, Cpu from, TaskId server) {
    Task& t = tasks_[client.v];
    if (t.state == Task::State::asleep && t.waits_for != kNone) return wake(t.waits_for, from, server);
    std::erase(clients_[server.v], client);
    t.client_of = kNone;
    if (t.state == Task::State::running) settle(t.cpu);
    if (t.state == Task::State::running && awaits(t, server) && t.left <= kLeaves * topo_.cap_orig[t.cpu.v])
        t.race = t.race_by = t.script->ops[t.pos].arg, t.race_waker = from, t.race_curr = server, t.race_at = now_;
    else
        t.answered = true;
}

/// A wakeup given by, or to, a server.
void Simulation::answer(const Stim& s, Cpu waker) {
    Task& t = tasks_[s.p.v];
    const auto index = static_cast<uint32_t>(&s - script_.stims.data());
    if (serves(s.p) && t.state == Task::State::asleep && open(t.waits_for, s.p))
        return wake(t.waits_for, waker, s.curr);
    if (t.client_of == kNone && about_to_sleep(t, index, waker, s.curr)) return;
    if (!serves(s.curr) || clients_[s.curr.v].empty()) return;
    give(t.client_of == s.curr.v ? s.p : clients_[s.curr.v].front(), waker, s.curr);
}

/// The sleep that `stim` ends would be ended by any other such wakeup, too.
bool Simulation::takes_any(const Task& t, uint32_t stim) const {
    if (!t.shared || stim == kNone) return false;
    const Stim& s = script_.stims[stim];
    return s.source == Stim::Source::task && s.kind == Kind::wake && !serves(s.curr);
}

}  // namespace rewake::closed
