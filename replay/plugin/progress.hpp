// SPDX-License-Identifier: GPL-2.0-or-later
// Where the process that runs a plugin is: a page that its parent (replay/plugins.py) reads while it runs, and after it died.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "replay/plugin/mapped.hpp"

namespace rewake {

/// Which of the plugin's functions runs; the order is that of plugins.py PHASES.
enum class Phase : uint32_t { none, load, create, decide, on_fork, on_cpu_idle, destroy };

/// The plugin let a C++ exception out; the page still says where.
struct PluginThrew : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Progress {
  public:
    explicit Progress(const std::string& path) : file_(path, sizeof(Page)), page_(static_cast<Page*>(file_.data())) {}

    /// Runs `call`, which enters the plugin. `decision` < 0: as before.
    template <class Call>
    auto inside(Phase phase, int64_t decision, Call call) {
        if (decision >= 0) store(page_->decision, decision);
        store(page_->entered, page_->entered + 1);
        store(page_->phase, static_cast<uint32_t>(phase));
        try {
            if constexpr (std::is_void_v<decltype(call())>) {
                call();
                store(page_->phase, uint32_t{0});
            } else {
                auto result = call();
                store(page_->phase, uint32_t{0});
                return result;
            }
        } catch (const std::exception& e) {
            throw PluginThrew(e.what());
        } catch (...) {
            throw PluginThrew("no std::exception");
        }
    }

  private:
    struct Page {
        uint64_t entered;  ///< calls so far
        int64_t decision;  ///< of the call under way, or of the last one that had one
        uint32_t phase;
    };
    template <class T>
    static void store(T& where, T value) {
        std::atomic_ref<T>(where).store(value, std::memory_order_release);
    }
    MappedFile file_;
    Page* page_;
};

}  // namespace rewake
