// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/plugin/mapped.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rewake {

MappedFile::MappedFile(const std::string& path, size_t bytes) : bytes_(bytes ? bytes : 1) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat now{};
    int failed = 0;
    if (fd < 0 || fstat(fd, &now) != 0) failed = errno;
    // Reserved, not only sized: a full disk shall fail here, and not as a signal at some later store.
    if (!failed && static_cast<size_t>(now.st_size) < bytes_)
        failed = posix_fallocate(fd, 0, static_cast<off_t>(bytes_));
    if (!failed) {
        data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (data_ == MAP_FAILED) failed = errno;
        // What a plugin forks shall not write here: it dies where it comes back from the plugin.
        if (!failed && madvise(data_, bytes_, MADV_DONTFORK) != 0) failed = errno;
    }
    if (fd >= 0) close(fd);
    if (failed) throw std::system_error(failed, std::generic_category(), path);
}

MappedFile::~MappedFile() { munmap(data_, bytes_); }

}  // namespace rewake
