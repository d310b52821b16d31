// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/pftrace/decoder.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "collectors/decode/format/events.hpp"

namespace rewake::decode {
namespace {

/// forms ENUMS["irq_ctx"] from common_flags (TRACE_FLAG_HARDIRQ 0x08, _SOFTIRQ 0x10, _NMI 0x40).
uint8_t irq_ctx_of(uint32_t flags) {
    return (flags & 0x40) != 0 ? 3 : (flags & 0x08) != 0 ? 2 : (flags & 0x10) != 0 ? 1 : 0;
}

/// What one field of FtraceEvent becomes (ftrace_event.proto).
struct Kept {
    uint32_t field;
    const char* name;
    Kind kind;
    uint8_t variant;
};

constexpr Kept kKept[] = {
    {4, "sched_switch", Kind::switch_, 0},
    {11, "cpu_frequency", Kind::freq, 0},
    {13, "cpu_idle", Kind::idle, 0},
    {17, "sched_wakeup", Kind::wakeup, 0},
    {20, "sched_waking", Kind::waking, 0},
    {21, "ipi_entry", Kind::ipi, 1},
    {22, "ipi_exit", Kind::ipi, 2},
    {23, "ipi_raise", Kind::ipi, 0},
    {24, "softirq_entry", Kind::softirq, 1},
    {25, "softirq_exit", Kind::softirq, 2},
    {26, "softirq_raise", Kind::softirq, 0},
    {36, "irq_handler_entry", Kind::irq, 1},
    {37, "irq_handler_exit", Kind::irq, 0},
    {114, "sched_wakeup_new", Kind::wakeup, 1},
    {237, "sched_process_exec", Kind::exec, 0},
    {238, "sched_process_exit", Kind::exit, 0},
    {239, "sched_process_fork", Kind::fork, 0},
    {491, "sched_migrate_task", Kind::migrate, 0},
    {559, "local_timer_entry", Kind::irq, 3},
    {560, "local_timer_exit", Kind::irq, 2},
};

const Kept* kept(uint32_t field) {
    const auto* const found = std::lower_bound(std::begin(kKept), std::end(kKept), field,
                                               [](const Kept& k, uint32_t f) { return k.field < f; });
    return found != std::end(kKept) && found->field == field ? found : nullptr;
}

constexpr uint32_t kMaxField = 4096;

/// Fields 1 to 7 of an event's message: numbers and texts.
struct Message {
    std::array<int64_t, 8> number{};
    std::array<std::string_view, 8> text{};
    bool failed = false;  // field 4 is there and 0: success of a wakeup up to 4.x

