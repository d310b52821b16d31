// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/text/body.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

#include "collectors/decode/format/events.hpp"
#include "collectors/decode/text/scan.hpp"

namespace rewake::decode {
namespace {

using Probe = Sink::Probe;

// --- KEY=VALUE

/// Calls f(key, value) for each KEY=VALUE among the words.
template <class F>
void pairs(std::string_view text, F&& f) {
    Scan s(text);
    for (s.blanks(); !s.end(); s.blanks()) {
        const std::string_view word = s.word();
        const size_t equals = word.find('=');
        if (equals != std::string_view::npos) {
            f(word.substr(0, equals), word.substr(equals + 1));
        }
    }
}

std::optional<int64_t> integer(std::string_view text) {
    int64_t v = 0;
    if (text.starts_with("0x") && text.size() > 2 && text.size() <= 18) {
        uint64_t u = 0;
        for (const char c : text.substr(2)) {
            const char lower = static_cast<char>(c | 0x20);
            if (!is_digit(c) && !(lower >= 'a' && lower <= 'f')) {
                return {};
            }
            u = u * 16 + static_cast<uint64_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
        }
        return static_cast<int64_t>(u);
    }
    Scan s(text);
    return s.number(v) && s.end() ? std::optional(v) : std::nullopt;
}

std::optional<int64_t> value_of(std::string_view text, std::string_view key) {
    std::optional<int64_t> out;
    pairs(text, [&](std::string_view k, std::string_view v) {
        if (k == key && !out) {
            out = integer(v);
        }
    });
    return out;
}

/// A number between literals, at the front.
bool field(Scan& s, std::string_view key, int64_t& v) { return s.lit(key) && s.number(v); }

bool ends(const Scan& s) { return s.end() || s.peek() == ' '; }

/// The cursor is at the name behind "comm=": comm, pid and prio, then what `then` reads.
template <class Then>
bool comm_pid_prio(Scan& s, Who& who, Then&& then) {
    return s.name(' ', who.comm, [&](Scan& t) {
        return field(t, " pid=", who.tid) && field(t, " prio=", who.prio) && ends(t) && then(t);
    });
}

/// NAME:TID [PRIO], trace-cmd's plugins.
bool short_task(Scan& s, Who& who, auto&& then) {
    return s.name(':', who.comm,
                  [&](Scan& t) { return field(t, ":", who.tid) && field(t, " [", who.prio) && t.lit("]") && then(t); });
}

std::string_view with_lead(std::string_view body, size_t lead) { return {body.data() - lead, body.size() + lead}; }

// --- prev_state

PrevState letter_state(char c) {
    switch (c) {
        case 'R': return PrevState::running;
        case 'S': return PrevState::sleeping;
        case 'D': return PrevState::disk;
        case 'T': return PrevState::stopped;
        case 't': return PrevState::traced;
        case 'X':
        case 'x': return PrevState::dead;
        case 'Z': return PrevState::zombie;
        case 'P': return PrevState::parked;
        case 'I': return PrevState::idle;
        default: return PrevState::other;
    }
}

/// Letters of the print format: "S", "R+", "D|K". A dead task stays dead, else the first known letter.
std::optional<PrevState> state_of_letters(std::string_view w) {
    if (w.empty() || w.size() > 16) {
        return {};
    }
    if (w.back() == '+') {
        return PrevState::preempted;
    }
    PrevState first = PrevState::other;
    for (size_t i = 0; i < w.size(); i += 2) {
        const char lower = static_cast<char>(w[i] | 0x20);
        if (lower < 'a' || lower > 'z' || (i + 1 < w.size() && w[i + 1] != '|')) {
            return {};
        }
        const PrevState s = letter_state(w[i]);
        if (is_dead(s)) {
            return s;
        }
        if (first == PrevState::other) {
            first = s;
        }
    }
    return first;
}

/// The number of a raw field, the kernel not being known. 1, 2, 4 and 8 never changed; 16 and 32 are X and Z, either
/// way round; 64 is a dead task up to 4.13, a parked one since; the mark of a preempted task moved from 512 (3.8) by
/// 1024, 2048 and 4096 to 256 (4.14), each of which no sleeping task had alone. A runnable task leaves its CPU to
/// another one, never to the idle task.
PrevState state_of_number(int64_t v, bool to_idle, TextStyle& style) {
    ++style.numeric_states;
    switch (v) {
        case 0: return PrevState::running;
        case 1: return PrevState::sleeping;
        case 2: return PrevState::disk;
        case 4: return PrevState::stopped;
        case 8: return PrevState::traced;
        case 16:
        case 32: return PrevState::dead;
        default: break;
    }
    if ((v == 256 || v == 1024 || v == 2048 || v == 4096) && !to_idle) {
        return PrevState::preempted;
    }
    ++style.uncertain_states;
    return (v & 2) != 0 ? PrevState::disk : PrevState::other;
}

std::optional<PrevState> state_of(std::string_view w, bool to_idle, TextStyle& style) {
    if (!w.empty() && is_digit(w[0])) {
        const auto v = integer(w);
        return v ? std::optional(state_of_number(*v, to_idle, style)) : std::nullopt;
    }
    return state_of_letters(w);
}

// --- one function an event

bool read_switch(std::string_view body, size_t lead, const At& at, TextStyle& style, Sink& sink) {
    Who prev, next;
    std::string_view word;
    Scan s(body);
    if (s.lit("prev_comm=")) {
        const bool ok = s.name(' ', prev.comm, [&](Scan& t) {
            if (!field(t, " prev_pid=", prev.tid) || !field(t, " prev_prio=", prev.prio) || !t.lit(" prev_state=")) {
                return false;
            }
            word = t.word();
            t.lit(" ==>");
            return t.lit(" next_comm=") && t.name(' ', next.comm, [&](Scan& u) {
                return field(u, " next_pid=", next.tid) && field(u, " next_prio=", next.prio) && ends(u);
            });
        });
        const auto state = ok ? state_of(word, next.tid == 0, style) : std::nullopt;
        if (state) {
            sink.switched(at, prev, *state, next);
        }
        return state.has_value();
    }
    // A name may look like the end of another one: of two readings the one whose task is the line's own is right.
    const auto attempt = [&](bool own) {
        Scan t(with_lead(body, lead));
        return short_task(t, prev, [&](Scan& u) {
            u.blanks();
            word = u.word();
            return (!own || prev.tid == at.tid) && u.lit(" ==> ") &&
                   short_task(u, next, [](const Scan& v) { return v.end() || v.at(" Latency: "); });  // report -w
        });
    };
    if (!attempt(true) && !attempt(false)) {
        return false;
    }
    style.plugin_switch = true;
    // The plugin's letters are those of 3.x, by bit: W is what newer kernels call idle.
    const auto state = word == "W" ? std::optional(PrevState::idle) : state_of_letters(word);
    if (state) {
        sink.switched(at, prev, *state, next);
    }
    return state.has_value();
}

bool read_wake(TextKind kind, std::string_view body, size_t lead, const At& at, Sink& sink) {
    Who who;
    Scan s(body);
    int64_t target = -1, success = 1;
    bool ok = false;
    if (s.lit("comm=")) {
        ok = comm_pid_prio(s, who, [&](Scan& t) {
            return (!t.at(" success=") || field(t, " success=", success)) && field(t, " target_cpu=", target) &&
                   ends(t);
        });
    } else {
        s = Scan(with_lead(body, lead));
        ok = short_task(s, who, [&](Scan& t) {
            if (t.at(" success=")) {
                return field(t, " success=", success) && field(t, " CPU:", target) && ends(t);
            }
            if (t.lit(" Failed")) {
                success = 0;
            } else {
                t.lit(" Success");
            }
            return field(t, " CPU:", target) && ends(t);
        });
    }
    if (!ok) {
        return false;
    }
    if (success == 0) {
        sink.failed();
    } else if (kind == TextKind::waking) {
        sink.waking(at, who, target);
    } else {
        sink.wakeup(at, who, target, kind == TextKind::wakeup_new);
    }
    return true;
}

bool read_migrate(std::string_view body, const At& at, Sink& sink) {
    Who who;
    Scan s(body);
    int64_t orig = -1, dest = -1;
    const bool ok = s.lit("comm=") && comm_pid_prio(s, who, [&](Scan& t) {
                        return field(t, " orig_cpu=", orig) && field(t, " dest_cpu=", dest) && ends(t);
                    });
    if (ok) {
        sink.migrate(at, who, orig, dest);
    }
    return ok;
}

bool read_fork(std::string_view body, const At& at, Sink& sink) {
    Who parent, child;
    Scan s(body);
    const bool raw = s.lit("parent_comm=");
    if (!raw && !s.lit("comm=")) {
        return false;
    }
    const bool ok = s.name(' ', parent.comm, [&](Scan& t) {
        return field(t, raw ? " parent_pid=" : " pid=", parent.tid) && t.lit(" child_comm=") &&
               t.name(' ', child.comm, [&](Scan& u) { return field(u, " child_pid=", child.tid) && ends(u); });
    });
    if (ok) {
        sink.fork(at, parent, child);
    }
    return ok;
}

bool read_exec(std::string_view body, const At& at, Sink& sink) {
    // filename=ANYTHING pid=N old_pid=N: from the right.
    const size_t found = body.rfind(" pid=");
    int64_t tid = -1;
    if (found == std::string_view::npos) {
        return false;
    }
    Scan s(body.substr(found));
    const bool ok = field(s, " pid=", tid) && ends(s);
    if (ok) {
        sink.exec(at, tid);
    }
    return ok;
}

bool read_exit(std::string_view body, const At& at, Sink& sink) {
    Who who;
    Scan s(body);
    const bool ok =
        s.lit("comm=") && comm_pid_prio(s, who, [](const Scan& t) { return t.end() || t.at(" group_dead="); });
    if (ok) {
        sink.exit(at, who);
    }
    return ok;
}

/// The only CPU of a mask in hexadecimal ("00000000,00000020"), of a list ("3"), or of bytes ("ARRAY[20, 00]"); -1: not
/// one.
int64_t only_cpu(std::string_view text, bool list) {
    if (text.starts_with("ARRAY[")) {
        int64_t cpu = -1, bit = 0;
        for (size_t i = 6; i + 1 < text.size() && text[i] != ']'; i += 4, bit += 8) {
            const auto byte = integer("0x" + std::string(text.substr(i, 2)));
            if (!byte || (*byte != 0 && (cpu >= 0 || !std::has_single_bit(static_cast<uint64_t>(*byte))))) {
                return -1;
            }
            cpu = *byte != 0 ? bit + std::countr_zero(static_cast<uint64_t>(*byte)) : cpu;
        }
        return cpu;
    }
    if (list) {
        return integer(text).value_or(-1);
    }
    int64_t cpu = -1, bit = 0;
    for (size_t i = text.size(); i-- > 0;) {
        if (text[i] == ',') {
            continue;
        }
        const auto digit = integer(std::string("0x") + text[i]);
        if (!digit || (*digit != 0 && (cpu >= 0 || !std::has_single_bit(static_cast<uint64_t>(*digit))))) {
            return -1;
        }
        cpu = *digit != 0 ? bit + std::countr_zero(static_cast<uint64_t>(*digit)) : cpu;
        bit += 4;
    }
    return cpu;
}

bool read_mask(std::string_view body, const At& at, const TextStyle& style, Sink& sink) {
    const bool raise = body.starts_with("target_mask=") || body.starts_with("target_cpus=");
    const size_t equals = body.find('=');
    if (!raise && !body.starts_with("cpumask=")) {
        return false;
    }
    const std::string_view value = body.substr(equals + 1);
    const size_t stop = value.starts_with("ARRAY[") ? value.find(']') : value.find(' ');
    sink.ipi(at, 0, only_cpu(value.substr(0, stop), !raise && style.cpu_lists));
    return true;
}

bool read_probe(bool in, std::string_view body, const At& at, Sink& sink) {
    Probe f;
    struct Key {
        std::string_view name;
        int64_t Probe::* to;
    };
    static constexpr Key kIn[] = {
        {"pid", &Probe::task},           {"prev", &Probe::prev_cpu},     {"flags", &Probe::wake_flags},
        {"recent", &Probe::recent_cpu},  {"flips", &Probe::flips},       {"util", &Probe::util},
        {"load", &Probe::load},          {"nallowed", &Probe::nallowed}, {"nis", &Probe::nr_idle_scan},
        {"hic", &Probe::has_idle_cores}, {"qload", &Probe::rq_load},     {"qnr", &Probe::rq_nr},
    };
    static constexpr Key kOut[] = {{"cpu", &Probe::chosen_cpu}};
    const auto read = [&](const auto& keys) {
        pairs(body, [&](std::string_view k, std::string_view v) {
            for (const Key& key : keys) {
                if (k == key.name) {
                    f.*key.to = integer(v).value_or(Probe::kAbsent);
                }
            }
        });
    };
    in ? read(kIn) : read(kOut);
    sink.probe(at, in, f);
    return true;
}

}  // namespace

TextEvent text_event(std::string_view name, std::string_view body) {
    using K = TextKind;
    static const std::unordered_map<std::string_view, TextKind> kEvents = {
        {"sched_switch", K::switch_},
        {"sched_waking", K::waking},
        {"sched_wakeup", K::wakeup},
        {"sched_wakeup_new", K::wakeup_new},
        {"sched_migrate_task", K::migrate},
        {"sched_process_fork", K::fork},
        {"sched_process_exec", K::exec},
        {"sched_process_exit", K::exit},
        {"irq_handler_entry", K::irq_entry},
        {"irq_handler_exit", K::irq_exit},
        {"softirq_raise", K::softirq_raise},
        {"softirq_entry", K::softirq_entry},
        {"softirq_exit", K::softirq_exit},
        {"ipi_raise", K::ipi_raise},
        {"ipi_send_cpu", K::ipi_cpu},
        {"ipi_send_cpumask", K::ipi_mask},
        {"ipi_entry", K::ipi_entry},
        {"ipi_exit", K::ipi_exit},
        {"cpu_idle", K::idle},
        {"cpu_frequency", K::freq},
        {"select_in", K::probe_in},
        {"select_out", K::probe_out},
    };
    const auto found = kEvents.find(name);
    if (found != kEvents.end()) {
        return {found->second, 0};
    }
    const bool entry = name.ends_with("_entry");
    if ((entry || name.ends_with("_exit")) && body.starts_with("vector=")) {
        return {entry ? K::vector_entry : K::vector_exit, vector_code(name.substr(0, name.size() - (entry ? 6 : 5)))};
    }
    return {};
}

bool read_body(const TextEvent& event, std::string_view body, size_t lead, const At& at, TextStyle& style, Sink& sink) {
    using K = TextKind;
    static constexpr std::string_view kFailed = "[FAILED TO PARSE]";
    if (body.starts_with(kFailed)) {  // trace-cmd then prints the fields, key by key
        lead = 0;
        body.remove_prefix(kFailed.size());
        body.remove_prefix(std::min(body.find_first_not_of(' '), body.size()));
    }
    // The number behind KEY= at the front, or anywhere among the words.
    const auto number = [&](std::string_view key) -> std::optional<int64_t> {
        Scan s(body);
        int64_t v = 0;
        if (s.lit(key) && s.lit("=") && s.number(v) && ends(s)) {
            return v;
        }
        return value_of(body, key);
    };
    const auto softirq = [&](uint8_t phase) {
        const auto vec = number("vec");
        if (vec) {
            sink.softirq(at, *vec, phase);
        }
        return vec.has_value();
    };
    const auto irq = [&](std::string_view key, uint8_t kind, bool entry) {
        const auto vector = number(key);
        if (vector) {
            sink.irq(at, kind, *vector, entry);
        }
        return vector.has_value();
    };
    switch (event.kind) {
        case K::switch_: return read_switch(body, lead, at, style, sink);
        case K::waking:
        case K::wakeup:
        case K::wakeup_new: return read_wake(event.kind, body, lead, at, sink);
        case K::migrate: return read_migrate(body, at, sink);
        case K::fork: return read_fork(body, at, sink);
        case K::exec: return read_exec(body, at, sink);
        case K::exit: return read_exit(body, at, sink);
        case K::irq_entry: return irq("irq", 0, true);
        case K::irq_exit: return irq("irq", 0, false);
        case K::vector_entry: return irq("vector", event.vector, true);
        case K::vector_exit: return irq("vector", event.vector, false);
        case K::softirq_raise: return softirq(0);
        case K::softirq_entry: return softirq(1);
        case K::softirq_exit: return softirq(2);
        case K::ipi_cpu: {
            const auto cpu = number("cpu");
            if (cpu) {
                sink.ipi(at, 0, *cpu);
            }
            return cpu.has_value();
        }
        case K::ipi_raise:
        case K::ipi_mask: return read_mask(body, at, style, sink);
        case K::ipi_entry: sink.ipi(at, 1, -1); return true;
        case K::ipi_exit: sink.ipi(at, 2, -1); return true;
        case K::idle:
        case K::freq: {
            const auto state = number("state"), cpu = value_of(body, "cpu_id");
            if (!state || !cpu) {
                return false;
            }
            event.kind == K::idle ? sink.idle(at, *state, *cpu) : sink.freq(at, *state, *cpu);
            return true;
        }
        case K::probe_in: return read_probe(true, body, at, sink);
        case K::probe_out: return read_probe(false, body, at, sink);
        case K::none: return true;
    }
    return true;
}

}  // namespace rewake::decode
