// What `hone export` is given: a run's checkpoint, a model or an adapter, with all that the card says of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_card.h"

namespace hone::cli {

struct ExportSource {
  std::filesystem::path folder;                            // that holds the weights
  std::vector<std::pair<std::string, std::string>> texts;  // small files that go with them, README.md among them
  std::vector<std::string> left_out;                       // what else is there
  CardFacts facts;
  bool has_card() const;
};

// where: a run folder (checkpoint: latest, best or a step), a checkpoint, a model or adapter folder, or org/name in
// the Hugging Face cache. Every byte of what has a manifest is looked at. Error(usage, checkpoint).
ExportSource export_source(const std::string& where, const std::optional<std::string>& checkpoint);

}  // namespace hone::cli
