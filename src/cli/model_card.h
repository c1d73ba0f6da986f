// README.md of an exported model: front matter that the hub reads, and what the run says of itself.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/upload_command.h"
#include "hone/config_read.h"
#include "hone/recipe.h"

namespace hone::cli {

// What only people know.
struct CardFlags : UploadFlags {
  using Base = UploadFlags;
  std::string license, base_model;
  std::vector<std::string> dataset, language, tag;
  static constexpr auto fields() {
    using C = CardFlags;
    return std::tuple_cat(
        std::tuple{field("license", &C::license, "Model card: the license, as the hub names it: apache-2.0."),
                   field("base_model", &C::base_model,
                         "Model card: the model on the hub that this one comes from; of an adapter also in "
                         "adapter_config.json. Default: the recipe's model.path where it is such a name."),
                   field("dataset", &C::dataset, "Model card: a data set on the hub; may be given several times."),
                   field("language", &C::language, "Model card: a language, as en; may be given several times."),
                   field("tag", &C::tag, "Model card: a tag besides hone's own; may be given several times.")},
        Base::fields());
  }
};

// What is exported, as the card tells it.
struct CardFacts {
  std::string name;                      // on the hub
  std::string architecture, model_type;  // config.json's
  std::string task = "text-generation";  // the hub's pipeline_tag
  std::string dtype;                     // "bfloat16"
  std::int64_t parameters = 0;
  bool adapter = false, merged = false;
  bool chat = false;             // it has a chat template
  std::string base;              // of an adapter; "": as the flags say
  std::optional<Recipe> recipe;  // of the run; nothing: it comes from no run
  std::int64_t step = 0, steps = 0, tokens = 0, ranks = 1;
  nlohmann::json log = nlohmann::json::array();    // trainer_state.json's log_history
  nlohmann::json tests = nlohmann::json::array();  // lines of the run's test.jsonl of this checkpoint
  std::string changed;  // what was done to the weights after they were evaluated: "quantized to nf4"; "": nothing
};

// org/name of what it comes from, or "".
std::string base_on_hub(const CardFacts& facts, const CardFlags& flags);
// The whole file.
std::string model_card(const CardFacts& facts, const CardFlags& flags);

}  // namespace hone::cli
