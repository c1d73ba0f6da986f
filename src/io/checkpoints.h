// The checkpoints folder of a run: which ones are whole, which is newest, which may go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/env.h"
#include "io/folder_commit.h"
#include "io/manifest.h"

namespace hone::io {

struct Checkpoint {
  std::string name;                   // of its folder; means nothing
  std::int64_t step = -1;             // as its manifest says; -1: the manifest cannot be read
  std::vector<std::string> problems;  // empty: whole, as far as it was looked at
  bool finite = true;
  bool whole() const { return problems.empty(); }
};

std::string step_name(std::int64_t step);  // "step-00001000"

// Truth is the manifests: names, times and the `latest` link are never believed. One thread at a time.
class Checkpoints {
 public:
  explicit Checkpoints(Folder folder);
  const Folder& folder() const { return folder_; }

  std::vector<Checkpoint> scan(Verify mode) const;  // oldest first; broken ones too
  // The newest whole, finite one. Broken newer ones are named in a warning; if there are only broken ones, that is an
  // Error that lists them (never "nothing there"). strict: a broken newer one is an Error as well.
  std::optional<Checkpoint> newest(bool strict = false) const;
  Checkpoint at(std::int64_t step) const;  // verified; Error(checkpoint) with the steps there are
  Folder open(const Checkpoint& checkpoint) const;

  std::unique_ptr<FolderCommit> start_save(std::int64_t step, FolderCommit::Options options) const;
  // Deletes all but the newest `keep` whole ones and the pinned steps; never the last whole one, never a broken one
  // (people may want to look at it), never one with a file that hone did not write; the first time that is said.
  // keep < 1: deletes nothing. Returns the steps deleted.
  std::vector<std::int64_t> retain(std::int64_t keep, const std::set<std::int64_t>& pinned = {});
  int clean() const;  // left-overs of killed processes; under the run's lock

 private:
  Folder folder_;
  std::set<std::string> kept_;  // beyond `keep`, as was said
};

// Which of the whole steps `retain` would delete; a function of its arguments, for tests.
std::vector<std::int64_t> steps_to_delete(std::vector<std::int64_t> whole_steps, std::int64_t keep,
                                          const std::set<std::int64_t>& pinned);

}  // namespace hone::io
