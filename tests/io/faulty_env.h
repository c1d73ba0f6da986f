// An Env that counts its operations and, at one of them, kills the process, fails, or writes short; and toy
// checkpoints.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "harness/files.h"
#include "io/checkpoints.h"

namespace hone::test {

class FaultyEnv : public Env {
 public:
  enum class Fault { none, kill, fail, short_write };

  FaultyEnv() = default;
  FaultyEnv(Fault fault, int at, int error = EIO, bool for_ever = false)
      : fault_(fault), at_(at), error_(error), for_ever_(for_ever) {}

  int before(Operation& operation) override {
    const int number = ++count_;
    bool now = fault_ != Fault::none && (number == at_ || (for_ever_ && number > at_));
    if (fault_ == Fault::fail && error_ == EINTR && for_ever_) now &= (number - at_) % 2 == 0;  // each call once
    if (!now) return 0;
    what_ = std::string(name_of(operation.kind)) + " " + operation.path.string();
    if (fault_ == Fault::kill) ::kill(::getpid(), SIGKILL);
    if (fault_ == Fault::short_write && !operation.data.empty())
      operation.data = operation.data.first((operation.data.size() + 1) / 2);
    return fault_ == Fault::fail ? error_ : 0;
  }
  int count() const { return count_; }
  const std::string& what() const { return what_; }  // the operation that was hit

 private:
  Fault fault_ = Fault::none;
  int at_ = 0, error_ = 0;
  std::atomic<int> count_ = 0;
  bool for_ever_ = false;
  std::string what_;
};

// Temporary folders in memory where there is room for them: thousands of saves are synced.
class WithFastFolder : public testing::Test {
  struct UseMemory {
    UseMemory() {
      if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0);
    }
  };

 protected:
  UseMemory use_memory_;
  TempFolder folder_;
};

// The bytes of a toy tensor: different for each step and name.
inline std::vector<std::byte> toy_bytes(const io::TensorSpec& spec, std::int64_t step) {
  std::vector<std::byte> bytes(io::tensor_bytes(spec));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(step * 31 + static_cast<std::int64_t>(i * 7 + spec.name.size()));
  return bytes;
}

// A checkpoint as training writes it: `size` shards with an index, files beside them, optimizer state below state/.
inline void save_toy(const Folder& checkpoints, std::int64_t step, bool replace = false, int size = 2) {
  std::vector<std::byte> bytes;
  const auto bytes_of = [&](const io::TensorSpec& spec) -> std::span<const std::byte> {
    return bytes = toy_bytes(spec, step);
  };
  const auto save = io::Checkpoints(checkpoints).start_save(step, {.run_id = "test", .replace = replace, .fence = {}});
  save->add_file("config.json", "{\"model_type\": \"toy\"}\n");
  io::ModelSave model;
  model.tensors = {{"layers.0.up", "F32", {8, 4}}, {"layers.1.up", "BF16", {5}}, {"norm", "F32", {0}}};
  for (int i = 2; i < size; ++i) model.tensors.push_back({"layers." + std::to_string(i) + ".down", "F32", {8, 4}});
  model.max_shard_bytes = 128;
  save->add_model(model, bytes_of);
  save->add_file("state/train.json", "{\"step\": " + std::to_string(step) + "}\n");
  save->add_file("templates/a.jinja", "a");
  save->add_safetensors("state/optimizer-00000-of-00001.safetensors", {{"m", "F32", {8, 4}}}, {}, bytes_of);
  io::Manifest manifest;
  manifest.step = step;
  save->commit(manifest);
}

// Runs work in a process of its own and says how it ended: its exit status, or minus the signal. `said` gets what it
// wrote with say().
inline int in_child(const std::function<void(const std::function<void(std::int64_t)>& say)>& work,
                    std::vector<std::int64_t>* said) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    log::set_level(log::Level::silent);
    try {
      work([&](std::int64_t value) {
        if (::write(ends[1], &value, sizeof value) != sizeof value) ::_exit(3);
      });
    } catch (const Error&) {
      ::_exit(1);
    } catch (...) {
      ::_exit(2);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::int64_t value = 0;
  while (::read(ends[0], &value, sizeof value) == sizeof value)
    if (said) said->push_back(value);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

class Quiet {
 public:
  Quiet() : old_(log::level()) { log::set_level(log::Level::silent); }
  ~Quiet() { log::set_level(old_); }

 private:
  log::Level old_;
};

}  // namespace hone::test
