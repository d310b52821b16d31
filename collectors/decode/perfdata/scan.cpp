// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/perfdata/scan.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "collectors/decode/perfdata/records.hpp"
#include "collectors/decode/perfdata/window.hpp"

namespace rewake::decode::perf {
namespace {

constexpr uint64_t kMaxTracing = 256ULL << 20;
constexpr size_t kMaxOtherNames = 4096;
constexpr uint64_t kMostLost = 1ULL << 48;
// perf's own streams reach 20 to 50 times; what claims more than this is made to fill a disk, or to take for ever.
constexpr uint64_t kUnpackedLeast = 64ULL << 20, kUnpackedTimes = 200;

std::string at_offset(uint64_t offset) { return "offset " + std::to_string(offset); }

template <bool Big>
class Scanner {
  public:
    Scanner(const File& file, Header& h, Problems& problems)
        : file_(file), h_(h), problems_(problems), window_(file), in_samples_(h.attrs.all.size()) {}

    Scan run() {
        uint64_t at = h_.data_begin;
        while (at < h_.data_end) {
            const uint64_t left = h_.data_end - at;
            const uint8_t* p = left >= kHead ? window_.at(at, kHead) : nullptr;
            const uint32_t size = p != nullptr ? load<uint16_t, Big>(p + 6) : 0;
            if (p == nullptr || (sound(p) && size > left)) {
                problems_.add("the file ends inside a record (truncated)", at_offset(at));
                chains_.cut(true);
                break;
            }
            p = sound(p) ? window_.at(at, size) : nullptr;
            if (p == nullptr || !record(p, size, at)) {
                at = resync(at);
                continue;
            }
            at += size + inline_bytes_;
            inline_bytes_ = 0;
        }
        return done();
    }

  private:
    /// Whether a record can begin like this.
    static bool sound(const uint8_t* p) {
        const uint32_t type = load<uint32_t, Big>(p), size = load<uint16_t, Big>(p + 6);
        return size >= kHead && type != 0 && type < kMostTypes && (type >= kUserTypes || size % 8 == 0);
    }
    /// Whether a sample lies here, as far as one can tell.
    bool sample_at(const uint8_t* p, uint64_t left) {
        Sample s;
        const uint32_t size = load<uint16_t, Big>(p + 6);
        return load<uint32_t, Big>(p) == kSample && size <= left && sound(p) &&
               parse_sample<Big>(h_.attrs, p, size, s) <= Parsed::other_event && s.cpu < kMaxFileCpus;
    }

    /// After damage: the next place that looks like a sample.
    uint64_t resync(uint64_t at) {
        problems_.add("damaged records, skipped up to the next that can be read", at_offset(at));
        chains_.cut(true);
        for (at += 8; at + kHead <= h_.data_end; at += 8) {
            const uint8_t* p = window_.at(at, kHead);
            if (p == nullptr) {
                break;
            }
            const uint32_t size = load<uint16_t, Big>(p + 6);
            if (load<uint32_t, Big>(p) == kSample && size <= h_.data_end - at) {
                p = window_.at(at, size);
                if (p != nullptr && sample_at(p, size)) {
                    return at;
                }
            }
        }
        return h_.data_end;
    }

    /// False: damaged.
    bool record(const uint8_t* p, uint32_t size, uint64_t at) {
        const uint32_t type = load<uint32_t, Big>(p);
        if (type >= kUserTypes) {
            return user(type, p, size, at);
        }
        return kernel(type, p, size, at, false);
    }

    bool kernel(uint32_t type, const uint8_t* p, uint32_t size, uint64_t at, bool unpacked) {
        if (type == kSample) {
            Sample s;
            const Parsed parsed = parse_sample<Big>(h_.attrs, p, size, s);
            if (parsed == Parsed::ok) [[likely]] {
                seen_cpu_ = std::max(seen_cpu_, s.cpu < kMaxFileCpus ? s.cpu + 1 : 0);
                add(s.time, s.cpu, p, size, at, unpacked);
            } else if (parsed == Parsed::other_event) {
                ++in_samples_[s.attr];
            } else if (parsed == Parsed::unknown_id) {
                problems_.add("sample of an event that the header does not have, skipped", at_offset(at));
            } else {
                return false;
            }
            return true;
        }
        if (type != kLost && type != kLostSamples && type != kComm && type != kFork && type != kExit) {
            return true;
        }
        const When when = when_of<Big>(h_.attrs, p, size);
        if (type == kLostSamples || (type == kLost && !when.known)) {
            return lost(type, p, size, when);
        }
        if (when.known && when.time != 0) {
            add(when.time, when.cpu, p, size, at, unpacked);
        }
        return true;
    }

    void add(uint64_t time, uint32_t cpu, const uint8_t* p, uint32_t size, uint64_t at, bool unpacked) {
        if (unpacked) {
            at = spool_->add(p, size);
        }
        chains_.add(time, cpu, unpacked, at, at + size);
    }

