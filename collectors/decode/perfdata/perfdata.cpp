// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/perfdata/perfdata.hpp"

#include <algorithm>

#include "collectors/decode/rows.hpp"

namespace rewake::decode::perf {
namespace {

// As for trace.dat (tracedat/pages.cpp): small blocks stay in the cache.
constexpr size_t kBlock = 128 << 10, kAllBlocks = 8 << 20, kLeastBlock = 4096;

template <bool Big>
Merge<Stream<Big>> merged(const Sources& sources, std::vector<Chains::Chain> chains) {
    const size_t block = std::clamp(kAllBlocks / std::max<size_t>(chains.size(), 1), kLeastBlock, kBlock);
    std::vector<Stream<Big>> streams;
    streams.reserve(chains.size());
    for (Chains::Chain& chain : chains) {
        streams.emplace_back(sources, std::move(chain), block);
    }
    return Merge<Stream<Big>>(std::move(streams));
}

}  // namespace

PerfFile::PerfFile(const std::string& path)
    : file(path),
      header(read_header(file, problems)),
      scanned(scan(file, header, problems)),
      formats(header.tracing, problems) {}

PerfData::PerfData(const std::string& path, size_t most)
    : PerfFile(path),
      Decoder({formats, PerfFile::problems, scanned.n_cpus, static_cast<uint32_t>(header.tracing.long_size)}, most) {
    bool any = false;
    for (const Attr& a : header.attrs.all) {
        if (a.type == 2 && a.config < 65536) {
            const Kind kind = formats.plan(formats.index(static_cast<uint16_t>(a.config))).kind;
            any |= kind != Kind::none;
            has_fork_ |= kind == Kind::fork;
            has_exit_ |= kind == Kind::exit;
        }
    }
    if (!any) {
        throw Error(path +
                    ": holds no tracepoints of the scheduler; record with `perf sched record`, or `perf record "
                    "-e 'sched:*' -a`");
    }
    const Sources sources{&file, scanned.spool ? &scanned.spool->file() : nullptr, &header.attrs, scanned.n_cpus,
                          &(PerfFile::problems)};
    if (header.big) {
        merge_.emplace<Merge<Stream<true>>>(merged<true>(sources, std::move(scanned.chains)));
    } else {
        merge_.emplace<Merge<Stream<false>>>(merged<false>(sources, std::move(scanned.chains)));
    }
    for (const auto& [name, n] : scanned.not_traced) {
        add_skipped(name, n);
    }
}

bool PerfData::fill(Batch& b, int64_t end) {
    const bool more = std::visit(
        [&](auto& merge) {
            if constexpr (std::is_same_v<std::decay_t<decltype(merge)>, std::monostate>) {
                return false;
            } else {
                return merge.run([&](const auto& s) {
                    one(s, b);
                    return next_id_ < end;
                });
            }
        },
        merge_);
    return more || losses_at_end(b, end);
}

template <bool Big>
void PerfData::one(const Stream<Big>& s, Batch& b) {
    switch (s.kind()) {
        case kComm: return comm(s);
        case kFork:
        case kExit: return fork_or_exit(s, b);
        default: visit(s, static_cast<int64_t>(s.ts()), b);
    }
}

/// {u32 pid, tid; char comm[], a multiple of 8}: the task has this name from now on.
template <bool Big>
void PerfData::comm(const Stream<Big>& s) {
    const auto tid = load<uint32_t, Big>(s.body() + kHead + 4);
    const auto task = tid < kTids ? tasks_.known(tid) : std::nullopt;
    if (task) {
        tasks_.name(*task, s.body() + kHead + 8, std::min<uint32_t>(s.body_size() - kHead - 8, sizeof(CommBytes)),
                    static_cast<int64_t>(s.ts()));
    }
}

/// {u32 pid, ppid, tid, ptid; u64 time}
template <bool Big>
void PerfData::fork_or_exit(const Stream<Big>& s, Batch& b) {
    const bool is_fork = s.kind() == kFork;
    if (is_fork ? has_fork_ : has_exit_) {
        return;
    }
    const auto tid = load<uint32_t, Big>(s.body() + kHead + 8), parent = load<uint32_t, Big>(s.body() + kHead + 12);
    const auto ns = static_cast<int64_t>(s.ts());
    if (tid == 0 || tid >= kTids || parent >= kTids) {
        return impossible(s.cpu(), s.offset());
    }
    if (!is_fork) {
        if (const auto task = tasks_.known(tid)) {
            tasks_.exit(*task, ns);
        }
        return;
    }
    const size_t i = head(b, b.fork, ns, s.cpu());
    const uint32_t task = tasks_.see(parent, s.cpu(), ns);
    b.fork.task.set(i, task);
    b.fork.child.set(i, tasks_.fork(tid, task, s.cpu(), ns));
    ++forks_;
}

/// What perf counted at the end of the recording and no mark in the records told.
bool PerfData::losses_at_end(Batch& b, int64_t end) {
    for (; next_loss_ < scanned.lost.size(); ++next_loss_) {
        const int64_t told = losses_[next_loss_].lost, all = static_cast<int64_t>(scanned.lost[next_loss_]);
        if (all <= told || last_ns == Tasks::kNever) {
            continue;
        }
        if (next_id_ >= end) {
            return true;
        }
        loss_row(static_cast<uint16_t>(next_loss_), true, static_cast<uint64_t>(all - told), last_ns, b);
    }
    if (scanned.tail_lost && last_ns != Tasks::kNever) {
        if (next_id_ >= end) {
            return true;
        }
        scanned.tail_lost = false;
        loss_row(0, false, 0, last_ns, b);
    }
    return false;
}

std::vector<std::string> PerfData::missing() const {
    std::vector<std::string> out;
    if (scanned.some_tasks) {
        out.emplace_back("recorded for some tasks only (perf record without -a): what else ran on the CPUs is unknown");
    }
    if (forks_ > 0) {
        out.emplace_back("no sched_process_fork: forks are perf's own FORK records");
    }
    return out;
}

}  // namespace rewake::decode::perf
