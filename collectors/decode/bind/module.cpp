// SPDX-License-Identifier: GPL-2.0-or-later
// Extension module rewake.collectors._decode: whole columns to Python, never rows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "collectors/decode/perfdata/perfdata.hpp"
#include "collectors/decode/pftrace/decoder.hpp"
#include "collectors/decode/text/decoder.hpp"
#include "collectors/decode/tracedat/tracedat.hpp"

namespace nb = nanobind;

namespace rewake::decode {
namespace {

template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

/// Memory of a column that Python now owns; it goes back to the pool with its last array.
struct Lent {
    std::shared_ptr<Pool> pool;
    Pool::Block block;
    ~Lent() { pool->give(block); }
};

template <class T>
nb::object lend(const std::shared_ptr<Pool>& pool, Pool::Block& block, size_t n) {
    auto* lent = new Lent{pool, block};
    block = {};
    nb::capsule owner(lent, [](void* p) noexcept { delete static_cast<Lent*>(p); });
    return nb::cast(Array<T>(static_cast<T*>(lent->block.p), {n}, owner));
}

/// A column of get(row) for each of `rows`.
template <class T, class From, class Get>
nb::object column_of(const From& rows, Get&& get) {
    auto* values = new T[rows.size()];
    nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    size_t i = 0;
    for (const auto& r : rows) {
        values[i++] = static_cast<T>(get(r));
    }
    return nb::cast(Array<T>(values, {rows.size()}, owner));
}

/// 0..n-1.
nb::object numbers(size_t n) {
    uint32_t next = 0;
    return column_of<uint32_t>(std::vector<char>(n), [&](char) { return next++; });
}

/// Values with the rows equal to `absent` as NULL.
template <class T, class From, class Get>
nb::object nullable_of(const From& rows, Get&& get, int64_t absent) {
    return nb::make_tuple(column_of<T>(rows, [&](const auto& r) { return get(r) == absent ? 0 : get(r); }),
                          column_of<bool>(rows, [&](const auto& r) { return get(r) == absent; }));
}

nb::dict tables_of(Batch& batch) {
    nb::dict out;
    batch.tables([&](auto& t) {
        if (t.n == 0) {
            return;
        }
        nb::dict columns;
        t.each([&](const char* name, auto& column) {
            using C = std::remove_reference_t<decltype(column)>;
            nb::object values = lend<typename C::Value>(batch.pool(), column.values, t.n);
            if constexpr (C::nullable) {
                if (std::memchr(column.null, 1, t.n) != nullptr) {
                    columns[name] = nb::make_tuple(values, lend<bool>(batch.pool(), column.nulls, t.n));
                    return;
                }
            }
            columns[name] = values;
        });
        out[std::remove_reference_t<decltype(t)>::name] = columns;
    });
    return out;
}

nb::object text_or_none(const std::string& s) { return s.empty() ? nb::none() : nb::cast(escape(s)); }

/// escape(), line by line: the breaks between lines stay.
std::string escape_lines(const std::string& text) {
    std::string out;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        out += (at > 0 ? "\n" : "") + escape(std::string_view(text).substr(at, end - at));
        at = end + 1;
    }
    return out;
}

nb::list events_of(const Formats& formats) {
    nb::list events;
    for (size_t i = 0; i < formats.names().size(); ++i) {
        if (formats.recordable(i)) {
            events.append(escape(formats.names()[i]));
        }
    }
    return events;
}

nb::list texts(const std::vector<std::string>& all) {
    nb::list out;
    for (const std::string& text : all) {
        out.append(escape(text));
    }
    return out;
}

/// What collectors.snapshot.embedded makes a machine of.
nb::object machine_of(const perf::Hardware& hw) {
    if (hw.threads.empty() && hw.caches.empty() && hw.nodes.empty()) {
        return nb::none();
    }
    nb::dict m;
    m["available"] = hw.available;
    m["packages"] = texts(hw.packages);
    m["dies"] = texts(hw.dies);
    m["threads"] = texts(hw.threads);
    nb::list cpus, nodes, caches;
    for (const auto& cpu : hw.cpus) {
        cpus.append(nb::make_tuple(cpu.core, cpu.socket));
    }
    for (const auto& node : hw.nodes) {
        nodes.append(nb::make_tuple(node.number, escape(node.cpus)));
    }
    for (const auto& cache : hw.caches) {
        caches.append(nb::make_tuple(cache.level, escape(cache.type), escape(cache.cpus)));
    }
    m["cpus"] = cpus;
    m["nodes"] = nodes;
    m["caches"] = caches;
    return m;
}

/// Name of a clock as tracefs calls it, of a clockid_t; without one perf took its own, the clock "perf" of tracefs.
const char* clock_of(const std::optional<int32_t>& clockid) {
    static constexpr const char* kNames[] = {"realtime", "mono", nullptr, nullptr, "mono_raw", nullptr,
                                             nullptr,    "boot", nullptr, nullptr, nullptr,    "tai"};
    if (!clockid) {
        return "perf";
    }
    return *clockid >= 0 && *clockid < static_cast<int32_t>(std::size(kNames)) && kNames[*clockid] != nullptr
               ? kNames[*clockid]
               : "unknown";
}

nb::dict header_of(const perf::PerfData& d) {
    const perf::Header& f = d.about();
    nb::dict h;
    h["format"] = "perf.data";
    h["version"] = f.pipe ? "2, piped" : "2";
    h["compression"] = f.compressed ? "zstd" : "none";
    h["endian"] = f.big ? "big" : "little";
    h["long_size"] = f.tracing.long_size;
    h["cpus"] = d.n_cpus();
    h["clock"] = clock_of(f.clockid);
    h["kernel"] = text_or_none(f.release);
    h["uname"] = f.release.empty() ? nb::none()
                                   : nb::cast(escape("Linux " + (f.hostname.empty() ? "unknown" : f.hostname) + " " +
                                                     f.release + " " + f.arch));
    nb::dict options;
    options["perf"] = escape(f.perf_version);
    options["command"] = escape(f.command);
    h["options"] = options;
    h["events"] = events_of(d.event_formats());
    h["is_guest"] = false;
    h["machine"] = machine_of(f.hardware);
    nb::list traced;
    for (const uint32_t cpu : d.traced()) {
        traced.append(cpu);
    }
    h["recorded_cpus"] = traced;
    return h;
}

nb::dict header_of(const Container& c, const Formats& formats) {
    nb::dict h;
    h["format"] = "trace.dat";
    h["version"] = c.version;
    h["compression"] = c.compression;
    h["endian"] = c.big_endian ? "big" : "little";
    h["long_size"] = c.long_size;
    h["page_size"] = c.page_size;
    h["cpus"] = c.n_cpus;
    h["all_cpus"] = true;
    h["clock"] = text_or_none(c.clock);
    h["uname"] = text_or_none(c.uname);
    // "Linux NODE RELEASE MACHINE"
    const size_t node = c.uname.find(' '), release = c.uname.find(' ', node + 1);
    const bool has_release = node != std::string::npos && release != std::string::npos;
    h["kernel"] =
        text_or_none(has_release ? c.uname.substr(release + 1, c.uname.find(' ', release + 1) - release - 1) : "");
    std::map<std::string, std::string> texts;  // an option may come once a CPU
    for (const auto& [name, text] : c.options) {
        texts[name] += (texts[name].empty() ? "" : "\n") + escape_lines(text);
    }
    nb::dict options;
    for (const auto& [name, text] : texts) {
        options[name.c_str()] = text;
    }
    h["options"] = options;
    h["events"] = events_of(formats);
    h["is_guest"] = c.is_guest;
    nb::list guests;
    for (const std::string& name : c.guests) {
        guests.append(escape(name));
    }
    h["guests"] = guests;
    return h;
}

nb::dict tasks_of(const Tasks& tasks) {
    const auto& all = tasks.all();
    using Task = Tasks::Task;
    nb::dict t;
    t["task_id"] = numbers(all.size());
    t["tid"] = column_of<uint32_t>(all, [](const Task& x) { return x.tid; });
    t["generation"] = column_of<uint32_t>(all, [](const Task& x) { return x.generation; });
    t["parent"] = nullable_of<uint32_t>(all, [](const Task& x) { return int64_t{x.parent}; }, Tasks::kNoParent);
    t["source"] = column_of<uint8_t>(all, [](const Task& x) { return static_cast<uint8_t>(x.source); });
    t["first_ns"] = nullable_of<int64_t>(all, [](const Task& x) { return x.first_ns; }, Tasks::kNever);
    t["exit_ns"] = nullable_of<int64_t>(all, [](const Task& x) { return x.exit_ns; }, Tasks::kNever);
    return t;
}

nb::dict names_of(const Tasks& tasks) {
    using Name = Tasks::Name;
    nb::dict n;
    n["task_id"] = column_of<uint32_t>(tasks.names(), [](const Name& x) { return x.task; });
    n["from_ns"] = column_of<int64_t>(tasks.names(), [](const Name& x) { return x.from_ns; });
    n["comm"] = column_of<uint32_t>(tasks.names(), [](const Name& x) { return x.comm; });
    return n;
}

nb::dict counts_of(const std::map<std::string, uint64_t>& counts) {
    nb::dict out;
    for (const auto& [name, n] : counts) {
        out[name.c_str()] = n;
    }
    return out;
}

/// What every decoder ends with. `D`: a Decoder, or the Sink that `said` writes to.
template <class D, class Said>
nb::dict finish(const D& d, const Said& said) {
    nb::dict out;
    out["tasks"] = tasks_of(d.tasks());
    out["names"] = names_of(d.tasks());
    const std::vector<std::string> names = d.tasks().comms().names();
    nb::dict comm;
    comm["id"] = numbers(names.size());
    comm["name"] = names;
    out["comm"] = comm;
    out["event_counts"] = counts_of(d.counts(false));
    out["skipped"] = counts_of(d.counts(true));
    nb::list lost;
    for (size_t cpu = 0; cpu < d.losses().size(); ++cpu) {
        nb::dict l;
        l["cpu"] = cpu;
        l["lost"] = d.losses()[cpu].lost;
        l["gaps"] = d.losses()[cpu].gaps;
        l["blind_ns"] = d.losses()[cpu].blind_ns;
        lost.append(l);
    }
    out["lost"] = lost;
    nb::list streams;
    for (size_t cpu = 0; cpu < d.streams().size(); ++cpu) {
        const CpuStream& s = d.streams()[cpu];
        const bool cut = s.cut_short(d.tasks(), static_cast<uint32_t>(cpu));
        if (s.events > 0 || cut) {
            nb::dict of;
            of["cpu"] = cpu;
            of["events"] = s.events;
            of["first_ns"] = s.events > 0 ? nb::cast(s.first_ns) : nb::none();
            of["last_ns"] = s.events > 0 ? nb::cast(d.losses()[cpu].last_ns) : nb::none();
            of["late"] = s.late;
            of["cut"] = cut;
            of["steps_back"] = s.steps_back;
            of["busy_first"] = s.busy_first ? nb::cast(*s.busy_first) : nb::none();
            of["busy_last"] = s.busy_last ? nb::cast(*s.busy_last) : nb::none();
            streams.append(of);
        }
    }
    out["streams"] = streams;
    out["events"] = d.events;
    out["first_ns"] = d.first_ns == Tasks::kNever ? nb::none() : nb::cast(d.first_ns);
    out["last_ns"] = d.last_ns == Tasks::kNever ? nb::none() : nb::cast(d.last_ns);
    out["steps_back"] = d.steps_back;
    out["wakeup_failed"] = d.wakeup_failed;
    nb::list problems;
    for (const std::string& line : said.problems()) {
        problems.append(escape(line));
    }
    out["problems"] = problems;
    out["missing"] = texts(said.missing());
    out["contexts"] = said.tells_contexts();
    return out;
}

/// next_batch() of a decoder.
template <class D>
nb::object next_batch(D& d) {
    std::unique_ptr<Batch> batch;
    {
        const nb::gil_scoped_release release;
        batch = d.next();
    }
    return batch == nullptr ? nb::none() : nb::object(tables_of(*batch));
}

nb::dict text_header(const TextDecoder& d) {
    nb::dict h;
    h["format"] = "text";
    h["version"] = d.dialect();
    h["cpus"] = d.cpus();
    h["kernel"] = text_or_none(d.kernel());
    h["uname"] = text_or_none(d.uname());
    return h;
}

nb::dict pftrace_header(const PftraceDecoder& d) {
    nb::dict h;
    h["format"] = "pftrace";
    h["cpus"] = d.sink().cpus();
    h["clock"] = text_or_none(d.clock());
    const PftraceIndex& i = d.index();
    h["kernel"] = text_or_none(i.release);
    h["uname"] = text_or_none(i.release.empty() ? "" : "Linux " + i.release + " " + i.version + " " + i.machine);
    return h;
}

/// {table: [(column, type, nullable)]} of the column structs, for the test that compares them with rewake.forms.
nb::dict schema() {
    nb::dict out;
    Batch batch(std::make_shared<Pool>());
    batch.tables([&](auto& t) {
        nb::list columns;
        t.each([&](const char* name, auto& column) {
            using C = std::remove_reference_t<decltype(column)>;
            using V = typename C::Value;
            std::string type = "bool";
            if constexpr (!std::is_same_v<V, bool>) {
                type = (std::is_signed_v<V> ? "int" : "uint") + std::to_string(sizeof(V) * 8);
            }
            columns.append(nb::make_tuple(name, type, C::nullable));
        });
        out[std::remove_reference_t<decltype(t)>::name] = columns;
    });
    return out;
}

}  // namespace
}  // namespace rewake::decode

