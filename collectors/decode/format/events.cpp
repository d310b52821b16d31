// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/format/events.hpp"

extern "C" {
#include <event-parse.h>
}

#include <algorithm>
#include <optional>
#include <string_view>

#include "collectors/decode/format/text.hpp"

namespace rewake::decode {
namespace {

struct Want {
    uint8_t slot;
    const char* name;
    enum : uint8_t { number, bytes, maybe_number, maybe_bytes } what = number;
};

struct Spec {
    const char* system;
    const char* event;
    Kind kind;
    uint8_t variant;
    std::vector<Want> fields;
};

/// Event to table. Order of the variants: forms ENUMS.
const std::vector<Spec>& specs() {
    using namespace slot;
    static const std::vector<Want> wake = {{comm, "comm", Want::bytes},
                                           {pid, "pid"},
                                           {prio, "prio"},
                                           {target_cpu, "target_cpu"},
                                           {success, "success", Want::maybe_number}};
    static const std::vector<Want> softirq = {{vec, "vec"}};
    static const std::vector<Spec> all = {
        {"sched",
         "sched_switch",
         Kind::switch_,
         0,
         {{prev_comm, "prev_comm", Want::bytes},
          {prev_pid, "prev_pid"},
          {prev_prio, "prev_prio"},
          {prev_state, "prev_state"},
          {next_comm, "next_comm", Want::bytes},
          {next_pid, "next_pid"},
          {next_prio, "next_prio"}}},
        {"sched", "sched_waking", Kind::waking, 0, wake},
        {"sched", "sched_wakeup", Kind::wakeup, 0, wake},
        {"sched", "sched_wakeup_new", Kind::wakeup, 1, wake},
        {"sched",
         "sched_migrate_task",
         Kind::migrate,
         0,
         {{comm, "comm", Want::bytes}, {pid, "pid"}, {prio, "prio"}, {orig_cpu, "orig_cpu"}, {dest_cpu, "dest_cpu"}}},
        {"sched",
         "sched_process_fork",
         Kind::fork,
         0,
         {{parent_comm, "parent_comm", Want::bytes},
          {parent_pid, "parent_pid"},
          {child_comm, "child_comm", Want::bytes},
          {child_pid, "child_pid"}}},
        {"sched", "sched_process_exec", Kind::exec, 0, {{exec_pid, "pid"}}},
        {"sched", "sched_process_exit", Kind::exit, 0, {{comm, "comm", Want::bytes}, {pid, "pid"}, {prio, "prio"}}},
        {"irq", "irq_handler_entry", Kind::irq, 1, {{vector, "irq"}}},
        {"irq", "irq_handler_exit", Kind::irq, 0, {{vector, "irq"}}},
        {"irq", "softirq_raise", Kind::softirq, 0, softirq},
        {"irq", "softirq_entry", Kind::softirq, 1, softirq},
        {"irq", "softirq_exit", Kind::softirq, 2, softirq},
        {"ipi", "ipi_raise", Kind::ipi, 0, {{mask, "target_cpus", Want::maybe_bytes}}},
        {"ipi", "ipi_send_cpu", Kind::ipi, 0, {{cpu, "cpu"}}},
        {"ipi", "ipi_send_cpumask", Kind::ipi, 0, {{mask, "cpumask", Want::maybe_bytes}}},
        {"ipi", "ipi_entry", Kind::ipi, 1, {}},
        {"ipi", "ipi_exit", Kind::ipi, 2, {}},
        {"power", "cpu_idle", Kind::idle, 0, {{state, "state"}, {power_cpu, "cpu_id"}}},
        {"power", "cpu_frequency", Kind::freq, 0, {{state, "state"}, {power_cpu, "cpu_id"}}},
        {"rewake",
         "select_in",
         Kind::probe_in,
         0,
         {{wakee, "pid", Want::maybe_number},
          {prev_cpu, "prev", Want::maybe_number},
          {flags, "flags", Want::maybe_number},
          {recent, "recent", Want::maybe_number},
          {flips, "flips", Want::maybe_number},
          {util, "util", Want::maybe_number},
          {slot::load, "load", Want::maybe_number},
          {nallowed, "nallowed", Want::maybe_number},
          {nr_idle_scan, "nis", Want::maybe_number},
          {has_idle_cores, "hic", Want::maybe_number},
          {rq_load, "qload", Want::maybe_number},
          {rq_nr, "qnr", Want::maybe_number}}},
        {"rewake", "select_out", Kind::probe_out, 0, {{chosen, "cpu", Want::maybe_number}}},
    };
    return all;
}

/// Interrupt vectors whose names forms ENUMS["irq_kind"] knows, from code 1 on; any other vector is the last code.
constexpr std::string_view kVectors[] = {
    "local_timer", "reschedule",    "call_function",    "call_function_single",
    "irq_work",    "thermal_apic",  "threshold_apic",   "deferred_error_apic",
    "error_apic",  "spurious_apic", "x86_platform_ipi",
};

std::optional<Spec> vector_spec(std::string_view event) {
    const bool entry = event.ends_with("_entry");
    if (!entry && !event.ends_with("_exit")) {
        return {};
    }
    event.remove_suffix(entry ? 6 : 5);
    const uint8_t code = vector_code(event);
    return Spec{
        "irq_vectors", "", Kind::irq, static_cast<uint8_t>(code * 2 + (entry ? 1 : 0)), {{slot::vector, "vector"}}};
}

std::optional<Spec> find_spec(const std::string& system, const std::string& event) {
    if (system == "irq_vectors") {
        return vector_spec(event);
    }
    for (const Spec& s : specs()) {
        if (system == s.system && event == s.event) {
            return s;
        }
    }
    return {};
}

/// libtraceevent's parser, one handle for the file.
class Parser {
  public:
    Parser() : tep_(tep_alloc()) {}
    ~Parser() { tep_free(tep_); }
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;

