// A pipe read front to back: a FIFO, standard input, what a shell puts in place of <(command).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace hone::io {

// Whether the path is a pipe, so that it can be read once, and only by who waits for it.
bool is_pipe(const std::filesystem::path& path);

// Throws Error(data). One thread at a time.
class Pipe {
 public:
  // waiting: called about ten times a second while nothing comes; what it throws comes out of read(). May be empty.
  // Does not wait for a writer.
  Pipe(const std::filesystem::path& path, std::function<void()> waiting);
  ~Pipe();
  Pipe(const Pipe&) = delete;
  // Waits for something; fewer bytes than there is room for are usual. 0: the end, all writers have closed it.
  std::size_t read(std::span<std::byte> into);

 private:
  std::filesystem::path path_;
  std::function<void()> waiting_;
  int fd_ = -1;
};

}  // namespace hone::io