NB_MODULE(_decode, m) {
    using namespace rewake::decode;
    constexpr const char* kReserve =
        "Before the first batch: ids for the idle tasks of so many CPUs, if the snapshot has more than the trace.";
    m.doc() = "Traces to columns.";
    // Looked up when it is needed: the module must not keep Python objects beyond the interpreter.
    nb::register_exception_translator(
        [](const std::exception_ptr& p, void*) {
            try {
                std::rethrow_exception(p);
            } catch (const Error& e) {
                const nb::object type = nb::module_::import_("rewake.errors").attr("TraceError");
                PyErr_SetString(type.ptr(), escape(e.what()).c_str());
            }
        },
        nullptr);
    nb::class_<Decoder>(m, "Decoder", "An open trace; raises rewake.errors.TraceError.")
        .def("next_batch", &next_batch<Decoder>,
             "The next batch: {table: {column: array or (values, null)}}, None at the end.")
        .def("reserve_idle", &Decoder::reserve_idle, nb::arg("n_cpus"), kReserve)
        .def(
            "finish", [](const Decoder& d) { return finish(d, d); },
            "Tasks, names, counts, losses and problems; complete once next_batch() returned None.");
    nb::class_<TraceDat, Decoder>(m, "TraceDat", "An open trace.dat.")
        .def(nb::init<const std::string&, size_t>(), nb::arg("path"), nb::arg("batch_events") = 1'000'000)
        .def_prop_ro("header", [](const TraceDat& d) { return header_of(d.trace().container, d.trace().formats); });
    nb::class_<perf::PerfData, Decoder>(m, "PerfData", "An open perf.data.")
        .def(nb::init<const std::string&, size_t>(), nb::arg("path"), nb::arg("batch_events") = 1'000'000)
        .def_prop_ro("header", [](const perf::PerfData& d) { return header_of(d); });
    nb::class_<TextDecoder>(m, "Text", "Open ftrace text; raises rewake.errors.TraceError.")
        .def(nb::init<const std::string&, size_t>(), nb::arg("path"), nb::arg("batch_events") = 1'000'000)
        .def_prop_ro("header", &text_header)
        .def("next_batch", &next_batch<TextDecoder>, "As TraceDat.next_batch.")
        .def("reserve_idle", &TextDecoder::reserve_idle, nb::arg("n_cpus"), kReserve)
        .def(
            "finish", [](const TextDecoder& d) { return finish(d.sink(), d); },
            "As TraceDat.finish, and `missing`: what the text does not carry; `contexts`: every record says whether it "
            "comes from an interrupt.");
    nb::class_<PftraceDecoder>(m, "Pftrace", "An open Perfetto trace without compressed packets; raises TraceError.")
        .def(nb::init<const std::string&, size_t>(), nb::arg("path"), nb::arg("batch_events") = 1'000'000)
        .def_static("compressed", &PftraceDecoder::compressed, nb::arg("path"),
                    "Whether the file has packets that collectors.unpack must unpack first.")
        .def_prop_ro("header", &pftrace_header)
        .def("next_batch", &next_batch<PftraceDecoder>, "As TraceDat.next_batch.")
        .def("reserve_idle", &PftraceDecoder::reserve_idle, nb::arg("n_cpus"), kReserve)
        .def(
            "finish", [](const PftraceDecoder& d) { return finish(d.sink(), d); },
            "As TraceDat.finish, and `missing` and `contexts`.");
    m.def("schema", &schema, "Column structs of the event tables: {table: [(column, type, nullable)]}.");
}
