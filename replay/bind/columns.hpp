// SPDX-License-Identifier: GPL-2.0-or-later
// Columns across the language boundary: numpy arrays in, numpy arrays out, NULL as a mask beside the values.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rewake::bind {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// One column of `table`. `n` becomes the length (checked when already set). `null`, when given, receives the NULL mask or
/// nullptr. The pointers live as long as `table`. Throws std::invalid_argument naming the column.
template <class T>
const T* column(const nb::dict& table, const char* name, size_t& n, const bool** null = nullptr) {
    if (!table.contains(name)) throw std::invalid_argument("missing column " + std::string(name));
    nb::object value = table[name];
    nb::object mask = nb::none();
    if (nb::isinstance<nb::tuple>(value)) {
        mask = value[nb::int_(1)];
        value = value[nb::int_(0)];
    }
    In<T> array;
    if (!nb::try_cast(value, array, false))
        throw std::invalid_argument("column " + std::string(name) + " has another type");
    if (n != static_cast<size_t>(-1) && array.shape(0) != n)
        throw std::invalid_argument("column " + std::string(name) + " has another length");
    n = array.shape(0);
    if (null) *null = nullptr;
    if (!mask.is_none()) {
        In<bool> bits;
        if (!nb::try_cast(mask, bits, false) || bits.shape(0) != n)
            throw std::invalid_argument("column " + std::string(name) + " has a bad NULL mask");
        if (null) {
            *null = bits.data();
        } else {
            for (size_t i = 0; i < n; ++i)
                if (bits.data()[i]) throw std::invalid_argument("column " + std::string(name) + " must not be NULL");
        }
    }
    return array.data();
}

inline constexpr size_t kAnyLength = static_cast<size_t>(-1);

/// A numpy array that owns `values`.
template <class T>
nb::object own(std::vector<T> values) {
    auto* keep = new std::vector<T>(std::move(values));
    nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(keep->data(), {keep->size()}, owner));
}
/// A bool array that owns bytes of 0 and 1.
inline nb::object own_bool(std::vector<uint8_t> bytes) {
    auto* keep = new std::vector<uint8_t>(std::move(bytes));
    nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
    return nb::cast(
        nb::ndarray<nb::numpy, bool, nb::ndim<1>>(reinterpret_cast<bool*>(keep->data()), {keep->size()}, owner));
}
/// A numpy view of `values` (anything with data() and size()), which belong to `owner` and may be overwritten by its next call.
template <class Values>
nb::object lend(Values& values, nb::handle owner) {
    using T = std::remove_reference_t<decltype(*values.data())>;
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values.data(), {values.size()}, owner));
}

}  // namespace rewake::bind
