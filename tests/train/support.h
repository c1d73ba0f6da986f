// What the training tests share: a small recipe, tensors of a safetensors file, comparisons of two runs.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/safetensors.h"
#include "hone/trainer.h"
#include "tensor/dtype.h"

namespace hone::test {

inline std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& path) {
  const Safetensors file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) {
    at::Tensor tensor = at::empty(info.shape, at::TensorOptions().dtype(*from_safetensors_name(info.dtype)));
    file.read(info, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    tensors[info.name] = tensor;
  }
  return tensors;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
inline nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_text(path)); }

// The lines of a run's metrics.jsonl.
inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}
// Those of one name.
inline std::vector<double> values(const std::filesystem::path& run, const std::string& name) {
  std::vector<double> all;
  for (const nlohmann::json& line : metrics_of(run))
    if (line.contains(name)) all.push_back(line[name]);
  return all;
}
// The lines without the fields that differ between two equal runs, one string per line.
inline std::vector<std::string> fixed_metrics_of(const std::filesystem::path& run) {
  std::vector<std::string> lines;
  for (nlohmann::json line : metrics_of(run)) {
    for (const std::string& name : nondeterministic_metrics()) line.erase(name);
    lines.push_back(line.dump());
  }
  return lines;
}

inline std::string step_folder(std::int64_t step) { return fmt::format("checkpoints/step-{:08d}", step); }

// Both runs ended with the same weights, optimizer and callback state, metrics and log history, bit for bit.
inline void expect_equal_runs(const std::filesystem::path& a, const std::filesystem::path& b, std::int64_t step) {
  const std::string folder = step_folder(step);
  for (const char* name : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors", "trainer_state.json"}) {
    const std::string one = read_text(a / folder / name), other = read_text(b / folder / name);
    EXPECT_FALSE(one.empty()) << name;
    EXPECT_TRUE(one == other) << name << " differs between " << a << " and " << b;
  }
  const auto callbacks = [&](const std::filesystem::path& run) {
    return read_json(run / folder / "state/train.json")["callbacks"].dump();
  };
  EXPECT_EQ(callbacks(a), callbacks(b));
  const char* tensors = "state/callbacks.safetensors";
  EXPECT_TRUE(read_text(a / folder / tensors) == read_text(b / folder / tensors)) << tensors;
  EXPECT_EQ(fixed_metrics_of(a), fixed_metrics_of(b));
}

// Sentences of different lengths, one JSON line each.
inline std::string story_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string text = "The " + std::to_string(i * 37 % 101) + "th day:";
    for (int w = 0; w < i * 7 % 11; ++w) text += " word" + std::to_string((i + w) % 13);
    lines += "{\"text\": \"" + text + ".\"}\n";
  }
  return lines;
}

using Overrides = std::vector<std::pair<std::string, std::string>>;

// A run of one step has no room for the recipe's warm-up of two, and one that holds nothing out evaluates nothing.
inline Overrides without_contradictions(Overrides overrides) {
  const auto given = [&](const std::string& option) {
    return std::find_if(overrides.begin(), overrides.end(), [&](const auto& one) { return one.first == option; });
  };
  const auto steps = given("trainer.steps"), held_out = given("data.eval.held_out");
  const bool single = steps != overrides.end() && steps->second == "1";
  const bool blind = held_out != overrides.end() && held_out->second == "0";
  if (single && given("optimizer.schedule.warmup_steps") == overrides.end())
    overrides.insert(overrides.begin(), {"optimizer.schedule.warmup_steps", "1"});
  if (blind && given("trainer.eval_every") == overrides.end())
    overrides.insert(overrides.begin(), {"trainer.eval_every", "0"});
  return overrides;
}

// A fresh two-layer model on bytes, 10 steps of 4 x 1 rows, held-out evaluation; `overrides` change it.
inline Recipe small_recipe(const TempFolder& folder, const Overrides& overrides = {}) {
  const std::string yaml = fmt::format(
      "model: {{type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4,\n"
      "        num_key_value_heads: 2, max_position_embeddings: 256}}\n"
      "tokenizer: bytes\n"
      "data: {{train: {0}/train.jsonl, eval: {{held_out: 0.2}}, max_length: 64}}\n"
      "optimizer: {{type: adamw, learning_rate: 1e-2, schedule: {{type: cosine, warmup_steps: 2}}}}\n"
      "trainer: {{batch_size: 4, steps: 10, precision: fp32, eval_every: 5, log_every: 1, save: {{every: 4, keep: "
      "0}}}}\n"
      "run: {{folder: {0}/run, seed: 3}}\n",
      folder.path().string());
  static std::mutex reading;  // ranks are threads here, and each asks for its recipe
  const std::lock_guard lock(reading);
  if (!std::filesystem::exists(folder / "train.jsonl")) folder.write("train.jsonl", story_lines(60));
  const std::filesystem::path path = folder.write("recipe.yaml", yaml);
  return read_recipe(path.string(), without_contradictions(overrides));
}

// A fresh model with routed experts in its second and fourth layer, for the option `model`; `more`: further keys.
inline std::string routed_model(const std::string& more = "") {
  return "{type: qwen3_moe, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 4, num_attention_heads: 2, "
         "num_key_value_heads: 1, max_position_embeddings: 256, num_experts: 6, num_experts_per_tok: 2, "
         "moe_intermediate_size: 20, decoder_sparse_step: 2, norm_topk_prob: true" +
         more + "}";
}

inline TrainOptions quiet_options() {
  TrainOptions options;
  options.quiet = true;
  log::set_level(log::Level::warning);
  return options;
}

}  // namespace hone::test
