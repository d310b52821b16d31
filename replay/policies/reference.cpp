// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/reference.hpp"

namespace rewake {
namespace {

/// A rule without state.
class Reference : public Policy {
  public:
    explicit Reference(const Topology& t) : t_(t) {}
    bool reads_averages() const override { return false; }

  protected:
    static Decision at(Cpu c, Branch b, uint32_t looked = 0) {
        Decision d;
        d.cpu = d.class_cpu = c;
        d.branch = b;
        d.looked = looked;
        return d;
    }
    /// Notes that the idle state of every allowed CPU was looked at.
    Decision& looked_everywhere(Decision& d, const Wakeup& w, const CpuMask* dirty) const {
        for (int i = 0; i < t_.words; ++i) {
            d.scanned = static_cast<uint16_t>(d.scanned + bit_count(w.allowed->w[i] & t_.online.w[i]));
            if (dirty && (dirty->w[i] & w.allowed->w[i] & t_.online.w[i])) d.exposed = true;
        }
        d.looked |= kAllowed;
        return d;
    }
    const Topology& t_;
};

class Recorded final : public Reference {
  public:
    using Reference::Reference;
    Decision decide(const View&, const Wakeup&, const CpuMask*, Cpu recorded) override {
        return at(recorded, Branch::recorded);
    }
};

class Prev final : public Reference {
  public:
    using Reference::Reference;
    Decision decide(const View&, const Wakeup& w, const CpuMask*, Cpu) override { return at(w.prev, Branch::prev); }
};

class Waker final : public Reference {
  public:
    using Reference::Reference;
    Decision decide(const View&, const Wakeup& w, const CpuMask*, Cpu) override {
        return w.allowed->test(w.waker) ? at(w.waker, Branch::waker, kAllowed) : at(w.prev, Branch::prev, kAllowed);
    }
};

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

class RandomIdle final : public Reference {
  public:
    RandomIdle(const Topology& t, uint64_t seed) : Reference(t), seed_(mix(seed + kGolden)) {}
    Decision decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu) override {
        auto idle = [&](unsigned i) { return v.avail.w[i] & w.allowed->w[i] & t_.online.w[i]; };
        const uint64_t draw = mix(seed_ + kGolden * ++decisions_);
        const uint64_t n =
            static_cast<uint64_t>(sum_in_range(0, t_.words * 64u - 1, idle, [](uint64_t b) { return bit_count(b); }));
        Decision d = at(w.prev, n ? Branch::random_idle : Branch::prev);
        uint64_t skip = ((draw >> 32) * n) >> 32;
        for (unsigned i = 0; n && i < static_cast<unsigned>(t_.words); ++i) {
            uint64_t bits = idle(i);
            const uint64_t here = static_cast<uint64_t>(bit_count(bits));
            if (skip >= here) {
                skip -= here;
                continue;
            }
            for (; skip; --skip) bits &= bits - 1;
            d.cpu = d.class_cpu = cpu_at(i, bits);
            break;
        }
        return looked_everywhere(d, w, dirty);
    }

  private:
    static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
    uint64_t seed_, decisions_ = 0;  ///< the n-th decision of a run draws the n-th number
};

class OracleIdle final : public Reference {
  public:
    using Reference::Reference;
    Decision decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu) override {
        auto idle = [&](unsigned i) { return v.avail.w[i] & w.allowed->w[i] & t_.online.w[i]; };
        auto nearest = [&](const CpuMask& near) {
            return first_in_wrap(t_.words, 0, [&](unsigned i) { return idle(i) & near.w[i]; });
        };
        Decision d = at(w.prev, Branch::prev);
        auto found = (v.avail.test(w.prev) && w.allowed->test(w.prev) && t_.online.test(w.prev)) ? std::optional(w.prev)
                                                                                                 : std::nullopt;
        if (!found) found = nearest(t_.smt[w.prev.v]);
        // One that is offline shares its cache with nobody, whenever it went.
        if (const CpuMask& llc = t_.llc_span[t_.llc[w.prev.v].v]; !found && llc.test(w.prev)) found = nearest(llc);
        if (!found) found = nearest(t_.node_span[t_.node[w.prev.v]]);
        if (!found) found = first_in_wrap(t_.words, 0, idle);
        if (found) d = at(*found, Branch::oracle_idle);
        return looked_everywhere(d, w, dirty);
    }
};

template <class P>
PolicyEntry entry(std::string name, std::string summary) {
    PolicyInfo info;
    info.name = std::move(name);
    info.summary = std::move(summary);
    info.reference = true;
    info.steps = {info.summary};
    auto make = [info](const PolicyParams& given, const Topology& t,
                       [[maybe_unused]] uint64_t seed) -> std::unique_ptr<Policy> {
        with_defaults(info, given);
        if constexpr (std::is_constructible_v<P, const Topology&, uint64_t>)
            return std::make_unique<P>(t, seed);
        else
            return std::make_unique<P>(t);
    };
    return {info, make};
}

}  // namespace

std::vector<PolicyEntry> reference_entries() {
    return {entry<Recorded>("recorded", "what the recorded kernel chose"),
            entry<Prev>("prev", "always the task's previous CPU (null)"),
            entry<Waker>("waker", "the waker's CPU where allowed, else prev"),
            entry<RandomIdle>("random-idle", "a random idle allowed CPU, prev when there is none (null)"),
            entry<OracleIdle>(
                "oracle-idle",
                "an idle allowed CPU, the nearest to prev (core, LLC, node, anywhere), else prev (unreachable)")};
}

}  // namespace rewake