    bool lost(uint32_t type, const uint8_t* p, uint32_t size, const When& when) {
        // LOST: u64 id, u64 lost; LOST_SAMPLES: u64 lost. perf writes the latter at the end without a time and with the
        // id of an event of one CPU.
        const uint32_t at = type == kLost ? kHead + 8 : kHead;
        if (size < at + 8) {
            return false;
        }
        uint32_t cpu = when.known && when.time != 0 ? when.cpu : 0;
        if (const auto found = cpu_of_.find(type == kLost ? load<uint64_t, Big>(p + kHead) : when.id);
            found != cpu_of_.end()) {
            cpu = found->second;
        }
        cpu = cpu < kMaxFileCpus ? cpu : 0;
        lost_.resize(std::max<size_t>(lost_.size(), cpu + 1));
        lost_[cpu] = std::min(lost_[cpu] + std::min(load<uint64_t, Big>(p + at), kMostLost), kMostLost);
        return true;
    }

    /// perf's own records.
    bool user(uint32_t type, const uint8_t* p, uint32_t size, uint64_t at) {
        switch (type) {
            case kHeaderAttr: return h_.pipe ? attr(at, size) : true;
            case kTracingData: return tracing(p, size, at);
            case kHeaderFeature:
                if (h_.pipe && size >= kHead + 8) {
                    Cursor in(file_, at + kHead + 8, at + size, Big);
                    read_feature(static_cast<uint32_t>(std::min<uint64_t>(load<uint64_t, Big>(p + kHead), 256)), in, h_,
                                 problems_);
                }
                return true;
            case kIdIndex: return id_index(p, size);
            case kThreadMap:  // {u64 nr, nr x {u64 pid, char comm[16]}}; -1: every task of the machine
                some_tasks_ |= size >= kHead + 16 && static_cast<int64_t>(load<uint64_t, Big>(p + kHead + 8)) != -1;
                return true;
            case kAuxtrace:
                if (size < kHead + 8 || load<uint64_t, Big>(p + kHead) > h_.data_end - at - size) {
                    return false;
                }
                inline_bytes_ = load<uint64_t, Big>(p + kHead);
                chains_.cut();
                return true;
            case kCompressed: return unpack(p + kHead, size - kHead, at);
            case kCompressed2:
                if (size < kHead + 8 || load<uint64_t, Big>(p + kHead) > size - kHead - 8) {
                    return false;
                }
                return unpack(p + kHead + 8, static_cast<size_t>(load<uint64_t, Big>(p + kHead)), at);
            default: return true;
        }
    }

    bool attr(uint64_t at, uint32_t size) {
        const uint8_t* p = window_.at(at, size);
        const uint32_t bytes = size >= kHead + 8 ? load<uint32_t, Big>(p + kHead + 4) : 0;
        if (bytes > size - kHead || h_.attrs.all.size() >= Attrs::kMost) {
            return false;
        }
        Cursor in(file_, at + kHead, at + size, Big);
        h_.attrs.all.push_back(read_attr(in, bytes, Big));
        h_.attrs.id_at = h_.attrs.all[0].id_at;
        in_samples_.push_back(0);
        while (in.left() >= 8) {
            if (!h_.attrs.add_id(in.u64("event ids"), static_cast<uint32_t>(h_.attrs.all.size() - 1))) {
                in.bad("more event ids than any machine has; the file is damaged");
            }
        }
        return true;
    }

    bool tracing(const uint8_t* p, uint32_t size, uint64_t at) {
        const uint64_t n = size >= kHead + 4 ? load<uint32_t, Big>(p + kHead) : 0;
        if (n > kMaxTracing) {
            return false;
        }
        if (n > h_.data_end - at - size) {
            fail(file_.path(), at, "the file ends inside the formats of its events; copy or record it again");
        }
        if (h_.pipe && !h_.tracing_data) {
            Cursor in(file_, at + size, at + size + n, Big);
            read_tracing(in, h_);
        }
        inline_bytes_ = n + (-n & 7);
        chains_.cut();
        return true;
    }

    /// {u64 nr, nr x {u64 id, idx, cpu, tid}}
    bool id_index(const uint8_t* p, uint32_t size) {
        const uint64_t n = size >= kHead + 8 ? load<uint64_t, Big>(p + kHead) : 0;
        if (n > (size - kHead) / 32) {
            return false;
        }
        for (uint64_t i = 0; i < n; ++i) {
            const uint8_t* entry = p + kHead + 8 + i * 32;
            const auto cpu = load<uint64_t, Big>(entry + 16);
            if (cpu < kMaxFileCpus && cpu_of_.size() < Attrs::kMostIds) {
                cpu_of_[load<uint64_t, Big>(entry)] = static_cast<uint32_t>(cpu);
                index_cpus_ = std::max(index_cpus_, static_cast<uint32_t>(cpu) + 1);
            }
            // Others, like the dummy that tells of mappings, may be on CPUs that the tracepoints are not.
            const uint32_t attr = h_.attrs.find(load<uint64_t, Big>(entry));
            if (attr != Attrs::kNone && h_.attrs.all[attr].tracepoint()) {
                by_cpu_ &= cpu < kMaxFileCpus;
                traced_.insert(static_cast<uint32_t>(std::min<uint64_t>(cpu, kMaxFileCpus)));
            }
            some_tasks_ |= static_cast<int64_t>(load<uint64_t, Big>(entry + 24)) != -1;
        }
        return true;
    }

