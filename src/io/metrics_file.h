// A run's metrics.jsonl: appended to line by line, cut back when a run resumes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/log.h"
#include "io/file_identity.h"

namespace hone::io {

inline constexpr const char* kTestFile = "test.jsonl";  // of a run folder: a line of each test

// metrics.jsonl: one object per line, each in one write. A failing disk is a warning once a minute, never the end of a
// run.
class MetricsFile {
 public:
  MetricsFile(const Folder& folder, const std::string& name = "metrics.jsonl");
  // Keeps the lines whose "step" is at most `step`, of that very step only while there are fewer than `most`, drops a
  // torn last line; replaces the file in one rename. Returns how many are kept.
  std::int64_t keep_up_to(std::int64_t step, std::int64_t most = INT64_MAX);
  void append(const nlohmann::json& object) noexcept;  // NaN and Inf become "nan", "inf" (strings): the line stays JSON
  std::int64_t failures() const { return failures_; }

 private:
  void open();
  Folder folder_;
  std::string name_;
  std::optional<OutFile> file_;
  std::optional<std::uint64_t> good_size_;  // end of the last whole line, once known
  std::optional<FileIdentity> identity_;    // of the file that was opened last, also after a failed write
  log::Limiter warnings_;
  std::int64_t failures_ = 0;
};

}  // namespace hone::io
