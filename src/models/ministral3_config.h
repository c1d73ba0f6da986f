// What config.json of a Ministral 3 may say: Llama's keys, and how queries grow.
#pragma once

#include <string>

#include "models/llama_config.h"

namespace hone::models {

struct Ministral3Config : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const Ministral3Config& given, Problems& problems);
config::Node to_hf_config(const Ministral3Config& config, const LlamaShape& shape, const std::string& dtype);

}  // namespace hone::models
