// SPDX-License-Identifier: GPL-2.0-or-later
// A file shared between the process that runs a plugin and the one that waits for it: what is stored there outlives a crash.
#pragma once

#include <cstddef>
#include <string>

namespace rewake {

class MappedFile {
  public:
    /// Maps `bytes` of the file at `path`, made and filled up with zeros when it is shorter. Throws std::system_error.
    MappedFile(const std::string& path, size_t bytes);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    void* data() const { return data_; }

  private:
    void* data_ = nullptr;
    size_t bytes_;
};

}  // namespace rewake