    /// False: damaged.
    bool read(const WireField& payload) {
        Wire w(payload);
        WireField f;
        while (w.next(f)) {
            if (f.number < number.size()) {
                if (f.type == 2) {
                    text[f.number] = f.text();
                } else {
                    number[f.number] = f.i64();
                    failed = failed || (f.number == 4 && f.value == 0);
                }
            }
        }
        return !w.damaged();
    }
    [[nodiscard]] Who who(size_t comm, size_t tid, size_t prio) const {
        return {i32(tid), prio == 0 ? 0 : i32(prio), comm_of(text[comm])};
    }
    [[nodiscard]] int64_t i32(size_t i) const { return static_cast<int32_t>(number[i]); }
};

/// The print format of sched_switch that a kernel of this release has, as far as prev_state is concerned
/// (TASK_STATE_TO_CHAR_STR and TASK_REPORT in include/linux/sched.h of each).
PrevStates states_of(const std::string& release, bool& known) {
    unsigned major = 0, minor = 0;
    known = std::sscanf(release.c_str(), "%u.%u", &major, &minor) == 2;
    const unsigned v = known ? major * 1000 + minor : 5000;
    const char* letters =
        v >= 4014   ? "{ 1, \"S\" }, { 2, \"D\" }, { 4, \"T\" }, { 8, \"t\" }, { 16, \"X\" }, { 32, \"Z\" }, "
                      "{ 64, \"P\" }, { 128, \"I\" }"
        : v >= 3015 ? "{ 1, \"S\" }, { 2, \"D\" }, { 4, \"T\" }, { 8, \"t\" }, { 16, \"X\" }, { 32, \"Z\" }, "
                      "{ 64, \"x\" }, { 128, \"K\" }, { 256, \"W\" }, { 512, \"P\" }"
                    : "{ 1, \"S\" }, { 2, \"D\" }, { 4, \"T\" }, { 8, \"t\" }, { 16, \"Z\" }, { 32, \"X\" }, "
                      "{ 64, \"x\" }, { 128, \"K\" }, { 256, \"W\" }";
    const unsigned top = v >= 4014 ? 256 : v >= 4008 ? 4096 : v >= 4002 ? 2048 : v >= 3009 ? 1024 : 512;
    const std::string mask = std::to_string(top - 1);
    return PrevStates("print fmt: \"\", REC->prev_state & (" + mask + ") ? __print_flags(REC->prev_state & (" + mask +
                      "), \"|\", " + letters + ") : \"R\", REC->prev_state & " + std::to_string(top) +
                      " ? \"+\" : \"\"");
}

}  // namespace

bool PftraceDecoder::compressed(const std::string& path) {
    const File file(path);
    Problems problems;
    return PftraceIndex(file, problems).compressed;
}

PftraceDecoder::PftraceDecoder(const std::string& path, size_t most)
    : file_(path),
      index_(file_, reading_),
      sink_(std::max(index_.n_cpus, 1U), most, "offset"),
      states_(states_of(index_.release, by_release_)),
      running_(sink_.cpus()),
      counters_(kMaxField) {
    if (index_.compressed) {
        throw Error(path + ": compressed packets, which are unpacked before");
    }
    const PfStream::Budget budget(std::max<size_t>(index_.n_cpus, 1));
    std::vector<PfStream> streams;
    for (uint32_t cpu = 0; cpu < index_.n_cpus; ++cpu) {
        if (!index_.cpus[cpu].empty()) {
            streams.emplace_back(file_, cpu, index_.cpus[cpu], budget, reading_);
        }
    }
    if (streams.empty()) {
        throw Error(path + ": a Perfetto trace without ftrace events; record with the data source linux.ftrace and " +
                    "the events sched/sched_switch, sched/sched_waking, sched/sched_wakeup_new");
    }
    merge_.emplace(std::move(streams));
    for (uint32_t cpu = 0; cpu < index_.counters.size() && cpu < sink_.cpus(); ++cpu) {
        const auto& c = index_.counters[cpu];
        sink_.lost_somewhere(cpu, c.overrun + c.dropped);
    }
}

std::unique_ptr<Batch> PftraceDecoder::next() {
    if (!more_) {
        return nullptr;
    }
    sink_.start();
    more_ = merge_->run([&](const PfStream& s) {
        visit(s);
        return sink_.room();
    });
    return sink_.take();
}

uint8_t PftraceDecoder::context(const PfEvent& e, uint32_t cpu) {
    if (e.has_flags) {
        return irq_ctx_of(e.flags);
    }
    ++no_flags_;
    return sink_.rebuilt_ctx(cpu);
}

void PftraceDecoder::visit(const PfStream& s) {
    const PfEvent& e = s.event();
    At at;
    at.ns = static_cast<int64_t>(e.ts);
    at.cpu = s.cpu();
    at.where = s.offset();
    Running& now = running_[at.cpu];
    if (e.what == PfEvent::What::nothing) [[unlikely]] {
        return sink_.loss_at_end(at.cpu, -1);
    }
    if (s.lost()) [[unlikely]] {
        sink_.loss(at.cpu, at.ns, -1);
        now = {};
    }
    sink_.see(at);
    if (e.what == PfEvent::What::full) {
        return full(e, at);
    }
    ++compact_;
    if (e.what == PfEvent::What::compact_switch) {
        return compact_switch(e, at);
    }
    if (compact_counts_[1] == nullptr) {
        compact_counts_[1] = &sink_.counter("sched_waking", true);
    }
    ++*compact_counts_[1];
    if (now.tid < 0) {
        sink_.problems.add("waking before the first switch of its CPU: who woke is not in the file, skipped",
                           place(at.cpu, at.where));
        return;
    }
    at.tid = now.tid;
    at.irq_ctx = context(e, at.cpu);
    sink_.waking(at, {e.next_tid, e.prio, comm_of(e.comm)}, static_cast<int32_t>(e.state_or_cpu));
}

void PftraceDecoder::compact_switch(const PfEvent& e, At& at) {
    if (compact_counts_[0] == nullptr) {
        compact_counts_[0] = &sink_.counter("sched_switch", true);
    }
    ++*compact_counts_[0];
    const Who next{e.next_tid, e.prio, comm_of(e.comm)};
    const Running before = running_[at.cpu];
    run(at.cpu, next);
    if (!before.whole) {
        sink_.problems.add("first switch of a CPU: who was running is not in the file, skipped",
                           place(at.cpu, at.where));
        return;
    }
    at.tid = before.tid;
    sink_.switched(at, before.who, states_[e.state_or_cpu], next);
}

void PftraceDecoder::full(const PfEvent& e, At& at) {
    const Kept* k = kept(e.field);
    if (e.field < kMaxField) {
        uint64_t*& counter = counters_[e.field];
        if (counter == nullptr) [[unlikely]] {
            counter =
                &sink_.counter(k != nullptr ? k->name : "FtraceEvent field " + std::to_string(e.field), k != nullptr);
        }
        ++*counter;
    } else {
        ++sink_.counter("FtraceEvent field above " + std::to_string(kMaxField), false);
    }
    Running& now = running_[at.cpu];
    at.tid = e.has_tid ? int64_t{e.tid} : -1;
    if (k == nullptr) {
        return;
    }
    Message m;
    if (!m.read(e.payload)) {
        return sink_.problems.add("damaged event, skipped", place(at.cpu, at.where));
    }
    if (e.has_tid && now.tid < 0) {
        now.tid = at.tid;  // enough for wakings, not for a switch
    }
    switch (k->kind) {
        case Kind::switch_: {
            const Who next = m.who(5, 6, 7);
            sink_.switched(at, m.who(1, 2, 3), states_[m.number[4]], next);
            run(at.cpu, next);
            return;
        }
        case Kind::waking:
            if (m.failed) {
                return sink_.failed();
            }
            at.irq_ctx = context(e, at.cpu);
            return sink_.waking(at, m.who(1, 2, 3), m.i32(5));
        case Kind::wakeup:
            if (m.failed) {
                return sink_.failed();
            }
            at.irq_ctx = context(e, at.cpu);
            return sink_.wakeup(at, m.who(1, 2, 3), m.i32(5), k->variant != 0);
        case Kind::migrate:
            at.irq_ctx = context(e, at.cpu);
            return sink_.migrate(at, m.who(1, 2, 3), m.i32(4), m.i32(5));
        case Kind::fork: return sink_.fork(at, m.who(1, 2, 0), m.who(3, 4, 0));
        case Kind::exec: return sink_.exec(at, m.i32(2));
        case Kind::exit: return sink_.exit(at, m.who(1, 2, 4));
        case Kind::irq: return sink_.irq(at, k->variant >> 1, m.i32(1), (k->variant & 1) != 0);
        case Kind::softirq: return sink_.softirq(at, m.number[1], k->variant);
        case Kind::ipi: return sink_.ipi(at, k->variant, -1);
        case Kind::idle: return sink_.idle(at, m.number[1], m.number[2]);
        case Kind::freq: return sink_.freq(at, m.number[1], m.number[2]);
        default: return;
    }
}

std::vector<std::string> PftraceDecoder::problems() const {
    std::vector<std::string> out = reading_.lines();
    for (std::string& line : sink_.problems.lines()) {
        out.push_back(std::move(line));
    }
    return out;
}

const char* PftraceDecoder::clock() const {
    switch (index_.clock) {
        case 0: return "boot";
        case 2: return "global";
        case 3: return "local";
        case 4: return "mono_raw";
        default: return "";
    }
}

std::vector<std::string> PftraceDecoder::missing() const {
    std::vector<std::string> out;
    if (compact_ > 0) {
        out.emplace_back(
            "compact events: who was switched out, with its priority, and who woke, are those of the switch "
            "before on that CPU");
    }
    if (no_flags_ > 0) {
        out.emplace_back(
            sink_.saw_irqs()
                ? "flags of full events: whether a wakeup came from an interrupt is rebuilt from the irq and "
                  "softirq events"
                : "flags of full events: wakeups from an interrupt cannot be told, all read as from a task");
    }
    if (!by_release_) {
        out.emplace_back("the kernel's release: prev_state is read as kernels since 4.14 write it");
    }
    if (index_.other_machines > 0) {
        out.push_back(std::to_string(index_.other_machines) + " packets of other machines (guests), not read");
    }
    out.emplace_back("placement probes, CPUs of an IPI, and topology");
    return out;
}

}  // namespace rewake::decode