    bool unpack(const uint8_t* p, size_t n, uint64_t at) {
        h_.compressed = true;
        if (broken_) {
            return true;
        }
        const uint64_t most = std::max(kUnpackedLeast, file_.size() * kUnpackedTimes);
        if (spool_ == nullptr) {
            spool_ = std::make_unique<Spool>(file_.path(), most);
        }
        broken_ = !unpacker_.run(p, n, [&](const uint8_t* q, size_t m) {
            unpacked_ += m;  // what is no record never comes to the spool
            if (unpacked_ > most) {
                Spool::refuse(file_.path(), most);
            }
            rest_.insert(rest_.end(), q, q + m);
            unpacked_records(at);
        });
        if (broken_) {
            problems_.add("compressed records cannot be unpacked; the rest of them is lost", at_offset(at));
            chains_.cut(true);
            tail_lost_ = true;
        }
        return true;
    }

    /// Whole records at the front of what was unpacked.
    void unpacked_records(uint64_t at) {
        size_t done = 0;
        while (rest_.size() - done >= kHead) {
            const uint8_t* p = rest_.data() + done;
            const uint32_t size = load<uint16_t, Big>(p + 6), type = load<uint32_t, Big>(p);
            if (!sound(p) || (size <= rest_.size() - done && type < kUserTypes && !kernel(type, p, size, at, true))) {
                // Lost the way: on to the next sample.
                problems_.add("damaged records, skipped up to the next that can be read", at_offset(at));
                chains_.cut(true);
                for (done += 8; done + kMostRecord <= rest_.size(); done += 8) {
                    if (sample_at(rest_.data() + done, rest_.size() - done)) {
                        break;
                    }
                }
                continue;
            }
            if (size > rest_.size() - done) {
                break;
            }
            done += size;
        }
        rest_.erase(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(std::min(done, rest_.size())));
    }

    Scan done() {
        if (h_.pipe) {
            check_attrs(h_, file_.path());
        }
        if (!rest_.empty()) {
            problems_.add("the file ends inside a record (truncated)", "its compressed part");
            chains_.cut(true);
        }
        Scan out;
        out.tail_lost = chains_.open_gap() || tail_lost_;
        out.chains = chains_.take();
        out.spool = std::move(spool_);
        // Where perf listed the CPUs of its events, a higher number in a sample is damage.
        out.n_cpus = std::max({h_.hardware.available, index_cpus_ > 0 ? index_cpus_ : seen_cpu_, 1U});
        lost_.resize(out.n_cpus);
        out.lost = std::move(lost_);
        for (size_t i = 0; i < in_samples_.size(); ++i) {
            if (in_samples_[i] > 0 && out.not_traced.size() < kMaxOtherNames) {
                const Attr& a = h_.attrs.all[i];
                out.not_traced[a.name.empty() ? "perf event " + std::to_string(a.type) + ":" + std::to_string(a.config)
                                              : a.name] += in_samples_[i];
            }
        }
        out.some_tasks = some_tasks_;
        if (by_cpu_) {
            out.traced.assign(traced_.begin(), traced_.end());
        }
        return out;
    }

    const File& file_;
    Header& h_;
    Problems& problems_;
    Window window_;
    Chains chains_;
    std::unique_ptr<Spool> spool_;
    Unpacker unpacker_;
    std::vector<uint8_t> rest_;         // unpacked bytes that are no whole record yet
    std::vector<uint64_t> in_samples_;  // samples that are no tracepoints, by attr
    std::vector<uint64_t> lost_;
    std::map<uint64_t, uint32_t> cpu_of_;  // of an id
    std::set<uint32_t> traced_;            // CPUs with an id of a tracepoint
    bool by_cpu_ = true;                   // all ids of tracepoints have their CPU
    uint64_t inline_bytes_ = 0;            // data behind the record
    uint64_t unpacked_ = 0;                // bytes so far
    uint32_t seen_cpu_ = 0, index_cpus_ = 0;
    bool some_tasks_ = false, broken_ = false, tail_lost_ = false;
};

}  // namespace

Scan scan(const File& file, Header& h, Problems& problems) {
    return h.big ? Scanner<true>(file, h, problems).run() : Scanner<false>(file, h, problems).run();
}

}  // namespace rewake::decode::perf