    void configure(const Container& c, uint32_t long_size) {
        tep_set_long_size(tep_, static_cast<int>(long_size));
        tep_set_file_bigendian(tep_, c.big_endian ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
        tep_set_loglevel(TEP_LOG_NONE);
    }

    /// Null when the text is not a format.
    tep_event* parse(const std::string& system, const CheckedFormat& f) {
        if (!f.fields_ok ||
            tep_parse_event(tep_, f.text.c_str(), f.text.size(), system.c_str()) != TEP_ERRNO__SUCCESS) {
            return nullptr;
        }
        return tep_find_event_by_name(tep_, system.c_str(), f.name.c_str());
    }

  private:
    tep_handle* tep_;
};

constexpr int kMaxRecord = 1 << 16;
constexpr size_t kMostParsed = 4096;  // of the events that have a table, and what comes before the first of them

std::optional<Field> field_of(const tep_format_field* f, bool want_bytes) {
    if (f == nullptr || f->offset < 0 || f->size <= 0 || f->offset > kMaxRecord || f->size > kMaxRecord) {
        return {};
    }
    Field out;
    out.offset = static_cast<uint32_t>(f->offset);
    out.size = static_cast<uint32_t>(f->size);
    out.is_signed = (f->flags & TEP_FIELD_IS_SIGNED) != 0;
    if ((f->flags & TEP_FIELD_IS_DYNAMIC) != 0) {
        out.where = (f->flags & TEP_FIELD_IS_RELATIVE) != 0 ? Field::Where::rel_loc : Field::Where::data_loc;
    }
    if (want_bytes) {
        if (out.where != Field::Where::fixed ? out.size != 4 : (f->flags & TEP_FIELD_IS_ARRAY) == 0) {
            return {};
        }
    } else if (out.where != Field::Where::fixed || (out.size != 1 && out.size != 2 && out.size != 4 && out.size != 8)) {
        return {};
    }
    return out;
}

}  // namespace

uint8_t vector_code(std::string_view name) {
    const auto* const found = std::find(std::begin(kVectors), std::end(kVectors), name);
    return static_cast<uint8_t>(1 + (found - std::begin(kVectors)));
}

Formats::Formats(const Container& c, Problems& problems) {
    Parser parser;
    parser.configure(c, static_cast<uint32_t>(c.long_size));
    bool common_known = false;
    size_t parsed = 0;
    std::vector<std::pair<uint32_t, uint32_t>> ids;  // common_type, dense number
    for (const FormatText& f : c.formats) {
        const auto checked = check_format(f.text);
        if (!checked) {
            problems.add("event format without a name and a number", f.system);
            continue;
        }
        const std::string& name = checked->name;
        ids.emplace_back(checked->id, static_cast<uint32_t>(plans_.size()));
        names_.push_back(name);
        n_ftrace_ += f.system == "ftrace" ? 1 : 0;
        Plan& plan = plans_.emplace_back();
        const auto spec = find_spec(f.system, name);
        if (!spec && common_known) {
            continue;
        }
        if (++parsed > kMostParsed) {  // its time grows with their square
            problems.add("more event formats than any kernel has, the events of the others skipped",
                         f.system + ":" + name);
            continue;
        }
        tep_event* event = parser.parse(f.system, *checked);
        if (event == nullptr) {
            if (spec) {
                problems.add("event format that cannot be read, its events skipped", f.system + ":" + name);
            }
            continue;
        }
        if (!common_known) {
            const auto type = field_of(tep_find_common_field(event, "common_type"), false);
            const auto flags = field_of(tep_find_common_field(event, "common_flags"), false);
            const auto pid = field_of(tep_find_common_field(event, "common_pid"), false);
            if (type && flags && pid && type->size == 2 && flags->size == 1 && pid->size == 4) {
                common_known = true;
                type_offset = type->offset;
                common_flags = *flags;
                common_pid = *pid;
                least = std::max({type->offset + 2, flags->offset + 1, pid->offset + 4});
            }
        }
        if (!spec) {
            continue;
        }
        plan.least = least;
        bool complete = true;
        for (const Want& w : spec->fields) {
            const bool want_bytes = w.what == Want::bytes || w.what == Want::maybe_bytes;
            const auto found = field_of(tep_find_field(event, w.name), want_bytes);
            if (found) {
                plan.field[w.slot] = *found;
                plan.least = std::max(plan.least, found->offset + found->size);
            } else if (w.what == Want::number || w.what == Want::bytes) {
                problems.add("event without field " + std::string(w.name) + ", its events skipped",
                             f.system + ":" + name);
                complete = false;
            }
        }
        if (!complete) {
            plan = Plan{};
            continue;
        }
        plan.kind = spec->kind;
        plan.variant = spec->variant;
        if (plan.kind == Kind::switch_) {
            prev_states_ = PrevStates(f.text);
            if (!prev_states_.known()) {
                problems.add(
                    "sched_switch has no letters for prev_state in its print format; every state but 0 reads \"other\"",
                    "");
            }
        }
    }
    if (!common_known) {
        throw Error(c.path +
                    ": no event format with the common fields; the recording holds no events that can be read");
    }
    index_.assign(65536, static_cast<uint32_t>(plans_.size()));
    for (const auto& [id, dense] : ids) {
        index_[id] = dense;
    }
    plans_.emplace_back();  // types without a format
}

}  // namespace rewake::decode
