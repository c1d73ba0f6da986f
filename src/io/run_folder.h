// A run's folder: its lock, its recipe, its id, its metrics; config.yaml, run.json, metrics.jsonl, checkpoints/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/log.h"
#include "io/checkpoints.h"

namespace hone::io {

// metrics.jsonl: one object per line, each in one write. A failing disk is a warning once a minute, never the end of a
// run.
class MetricsFile {
 public:
  MetricsFile(const Folder& folder, const std::string& name = "metrics.jsonl");
  // Keeps the lines whose "step" is at most `step`, drops a torn last line; replaces the file in one rename.
  void keep_up_to(std::int64_t step);
  void append(const nlohmann::json& object) noexcept;  // NaN and Inf become "nan", "inf" (strings): the line stays JSON
  std::int64_t failures() const { return failures_; }

 private:
  void open();
  Folder folder_;
  std::string name_;
  std::optional<OutFile> file_;
  std::optional<std::uint64_t> good_size_;  // end of the last whole line, once known
  log::Limiter warnings_;
  std::int64_t failures_ = 0;
};

// Opened and locked while alive. The lock is the kernel's (flock): it ends with the process, whatever happens to it.
class RunFolder {
 public:
  struct Options {
    bool fresh = false;                      // --new: an existing folder is moved to <folder>.old-k first
    ErrorKind kind = ErrorKind::checkpoint;  // of its errors
  };
  // Makes the folder if needed. Error(locked): another process holds it, with who and since when.
  RunFolder(Env& env, const std::filesystem::path& path, Options options);
  RunFolder(Env& env, const std::filesystem::path& path) : RunFolder(env, path, Options{}) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return folder_->path(); }
  const Folder& folder() const { return *folder_; }
  const std::string& run_id() const { return run_id_; }  // of this process's hold on the folder
  bool existed() const { return existed_; }              // there was a recipe in it
  std::optional<std::string> config() const;             // config.yaml as it is
  void write_config(std::string_view yaml) const;
  Checkpoints& checkpoints() { return *checkpoints_; }
  void link(const std::string& name, const std::string& checkpoint) const;  // "latest", "best": for people
  // Throws Error(locked) if another run id has taken over the folder (a file system whose locks do not work).
  void check_owner() const;
  // Throws Error(checkpoint) with figures if `count` checkpoints of `bytes` will not fit.
  void check_space(std::uint64_t bytes, std::int64_t count) const;

 private:
  void take_lock(const std::filesystem::path& path);
  void set_aside(const std::filesystem::path& path);
  Env& env_;
  Options options_;
  std::optional<Folder> folder_;
  std::optional<Checkpoints> checkpoints_;
  std::string run_id_;
  int lock_ = -1;
  bool existed_ = false;
};

// runs/<name>/run_k: the folder of the next new run, or with `resume` the newest there is (Error(usage) if none).
std::filesystem::path numbered_run(Env& env, const std::filesystem::path& runs, const std::string& name, bool resume);

}  // namespace hone::io
