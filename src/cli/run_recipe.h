// What the run said that a model is of: how its data were read, which its folder does not keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hone/config.h"
#include "hone/hub.h"

namespace hone::cli {

class RunRecipe {
 public:
  RunRecipe() = default;  // of no run
  // The recipe beside the weights, or the run's own, where the folder is one of its checkpoints; none of another one.
  explicit RunRecipe(const ModelPlace& place);
  // The option's text, where the run's objective is this one, and says it; nullopt: no, or it is no such run.
  std::optional<std::string> option(std::string_view objective, std::string_view section, std::string_view key) const;
  std::optional<std::int64_t> number(std::string_view objective, std::string_view section, std::string_view key) const;
  // Whether the run's objective is this one.
  bool is_of(std::string_view objective) const;
  std::optional<std::int64_t> max_length() const;  // the run's data.max_length, whatever its objective

 private:
  config::Node root_;
};

}  // namespace hone::cli
