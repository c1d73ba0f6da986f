// Writes a model as a Hugging Face folder.
#include "hub/save.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "hone/config_read.h"
#include "tensor/dtype.h"

namespace hone::hub {
namespace {

constexpr std::uint64_t kTextLimit = 16'000'000;

// transformers makes the same from config.json when a folder has none.
std::string made_generation_config(const config::Node& hf_config) {
  config::Node node = config::Node::map();
  node.at_or_add("_from_model_config") = config::Values<bool>::write(true);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const config::Node* value = hf_config.find(key); value && !value->is_null()) node.at_or_add(key) = *value;
  return config::to_json(node) + "\n";
}

// Adds a token to eos_token_id, which is an id, a list of ids, or absent: then the model's own counts as well.
std::string with_end(const std::string& generation_config, const config::Node& hf_config, std::int32_t end) {
  Problems problems;
  config::Node node = config::parse_json(generation_config, "generation_config.json", problems);
  problems.require(node.is_map(), "generation_config.json", "expected an object");
  problems.raise("the model");
  config::Node& ids = node.at_or_add("eos_token_id");
  const config::Node* own = hf_config.find("eos_token_id");
  const bool given = !ids.is_null();
  if (!given && own) ids = *own;
  if (ids.kind() != config::Node::Kind::list)
    ids = config::Node::list(ids.is_null() ? std::vector<config::Node>{} : std::vector{ids});
  const config::Node added = config::Values<std::int64_t>::write(end);
  const bool known = std::any_of(ids.items().begin(), ids.items().end(),
                                 [&](const config::Node& id) { return id.text() == added.text(); });
  if (known && given) return generation_config;
  if (!known) ids.items().push_back(added);
  return config::to_json(node) + "\n";
}

std::string generation_config(const std::filesystem::path& source, const config::Node& hf_config) {
  std::error_code ignored;
  const std::filesystem::path file = source / "generation_config.json";
  if (source.empty() || !std::filesystem::is_regular_file(file, ignored)) return made_generation_config(hf_config);
  return InFile(file).read_all(kTextLimit);
}

}  // namespace

ModelFiles model_files(Model& model, const std::filesystem::path& source, const Tokenizer* tokenizer,
                       std::optional<std::int32_t> turn_end) {
  const config::Node config = model.hf_config();
  ModelFiles files;
  files.texts.emplace_back("config.json", config::to_json(config) + "\n");
  files.texts.emplace_back("generation_config.json", generation_config(source, config));
  if (turn_end) files.texts.back().second = with_end(files.texts.back().second, config, *turn_end);
  if (!tokenizer) return files;
  std::set<std::string> names{"config.json", "generation_config.json"};
  for (const auto& [name, content] : tokenizer->files)
    if (names.insert(name).second) files.texts.emplace_back(name, content);
  return files;
}

std::vector<io::TensorSpec> tensor_specs(Model& model) {
  std::vector<io::TensorSpec> specs;
  model.each_weight([&](const std::string& name, Weight& weight) {
    specs.push_back({name, safetensors_name(weight.use().scalar_type()), weight.shape()});
  });
  return specs;
}

io::TensorBytes weight_bytes(Model& model) {
  auto weights = std::make_shared<std::map<std::string, Weight*>>();
  model.each_weight([&](const std::string& name, Weight& weight) { weights->emplace(name, &weight); });
  auto held = std::make_shared<Tensor>();  // what the span points into, until the next call
  return [weights, held](const io::TensorSpec& spec) {
    *held = weights->at(spec.name)->use().detach().to(at::kCPU).contiguous();
    return std::span<const std::byte>(static_cast<const std::byte*>(held->const_data_ptr()), held->nbytes());
  };
}

void add_model(io::FolderCommit& commit, Model& model, const ModelFiles& files) {
  for (const auto& [name, content] : files.texts) commit.add_file(name, content);
  commit.add_model({.tensors = tensor_specs(model), .max_shard_bytes = files.max_shard_bytes}, weight_bytes(model));
}

void save_model_folder(const std::filesystem::path& folder, Model& model, const ModelFiles& files,
                       SaveOptions options) {
  io::FolderCommit commit = io::commit_to(folder, options.replace);
  add_model(commit, model, files);
  commit.commit({});
}

}  // namespace hone::hub
