// A run's folder: its lock, its recipe, its id; config.yaml, run.json, checkpoints/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/log.h"
#include "io/checkpoints.h"
#include "io/run_claim.h"

namespace hone::io {

// Opened and locked while alive. The lock is the kernel's (flock): it ends with the process, whatever happens to it.
class RunFolder {
 public:
  using Options = RunFolderOptions;
  // Makes the folder if needed, unless it only watches: then nothing but what reads may be called. Error(locked):
  // another process holds it, with who and since when. Error(kind): what require_run_folder() says.
  RunFolder(Env& env, const std::filesystem::path& path, Options options);
  RunFolder(Env& env, const std::filesystem::path& path) : RunFolder(env, path, Options{}) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return folder_->path(); }
  const Folder& folder() const { return *folder_; }
  const std::string& run_id() const { return run_id_; }  // of this process's hold on the folder
  bool existed() const { return existed_; }              // there was a recipe in it
  // A checkpoint was committed here once, whether or not it is still there.
  bool had_checkpoints() const { return had_checkpoints_; }
  void note_checkpoint();                     // so it is from now on; a failure is a warning
  std::optional<std::string> config() const;  // config.yaml as it is
  // One that was edited by hand since hone wrote it is kept as config.yaml.old-k, with a warning.
  void write_config(std::string_view yaml);
  Checkpoints& checkpoints() { return *checkpoints_; }
  void keep_checkpoints_there();  // made anew, with a warning, where somebody has removed them; before a save
  // "latest", "best": for people. What stands in the way, or a file system without links, is a warning.
  void link(const std::string& name, const std::string& checkpoint);
  // Throws Error(locked) if another run id has taken over the folder (a file system whose locks do not work).
  void check_owner() const;
  // Throws Error(checkpoint) with figures if `count` checkpoints of `bytes` will not fit.
  void check_space(std::uint64_t bytes, std::int64_t count) const;
  // Removes the folder with all in it where this made it and no run has begun in it; a run that was moved aside for it
  // goes back. Then nothing is to be called.
  void discard_if_new();

 private:
  void take_lock(const std::filesystem::path& path);
  void move_aside(const std::filesystem::path& path);
  void open_checkpoints();
  void note_holder() const;
  void write_about() const;
  Env& env_;
  Options options_;
  std::optional<Folder> folder_;
  std::optional<Checkpoints> checkpoints_;
  std::string run_id_;
  std::string since_, config_hash_;  // config_hash_: of config.yaml as hone wrote it; "" = not known
  int lock_ = -1;
  bool existed_ = false, had_checkpoints_ = false, made_ = false;  // made_: the folder was not there before
  std::string aside_;  // what the run that was there is called now; "": there was none
  log::Limiter link_warnings_;
};

// runs/<name>/run_k: the folder of the next new run, or with `resume` the newest there is (Error(usage) if none).
std::filesystem::path numbered_run(Env& env, const std::filesystem::path& runs, const std::string& name, bool resume);

}  // namespace hone::io
