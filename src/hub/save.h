// Writes a model as a Hugging Face folder through a folder commit: for checkpoints, `hone init` and exports.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/model.h"
#include "hone/text.h"
#include "io/folder_commit.h"

namespace hone::hub {

// The small files of a model folder, and how large a weight file may get.
struct ModelFiles {
  std::vector<std::pair<std::string, std::string>>
      texts;  // name, content: config.json, generation_config.json, tokenizer files
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

struct FilesHow {
  std::optional<std::int32_t> turn_end = {};      // a token at which generation stops, too
  std::optional<at::ScalarType> type = {};        // that config.json names, instead of the model's
  bool align_ids = false;                         // ids of special tokens become the tokenizer's
  std::filesystem::path generation_from = {};     // the folder whose generation_config.json counts; "": `source`
};
// config.json from the model; generation_config.json as `source` has it, else made from config.json; the tokenizer's
// files. source: the folder the model came from, or "". tokenizer: may be null.
ModelFiles model_files(Model& model, const std::filesystem::path& source, const Tokenizer* tokenizer,
                       const FilesHow& how = {});
// What align_ids changes of the model's files: "eos_token_id 257 (was 2)". Of a model that writes no texts padding
// alone.
std::vector<std::string> aligned_ids(const Model& model, const std::filesystem::path& source,
                                     const Tokenizer& tokenizer);

// What the weight files hold; `value` is brought to `type` while it is written.
struct SavedWeight {
  std::string name;
  Tensor value;
  at::ScalarType type;
  bool buffer = false;
};
using SavedWeights = std::vector<SavedWeight>;
SavedWeights weights_of(const Module& model);  // as they are, in the model's order. A tied head is not listed.

// Adds all of it to the commit; the caller commits. before_each: called before a weight is written; may be empty.
void add_model(io::FolderCommit& commit, const SavedWeights& weights, const ModelFiles& files,
               const std::function<void()>& before_each = {});

// A whole model folder, made in one piece; an existing one is an error, or with `replace` moved to <folder>.old-k if
// hone made it. A StopSignal ends it, and nothing is left behind.
struct SaveOptions {
  bool replace = false;
};
void save_model_folder(const std::filesystem::path& folder, Model& model, const ModelFiles& files, SaveOptions options);

}  // namespace hone::hub
