// SPDX-License-Identifier: GPL-2.0-or-later
// Fields of a conformance vector: checked, and named in the error when they are wrong.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "replay/model/mask.hpp"

namespace rewake::bind {

namespace nb = nanobind;

/// The policy has no such scope, or not on that machine.
struct Unsupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

using Numbers = std::vector<int64_t>;

/// Fields of one JSON object. Throws std::invalid_argument naming the field.
class Fields {
  public:
    explicit Fields(nb::dict d) : d_(std::move(d)) {}
    bool has(const char* name) const { return d_.contains(name); }
    template <class T>
    T get(const char* name) const {
        if (!has(name)) throw std::invalid_argument(std::string("field ") + name + " is missing");
        T value;
        if (!nb::try_cast(d_[name], value))
            throw std::invalid_argument(std::string("field ") + name + " has another type");
        return value;
    }
    template <class T>
    T get(const char* name, T otherwise) const {
        return has(name) ? get<T>(name) : otherwise;
    }
    int64_t number(const char* name) const { return get<int64_t>(name); }
    int64_t number(const char* name, int64_t otherwise) const { return get<int64_t>(name, otherwise); }
    bool flag(const char* name) const { return number(name, 0) != 0; }
    Cpu cpu(const char* name, int n_cpus) const { return checked(number(name), n_cpus, name); }
    CpuMask set(const char* name, int n_cpus) const { return mask(get<Numbers>(name), n_cpus, name); }
    /// Array over all CPUs; `otherwise` when missing.
    template <class T>
    std::vector<T> per_cpu(const char* name, const std::vector<T>& otherwise) const {
        if (!has(name)) return otherwise;
        const auto all = get<Numbers>(name);
        if (all.size() != otherwise.size())
            throw std::invalid_argument(std::string("field ") + name + " has another length");
        return {all.begin(), all.end()};
    }
    static Cpu checked(int64_t c, int n_cpus, const char* name) {
        if (c < 0 || c >= n_cpus)
            throw std::invalid_argument(std::string("field ") + name + ": no CPU " + std::to_string(c));
        return Cpu(static_cast<uint16_t>(c));
    }
    static CpuMask mask(const Numbers& cpus, int n_cpus, const char* name) {
        CpuMask m;
        for (int64_t c : cpus) m.set(checked(c, n_cpus, name));
        return m;
    }

  private:
    nb::dict d_;
};

}  // namespace rewake::bind
